import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { Gate, gatedTool } from "./testing/gate.ts";
import { ServedRack, toolFile } from "./testing/served-rack.ts";
import { StdioPeer } from "./testing/stdio-peer.ts";
import { surfaceParts } from "./testing/surface-parts.ts";

let rack: ServedRack;

beforeAll(async () => {
  rack = await ServedRack.open({
    "tools/all.ts": toolFile(
      gatedTool,
      'name: "quick", execute: async () => "quick"',
      'name: "says", execute: async ({ progress }) => { progress(1); return "said"; }',
    ),
  });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

const request = (id: unknown, method: string, params: object = {}) => ({
  jsonrpc: "2.0",
  id,
  method,
  params,
});
const call = (id: unknown, name: string, others: object = {}) =>
  request(id, "tools/call", { name, arguments: {}, ...others });
const running = () => rack.serving.app.registry.activeCalls().length;
const idsOf = (answers: { id: unknown }[]) => answers.map(({ id }) => id).sort();

async function connect(protocolVersion: string) {
  const surface = await surfaceParts(rack);
  const peer = new StdioPeer();
  const connection = await surface.stdio(peer.streams);
  await peer.initialize(protocolVersion);
  return { peer, [Symbol.asyncDispose]: () => connection.close() };
}

test("a batch is answered in one line, whichever way its requests go", async () => {
  await using connection = await connect("2025-03-26");
  const { peer } = connection;
  peer.sendBatch([
    request(4, "ping"),
    { jsonrpc: "2.0", method: "notifications/initialized" },
    call("5", "quick"),
    call(6, "says", { _meta: { progressToken: "p" } }),
    request(7, "tools/list"),
    request(8, "no/such"),
    5,
  ]);
  const answers = await peer.next(Array.isArray);
  expect(idsOf(answers)).toEqual([4, "5", 6, 7, 8, null]);
  const byId = (id: unknown) => answers.find((answer: { id: unknown }) => answer.id === id);
  expect(byId("5").result.content[0].text).toBe("quick");
  expect([byId(8).error.code, byId(null).error.code]).toEqual([-32601, -32600]);
  expect(peer.messages.map(({ method }) => method)).toContain("notifications/progress");
  peer.sendBatch([request(4, "ping")]);
  expect(await peer.next(Array.isArray)).toEqual([{ jsonrpc: "2.0", id: 4, result: {} }]);
});

test("what is cancelled is left out of the answer, and a batch of notifications has none", async () => {
  const gate = new Gate();
  await using connection = await connect("2025-03-26");
  const { peer } = connection;
  const cancelled = (requestId: unknown) => ({
    jsonrpc: "2.0",
    method: "notifications/cancelled",
    params: { requestId },
  });
  peer.sendBatch([call(1, "gated"), call(2, "quick"), call(3, "quick"), cancelled(3)]);
  await vi.waitUntil(() => running() === 1);
  peer.sendBatch([cancelled(1)]);
  expect(idsOf(await peer.next(Array.isArray))).toEqual([2]);
  gate.open();
  expect(peer.messages.filter(Array.isArray)).toHaveLength(1);
});

test("an id that is under way is refused within the batch", async () => {
  const gate = new Gate();
  await using connection = await connect("2025-03-26");
  const { peer } = connection;
  peer.send(call(1, "gated"));
  await vi.waitUntil(() => running() === 1);
  peer.sendBatch([request(1, "ping"), request(2, "ping")]);
  const answers = await peer.next(Array.isArray);
  expect(answers).toEqual([
    { jsonrpc: "2.0", id: 1, error: { code: -32600, message: expect.stringContaining("under way") } },
    { jsonrpc: "2.0", id: 2, result: {} },
  ]);
  gate.open();
  expect((await peer.next(({ id }) => id === 1)).result.content[0].text).toBe("done");
});

test("a batch may have only so many messages", async () => {
  await using connection = await connect("2025-03-26");
  const { peer } = connection;
  peer.sendBatch(Array.from({ length: 101 }, (_, id) => request(id, "ping")));
  const { error } = await peer.next(({ id }) => id === null);
  expect(error).toEqual({ code: -32600, message: expect.stringContaining("100") });
});

test.each(["2024-11-05", "2025-06-18", "2025-11-25"])("the version %s has no batches", async (version) => {
  await using connection = await connect(version);
  const { peer } = connection;
  peer.sendBatch([request(4, "ping")]);
  const { id, error } = await peer.next((message) => message.error !== undefined);
  expect([id, error.code]).toEqual([null, -32600]);
});
