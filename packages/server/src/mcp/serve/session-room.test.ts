import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { masterGrant } from "../../access/grants.ts";
import { McpMount } from "./http.ts";
import type { SessionLimits } from "./http-sessions.ts";
import { JoinedClients } from "./stdio.ts";
import { Gate, gatedTool } from "./testing/gate.ts";
import { serveMount } from "./testing/serve-mount.ts";
import { ServedRack, toolFile } from "./testing/served-rack.ts";
import { surfaceParts } from "./testing/surface-parts.ts";

let rack: ServedRack;

beforeAll(async () => {
  rack = await ServedRack.open({
    "tools/all.ts": toolFile(
      gatedTool,
      `name: "fails", execute: async () => { await globalThis.${Gate.global}.promise; throw new Error("No."); }`,
    ),
  });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

const running = () => rack.serving.app.registry.activeCalls().length;

async function serve(sessions?: SessionLimits) {
  const { serving } = await surfaceParts(rack);
  const served = await serveMount(new McpMount(serving, new JoinedClients(serving), sessions), masterGrant);
  const post = (message: unknown, headers: Record<string, string> = {}, signal?: AbortSignal) =>
    fetch(`${served.url}/mcp`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...headers,
      },
      body: JSON.stringify(message),
      ...(signal === undefined ? {} : { signal }),
    });
  const clientInfo = { name: "t", version: "1" };
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
  const initialize = { jsonrpc: "2.0", id: 1, method: "initialize", params };
  return { ...served, post, initialize };
}

test("a session whose client left before it was answered is not busy, even if the tool goes on", async () => {
  const gate = new Gate();
  await using served = await serve({ most: 1, idle: 60_000 });
  const opened = await served.post(served.initialize);
  await opened.text();
  const session = { "mcp-session-id": opened.headers.get("mcp-session-id") ?? "" };
  const gone = new AbortController();
  const params = { name: "fails", arguments: {} };
  const call = { jsonrpc: "2.0", id: 2, method: "tools/call", params };
  const left = served.post(call, session, gone.signal).catch(() => "left");
  await vi.waitUntil(() => running() === 1);
  gone.abort();
  expect(await left).toBe("left");
  await vi.waitUntil(async () => (await served.post(served.initialize)).status === 200);
  gate.open();
});

test("what never becomes a session leaves nothing behind", async () => {
  let listeners = 0;
  const { offerings } = rack.serving.app;
  const subscribe = offerings.subscribe.bind(offerings);
  const counted = vi.spyOn(offerings, "subscribe").mockImplementation((listener) => {
    const stop = subscribe(listener);
    listeners++;
    return () => {
      listeners--;
      stop();
    };
  });
  await using served = await serve({ most: 2, idle: 60_000 });
  const before = listeners;
  for (let at = 0; at < 5; at++) {
    const broken = await served.post({ jsonrpc: "2.0", id: 1, method: "initialize", params: {} });
    expect(broken.status).toBe(400);
    const unwanted = await served.post(served.initialize, { accept: "text/html" });
    expect(unwanted.status).toBe(406);
  }
  await vi.waitUntil(() => listeners === before);
  counted.mockRestore();
});

test("a batch that is too large is refused as a whole, and says how large it may be", async () => {
  await using served = await serve();
  const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
  const response = await served.post(Array(101).fill(ping));
  expect(response.status).toBe(400);
  expect(await response.json()).toMatchObject({
    error: { code: -32600, message: expect.stringContaining("100 messages") },
  });
});

test("a batch of nothing is refused", async () => {
  await using served = await serve();
  const response = await served.post([]);
  expect(response.status).toBe(400);
  expect(await response.json()).toMatchObject({ error: { code: -32600 } });
});

test("a message with nearly as many members as a body may have in its _meta is read in one go", async () => {
  new Gate().open();
  await using served = await serve();
  const members = Array.from({ length: 90_000 }, (_, at) => [`member${at}`, "x"] as const);
  const params = { name: "gated", arguments: {}, _meta: Object.fromEntries(members) };
  const response = await served.post({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
  expect(await response.json()).toMatchObject({ result: { content: [{ text: "done" }] } });
});
