import { createServer } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, it } from "vitest";
import { sendRequest } from "./http-client.ts";
import { lostConnection } from "./http-errors.ts";

const LIMIT = 10_000;
const sockets = new Set<Socket>();

/** Answers in pieces of 100 bytes, as many as the address says. */
const server = createServer((incoming, outgoing) => {
  sockets.add(incoming.socket);
  const [, kind, pieces = "0"] = (incoming.url ?? "").split("/");
  if (kind === "silent") return;
  if (kind === "continue") outgoing.writeContinue();
  if (kind === "broken") return void incoming.socket.destroy();
  const text = "x".repeat(Number(pieces) * 100);
  if (kind === "known") return void outgoing.writeHead(200, { "content-length": text.length }).end(text);
  if (kind === "zipped")
    return void outgoing.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync(text));
  outgoing.writeHead(kind === "error" ? 500 : 200);
  for (let index = 0; index < Number(pieces); index++) outgoing.write("x".repeat(100));
  outgoing.end();
});
const send = (path: string, signals: AbortSignal[] = []) => {
  const { port } = server.address() as AddressInfo; // A server that listens on a port has such an address.
  return sendRequest(new URL(`http://127.0.0.1:${port}/${path}`), { method: "GET", headers: {}, signals });
};
const read = async (path: string) => (await (await send(path)).text(LIMIT)).length;

beforeAll(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve)));
afterAll(() => {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(resolve));
});

it("gives an answer that is not too large, compressed or not", async () => {
  expect([await read("json/50"), await read("known/50"), await read("zipped/50")]).toEqual([
    5_000, 5_000, 5_000,
  ]);
});

it.each(["json/200", "known/200", "error/200", "zipped/200"])("ends %s, which is too large", async (path) => {
  await expect(read(path)).rejects.toThrow(/larger than 10000 bytes/);
});

it("passes over the status 100, which says only to go on", async () => {
  expect([await read("continue/3"), await read("continue/2")]).toEqual([300, 200]);
});

it("uses a connection again, also when nobody wanted the answer", async () => {
  sockets.clear();
  for (let round = 0; round < 20; round++) {
    (await send("known/1")).cancel();
    await read("known/1");
  }
  // A connection that has just been used may not be free yet, so there is more than one.
  expect(sockets.size).toBeLessThan(20);
});

it("ends a request by each of its signals, and says which failures are those of the connection", async () => {
  const [first, second] = [new AbortController(), new AbortController()];
  const asked = send("silent", [first.signal, second.signal]);
  second.abort();
  const stopped = await asked.catch((thrown: unknown) => thrown);
  expect(stopped).toMatchObject({ name: "AbortError" });
  expect(lostConnection(stopped)).toBeUndefined();
  const broken = await send("broken").catch((thrown: unknown) => thrown);
  expect(lostConnection(broken)).toMatchObject({ kind: "broken" });
  const nobody = await sendRequest(new URL("http://127.0.0.1:1/"), { method: "GET", headers: {} }).catch(
    (thrown: unknown) => thrown,
  );
  expect(lostConnection(nobody)).toMatchObject({ kind: "unavailable" });
});

it("asks no address with a password in it", async () => {
  const url = new URL("http://somebody:word@127.0.0.1:1/");
  await expect(sendRequest(url, { method: "GET", headers: {} })).rejects.toThrow(/Use a header/);
});
