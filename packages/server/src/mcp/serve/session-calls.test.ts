import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { masterGrant } from "../../access/grants.ts";
import { Caller } from "./caller.ts";
import { HttpSessions } from "./http-sessions.ts";
import { ClientRequest } from "./session.ts";
import { initializeParams } from "./testing/initialize-params.ts";
import { ServedRack, toolFile } from "./testing/served-rack.ts";
import { surfaceParts } from "./testing/surface-parts.ts";

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
  const { serving } = await surfaceParts(rack);
  const sessions = new HttpSessions(serving, { most: 1, idle: 20 });
  const caller = new Caller(masterGrant);
  const first = sessions.open(caller, initializeParams)!;
  const cancel = vi.fn();
  const reply = {
    flow: undefined,
    waitForRoom: () => undefined,
    send() {},
    end() {},
  };
  const ping = { kind: "request", id: 1, method: "ping", params: {}, meta: {} } as const;
  const request = new ClientRequest(ping, first, reply, first.requests);
  request.onCancel = cancel;
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(sessions.open(caller, initializeParams)).toBeUndefined();
  expect(sessions.size).toBe(1);
  request.result({});
  await vi.waitUntil(() => sessions.size === 0);
  expect(cancel).not.toHaveBeenCalled();
  sessions.close();
});
