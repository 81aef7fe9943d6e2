import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { boundedFetch, tooLargeIn } from "./http.ts";

const LIMIT = 10_000;

/** Answers in pieces of 100 bytes, as many as the address says. */
const server = createServer((incoming, outgoing) => {
  const [, kind, pieces = "0"] = (incoming.url ?? "").split("/");
  if (kind === "known") {
    outgoing.writeHead(200, { "content-type": "application/json" }).end("x".repeat(Number(pieces) * 100));
    return;
  }
  const isStream = kind !== "json";
  outgoing.writeHead(kind === "error" ? 500 : 200, {
    "content-type": isStream ? "text/event-stream" : "application/json",
  });
  const piece = kind === "events" ? `data: ${"x".repeat(92)}\n\n` : "x".repeat(100);
  for (let index = 0; index < Number(pieces); index++) outgoing.write(piece);
  outgoing.end();
});
const read = async (path: string) => {
  const { port } = server.address() as AddressInfo;
  const response = await boundedFetch(LIMIT)(`http://127.0.0.1:${port}/${path}`);
  return (await response.text()).length;
};

beforeAll(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve)));
afterAll(() => new Promise((resolve) => server.close(resolve)));

it("gives an answer that is not too large, and a stream whose events are not", async () => {
  expect(await read("json/50")).toBe(5_000);
  expect(await read("known/50")).toBe(5_000);
  expect(await read("events/1000")).toBe(100_000);
});

it.each(["json/200", "known/200", "event/200", "error/200"])("ends %s, which is too large", async (path) => {
  await expect(read(path)).rejects.toThrow(/larger than 10000 bytes/);
});

it("says what was too large, also inside another message", () => {
  const error = new Error(
    "SSE stream disconnected: UpstreamError: The server's answer is larger than 64 MB.",
  );
  expect(tooLargeIn(error)).toBe("The server's answer is larger than 64 MB.");
  expect(tooLargeIn(new Error("anything else"))).toBeUndefined();
});
