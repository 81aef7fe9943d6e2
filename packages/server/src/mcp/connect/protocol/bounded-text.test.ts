import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { sendRequest } from "./http-client.ts";

const LIMIT = 10_000;

/** Answers in pieces of 100 bytes, as many as the address says. */
const server = createServer((incoming, outgoing) => {
  const [, kind, pieces = "0"] = (incoming.url ?? "").split("/");
  if (kind === "known") {
    outgoing.writeHead(200).end("x".repeat(Number(pieces) * 100));
    return;
  }
  outgoing.writeHead(kind === "error" ? 500 : 200);
  for (let index = 0; index < Number(pieces); index++) outgoing.write("x".repeat(100));
  outgoing.end();
});
const read = async (path: string) => {
  const { port } = server.address() as AddressInfo;
  return (
    await (
      await sendRequest(new URL(`http://127.0.0.1:${port}/${path}`), { method: "GET", headers: {} })
    ).text(LIMIT)
  ).length;
};

beforeAll(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve)));
afterAll(() => new Promise((resolve) => server.close(resolve)));

it("gives an answer that is not too large", async () => {
  expect([await read("json/50"), await read("known/50")]).toEqual([5_000, 5_000]);
});

it.each(["json/200", "known/200", "error/200"])("ends %s, which is too large", async (path) => {
  await expect(read(path)).rejects.toThrow(/larger than 10000 bytes/);
});
