import { afterAll, beforeAll, expect, test } from "vitest";
import { issueToken } from "../../access/tokens.ts";
import { ServedRack, toolFile } from "./testing/served-rack.ts";

let rack: ServedRack;

beforeAll(async () => {
  rack = await ServedRack.open({
    "tools/all.ts": toolFile(
      'name: "weather", execute: async () => "sunny"',
      'name: "gated", execute: async () => { await globalThis.streamGate.promise; return "done"; }',
    ),
  });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

const issue = (options: object = {}) =>
  issueToken(rack.serving.store.tokens, { name: "t", scopes: { tools: ["*"] }, ...options });

/** Both kinds of streams that are there to be told things. */
async function openStreams(token: string): Promise<Response[]> {
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } };
  const initialize = { jsonrpc: "2.0", id: 1, method: "initialize", params };
  const opened = await rack.post("legacy", initialize, { token });
  const ofSession = await fetch(`${rack.serving.url}/mcp`, {
    headers: {
      authorization: `Bearer ${token}`,
      accept: "text/event-stream",
      "mcp-session-id": opened.headers.get("mcp-session-id") ?? "",
    },
  });
  const listening = await Promise.all(
    [{}, { resourceSubscriptions: ["note://none"] }].map((others) => listen(token, others)),
  );
  return [ofSession, ...listening];
}

function listen(token: string, others: object): Promise<Response> {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": { name: "t", version: "1" },
  };
  const params = { notifications: { toolsListChanged: true, ...others }, _meta };
  return fetch(`${rack.serving.url}/mcp`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "subscriptions/listen",
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "subscriptions/listen", params }),
  });
}

test("streams end when their token is taken back, and calls under way are answered", async () => {
  const gate = Promise.withResolvers<void>();
  Object.assign(globalThis, { streamGate: gate });
  const { token, stored } = await issue();
  const call = rack.call("modern", "gated", {}, { token });
  const streams = await openStreams(token);
  expect(streams.map(({ status }) => status)).toEqual([200, 200, 200]);
  await rack.serving.store.tokens.remove(stored.id);
  for (const stream of streams) await stream.text();
  gate.resolve();
  expect((await call).message.result.content).toEqual([{ type: "text", text: "done" }]);
});

test("streams end when their token expires", async () => {
  const { token } = await issue({ expiresAt: Date.now() + 2_000 });
  for (const stream of await openStreams(token)) await stream.text();
});

test("streams of tokens that are good go on", async () => {
  const { token } = await issue();
  const { stored: another } = await issue();
  const streams = await openStreams(token);
  const ended = Promise.race(streams.map((stream) => stream.text().then(() => "ended")));
  await rack.serving.store.tokens.remove(another.id);
  const later = new Promise((resolve) => setTimeout(resolve, 2_500, "open"));
  expect(await Promise.race([ended, later])).toBe("open");
});
