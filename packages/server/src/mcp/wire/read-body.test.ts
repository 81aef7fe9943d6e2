import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { expect, test } from "vitest";
import { readBody } from "./http.ts";

/** What is read of a request that is sent as this text; its connection is cut after that when `isCut`. */
async function read(text: string, { limit = 1_000, isCut = false, pause = Promise.resolve() } = {}) {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1"); // A server that listens has one.
  const requested = once(server, "request") as Promise<[IncomingMessage]>;
  socket.write(text);
  const [incoming] = await requested;
  const cut = () => {
    if (isCut) socket.resetAndDestroy();
  };
  const begun = pause.then(() => readBody(incoming, limit));
  cut();
  const message = await begun;
  socket.destroy();
  server.close();
  return message;
}

const post = (length: number | string, body: string) =>
  `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n${body}`;

test("a body is read whole, in whatever language", async () => {
  expect(await read(post(5, "hello"))).toBe("hello");
  expect(await read(post(6, "你好"))).toBe("你好");
});

test("a body that breaks off is known to be broken", async () => {
  expect(await read(post(500, "half of it"), { isCut: true })).toMatchObject({ status: 400 });
});

test("so is one whose sender has gone before anybody reads it", async () => {
  const pause = new Promise<void>((resolve) => setTimeout(resolve, 50));
  expect(await read(post(500, "half of it"), { isCut: true, pause })).toMatchObject({
    status: 400,
  });
});

test("one that is too large is refused, by what it says or by what it is", async () => {
  expect(await read(post(2_000, "x"))).toMatchObject({ status: 413 });
  expect(await read(post(900, "x".repeat(900)), { limit: 10 })).toMatchObject({ status: 413 });
  const chunks = `POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7D0\r\n${"x".repeat(2_000)}\r\n0\r\n\r\n`;
  expect(await read(chunks)).toMatchObject({ status: 413 });
});
