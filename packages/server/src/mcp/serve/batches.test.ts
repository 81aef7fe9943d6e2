import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { Gate, gatedTool } from "./testing/gate.ts";
import { openLegacySession } from "./testing/legacy-session.ts";
import { ServedRack, toolFile } from "./testing/served-rack.ts";

let rack: ServedRack;

beforeAll(async () => {
  rack = await ServedRack.open({
    "tools/all.ts": toolFile(
      gatedTool,
      'name: "quick", execute: async () => "quick"',
      'name: "endless", execute: ({ signal }) => new Promise((_, end) => signal.addEventListener("abort", end))',
    ),
  });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

const openSession = () => openLegacySession(rack, { protocolVersion: "2025-03-26" });
const running = () => rack.serving.app.registry.activeCalls().length;
const call = (id: unknown, name: string) => ({
  jsonrpc: "2.0",
  id,
  method: "tools/call",
  params: { name, arguments: {} },
});
const cancel = (requestId: unknown) => ({
  jsonrpc: "2.0",
  method: "notifications/cancelled",
  params: { requestId },
});
const idsOf = (messages: readonly unknown[]) => messages.map((message) => (message as { id: unknown }).id);

test("a cancellation ends nothing but its own request: the others of the batch are answered, and then the stream ends", async () => {
  const gate = new Gate();
  const session = await openSession();
  const batch = session.postAll([call(1, "gated"), call(2, "endless"), call(3, "quick")]);
  await vi.waitUntil(() => running() === 2);
  expect((await session.post(cancel(2))).status).toBe(202);
  await vi.waitUntil(() => running() === 1);
  gate.open();
  const { messages } = await batch;
  expect(idsOf(messages).toSorted()).toEqual([1, 3]);
});

test("a stream ends at once when all that it waits for has been cancelled", async () => {
  const gate = new Gate();
  const session = await openSession();
  // One of them would go on, and come with a result when nobody waits for it.
  const batch = session.postAll([call(1, "gated"), call(2, "endless"), call(3, "quick")]);
  await vi.waitUntil(() => running() === 2);
  await session.post([cancel(1), cancel(2)]);
  const { messages } = await batch;
  expect(idsOf(messages)).toEqual([3]);
  gate.open();
});

test("a batch that cancels a request of another one as well ends that one's stream while its own goes on", async () => {
  const gate = new Gate();
  const session = await openSession();
  const first = session.postAll([call(1, "endless")]);
  await vi.waitUntil(() => running() === 1);
  const second = session.postAll([cancel(1), call(2, "gated")]);
  expect((await first).messages).toEqual([]);
  expect(running()).toBe(1);
  gate.open();
  expect(idsOf((await second).messages)).toEqual([2]);
});

test("what a batch asks for and cancels again is not begun, in a session and without one", async () => {
  const session = await openSession();
  const recorded = async () => (await rack.serving.store.calls.list({})).items.length;
  const before = await recorded();
  expect((await session.postAll([call(1, "endless"), cancel(1)])).messages).toEqual([]);
  const { messages } = await session.postAll([call(1, "endless"), call(2, "quick"), cancel(1)]);
  expect(idsOf(messages)).toEqual([2]);
  const alone = await rack.post("legacy", [call(1, "endless"), cancel(1)]);
  expect(alone).toMatchObject({ status: 200, text: "" });
  await vi.waitUntil(async () => (await recorded()) === before + 1);
});

test("a cancellation that comes before its request in a batch does not reach it", async () => {
  const session = await openSession();
  const { messages } = await session.postAll([cancel(1), call(1, "quick")]);
  expect(idsOf(messages)).toEqual([1]);
});

test.each(["2025-06-18", "2025-11-25"])(
  "%s has no batches: one is refused whole, in a session and without one",
  async (protocolVersion) => {
    const session = await openLegacySession(rack, { protocolVersion });
    const call1 = session.post(call(1, "endless"));
    await vi.waitUntil(() => running() === 1);
    const refused = {
      status: 400,
      message: { id: null, error: { code: -32600, message: expect.stringContaining("no batches") } },
    };
    for (const batch of [[call(2, "quick")], [cancel(1)], []]) {
      expect(await session.post(batch)).toMatchObject(refused);
    }
    // What its session was opened with counts.
    const older = { "mcp-protocol-version": "2025-03-26" };
    expect(await session.post([call(2, "quick")], older)).toMatchObject(refused);
    const headers = { "mcp-protocol-version": protocolVersion };
    expect(await rack.post("legacy", [call(2, "quick")], { headers })).toMatchObject(refused);
    expect(running()).toBe(1);
    await session.post(cancel(1));
    await call1;
  },
);
