import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { masterGrant } from "../../../access/grants.ts";
import { Viewer } from "../lists.ts";
import { initializeRequest } from "../testing/initialize-request.ts";
import { ServedRack, toolFile } from "../testing/served-rack.ts";
import { surfaceParts } from "../testing/surface-parts.ts";
import { LegacySessions, SessionCalls } from "./sessions.ts";

let rack: ServedRack;

beforeAll(async () => {
  rack = await ServedRack.open({
    "tools/all.ts": toolFile(
      'name: "endless", execute: ({ signal }) => new Promise((_, end) => signal.addEventListener("abort", end))',
      'name: "late", execute: async ({ elicit }) => { await globalThis.lateGate.promise; return (await elicit("Go on?")).action; }',
    ),
  });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

const running = () => rack.serving.app.registry.activeCalls().length;

async function openSession(protocolVersion = "2025-11-25") {
  const clientInfo = { name: "t", version: "1" };
  const params = { protocolVersion, capabilities: { elicitation: {} }, clientInfo };
  const opened = await rack.post("legacy", { jsonrpc: "2.0", id: "i", method: "initialize", params });
  const headers = {
    "mcp-session-id": opened.headers.get("mcp-session-id") ?? "",
    "mcp-protocol-version": protocolVersion,
  };
  await rack.post("legacy", { jsonrpc: "2.0", method: "notifications/initialized" }, { headers });
  return {
    post: (message: object) => rack.post("legacy", message, { headers }),
    call: (id: number, name: string, _meta?: object) => {
      const params = { name, arguments: {}, ...(_meta === undefined ? {} : { _meta }) };
      return rack.post("legacy", { jsonrpc: "2.0", id, method: "tools/call", params }, { headers });
    },
    async end() {
      const authorization = `Bearer ${rack.token}`;
      const sent = { method: "DELETE", headers: { authorization, ...headers } };
      expect((await fetch(`${rack.serving.url}/mcp`, sent)).status).toBe(200);
    },
  };
}

test("the calls of a session are cancelled with it, whichever way they are answered", async () => {
  const session = await openSession();
  const calls = [session.call(1, "endless"), session.call(2, "endless", { progressToken: "p" })];
  await vi.waitUntil(() => running() === 2);
  await session.end();
  await vi.waitUntil(() => running() === 0);
  await Promise.all(calls);
});

test("a call that would ask something only after its session has ended does not wait for ever", async () => {
  const gate = Promise.withResolvers<void>();
  Object.assign(globalThis, { lateGate: gate });
  const session = await openSession();
  const call = session.call(1, "late");
  await vi.waitUntil(() => running() === 1);
  await session.end();
  gate.resolve();
  await vi.waitUntil(() => running() === 0);
  expect((await call).status).toBe(404);
});

test("a call that the SDK will not go on with is cancelled", async () => {
  const gate = Promise.withResolvers<void>();
  Object.assign(globalThis, { lateGate: gate });
  // The session goes, and for once nobody thinks of its calls.
  const forgotten = vi.spyOn(SessionCalls.prototype, "cancelAll").mockImplementation(() => {});
  const session = await openSession();
  const call = session.call(1, "late");
  await vi.waitUntil(() => running() === 1);
  await session.end();
  expect(running()).toBe(1);
  gate.resolve();
  expect((await call).status).toBe(404);
  await vi.waitUntil(() => running() === 0);
  forgotten.mockRestore();
});

test("a cancellation in a batch reaches its call", async () => {
  const session = await openSession("2025-03-26");
  const call = session.call(6, "endless");
  await vi.waitUntil(() => running() === 1);
  const cancel = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 6 } };
  expect((await session.post([cancel])).status).toBe(202);
  await vi.waitUntil(() => running() === 0);
  await call;
});

test("a cancellation in a batch ends the stream of its call", async () => {
  const session = await openSession("2025-03-26");
  const call = session.call(6, "endless", { progressToken: "p" });
  await vi.waitUntil(() => running() === 1);
  const cancel = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 6 } };
  expect((await session.post([cancel])).status).toBe(202);
  await call;
  await vi.waitUntil(() => running() === 0);
});

test("a session in which a call is under way makes no room for another, and is not given up as idle", async () => {
  const { parts } = await surfaceParts(rack);
  const viewer = new Viewer(masterGrant);
  const sessions = new LegacySessions(parts, { most: 1, idle: 20 });
  const first = await sessions.open(viewer);
  await first?.transport.handleRequest(initializeRequest(), {});
  const exchange = { cancel: vi.fn() };
  first!.calls.add(1, exchange as never); // Nothing else of a call is looked at here.
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(await sessions.open(viewer)).toBeUndefined();
  expect(sessions.size).toBe(1);
  first!.calls.delete(1, exchange as never);
  await vi.waitUntil(() => sessions.size === 0);
  expect(exchange.cancel).not.toHaveBeenCalled();
  sessions.close();
});
