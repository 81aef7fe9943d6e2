import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { Gate, gatedTool } from "./testing/gate.ts";
import { openLegacySession } from "./testing/legacy-session.ts";
import { type Era, ServedRack, toolFile } from "./testing/served-rack.ts";

let rack: ServedRack;

beforeAll(async () => {
  rack = await ServedRack.open({
    "tools/all.ts": toolFile(gatedTool, 'name: "quick", execute: async () => "quick"'),
  });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

const running = () => rack.serving.app.registry.activeCalls().length;
const call = (id: unknown, name = "gated") => ({
  jsonrpc: "2.0",
  id,
  method: "tools/call",
  params: { name, arguments: {} },
});
// The SDK takes this type; the short way takes nothing but the plain one.
const ways = { short: {}, long: { "content-type": "application/json; charset=utf-8" } };
type Way = keyof typeof ways;

const refusal = (id: unknown) => ({
  jsonrpc: "2.0",
  id,
  error: {
    code: -32600,
    message: expect.stringMatching(/is still under way.+Send it again with an id that/),
  },
});
const done = (id: unknown, text = "done") => ({
  jsonrpc: "2.0",
  id,
  result: { content: [{ type: "text", text }] },
});

test.each<[Way, Way]>([
  ["short", "short"],
  ["short", "long"],
  ["long", "short"],
  ["long", "long"],
])("in a session an id that is under way on the %s way is refused on the %s way", async (first, second) => {
  const gate = new Gate();
  const session = await openLegacySession(rack);
  const begun = session.post(call("a"), ways[first]);
  await vi.waitUntil(() => running() === 1);
  const refused = await session.post(call("a"), ways[second]);
  expect(refused.status).toBe(400);
  expect(refused.message).toEqual(refusal("a"));
  const list = { jsonrpc: "2.0", id: "a", method: "tools/list" };
  expect((await session.post(list, ways[second])).message).toEqual(refusal("a"));
  // The same as a number is another id.
  expect((await session.post(call(1, "quick"), ways[second])).message).toEqual(done(1, "quick"));
  expect(running()).toBe(1);
  gate.open();
  expect((await begun).message).toEqual(done("a"));
  expect((await session.post(call("a", "quick"), ways[second])).message).toEqual(done("a", "quick"));
});

test.each<Way>(["short", "long"])(
  "of many requests with one id that come at once on the %s way, one is begun",
  async (way) => {
    const gate = new Gate();
    const session = await openLegacySession(rack);
    let answered = 0;
    const many = Array.from({ length: 8 }, async () => {
      const { message } = await session.post(call(7), ways[way]);
      answered++;
      return message;
    });
    // One that came after the first had ended could have its id.
    await vi.waitUntil(() => answered === 7);
    gate.open();
    const answers = await Promise.all(many);
    expect(answers.filter((answer) => "result" in answer)).toEqual([done(7)]);
    expect(answers.filter((answer) => "error" in answer)).toEqual(Array(7).fill(refusal(7)));
    expect(running()).toBe(0);
  },
);

test.each<Way>(["short", "long"])("an id that was cancelled on the %s way may be used again", async (way) => {
  const gate = new Gate();
  const session = await openLegacySession(rack);
  const first = session.post(call(2), ways[way]);
  await vi.waitUntil(() => running() === 1);
  const cancel = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 2 } };
  expect((await session.post(cancel)).status).toBe(202);
  expect(await first).toMatchObject({ status: 200, text: "" });
  expect((await session.post(call(2, "quick"), ways[way])).message).toEqual(done(2, "quick"));
  gate.open();
});

test.each<[Era, Way]>([
  ["modern", "short"],
  ["modern", "long"],
  ["legacy", "short"],
  ["legacy", "long"],
])("without a session %s requests with one id are all answered on the %s way", async (era, way) => {
  const gate = new Gate();
  const many = Array.from({ length: 3 }, () => rack.post(era, call(1), { headers: ways[way] }));
  await vi.waitUntil(() => running() === 3);
  gate.open();
  for (const { status, message } of await Promise.all(many)) {
    expect(status).toBe(200);
    expect(message).toMatchObject(done(1));
  }
});

test("in a batch, requests with an id that another one has are refused and the others answered", async () => {
  const gate = new Gate();
  const session = await openLegacySession(rack, { protocolVersion: "2025-03-26" });
  const begun = session.post(call(1));
  await vi.waitUntil(() => running() === 1);
  const { status, messages } = await session.postAll([
    call(1),
    call(2, "quick"),
    call(2, "quick"),
    call(3, "quick"),
  ]);
  expect(status).toBe(200);
  expect(messages).toHaveLength(4);
  expect(messages).toEqual(
    expect.arrayContaining([refusal(1), refusal(2), done(2, "quick"), done(3, "quick")]),
  );
  expect(await session.postAll([call(1), call(1)])).toEqual({
    status: 400,
    messages: [refusal(1), refusal(1)],
  });
  gate.open();
  expect((await begun).message).toEqual(done(1));
});

test("in a batch without a session, the second request with an id is refused and the first answered", async () => {
  const response = await fetch(`${rack.serving.url}/mcp`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${rack.token}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2025-03-26",
    },
    body: JSON.stringify([call(1, "quick"), call(1, "quick")]),
  });
  expect(await response.json()).toEqual([refusal(1), done(1, "quick")]);
});
