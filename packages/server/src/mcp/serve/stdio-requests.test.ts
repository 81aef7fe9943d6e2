import { setImmediate as nextTurn } from "node:timers/promises";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { OfferingChange } from "../../calls/offering-source.ts";
import { longestMessage } from "../wire/messages.ts";
import { Gate, gatedTool } from "./testing/gate.ts";
import { type Era, ServedRack, toolFile } from "./testing/served-rack.ts";
import { modernParams, StdioPeer } from "./testing/stdio-peer.ts";
import { surfaceParts } from "./testing/surface-parts.ts";

let rack: ServedRack;
let tell = (_: OfferingChange) => {};
const watched = new Set<string>();

/** Has something to say at once, and keeps which of its runs were aborted. */
const outspoken = `name: "outspoken", execute: async ({ client, signal }) => {
  client?.notify("notifications/message", { level: "error", data: "x" });
  const aborted = new Promise((resolve) => signal.addEventListener("abort", () => resolve("aborted")));
  const end = await Promise.race([aborted, globalThis.${Gate.global}.promise.then(() => "done")]);
  globalThis.runs.push(end);
  return "said";
}`;

beforeAll(async () => {
  rack = await ServedRack.open({
    "tools/all.ts": toolFile(gatedTool, outspoken, 'name: "quick", execute: async () => "quick"'),
  });
  const uris = ["note://one", "note://two", "note://broken"];
  rack.serving.app.offerings.add({
    key: "notes",
    resources: () => uris.map((uri) => ({ uri, name: uri })),
    readResource: async (uri) => ({ contents: [{ uri, text: "read" }] }),
    watchResource(uri) {
      if (uri === "note://broken") throw new Error("It cannot be watched.");
      watched.add(uri);
      return () => watched.delete(uri);
    },
    subscribe(listener) {
      tell = listener;
      return () => {};
    },
  });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

const running = () => rack.serving.app.registry.activeCalls().length;

async function connect(era: Era) {
  const surface = await surfaceParts(rack);
  const peer = new StdioPeer();
  const connection = await surface.stdio(peer.streams);
  const paramsOf = (params: object) => (era === "modern" ? modernParams(params) : params);
  if (era === "legacy") await peer.initialize();
  else {
    peer.send({ id: "first", method: "tools/list", params: paramsOf({}) });
    await peer.next(({ id }) => id === "first");
  }
  return {
    peer,
    ask: (id: unknown, method: string, params: object = {}) =>
      peer.send({ id, method, params: paramsOf(params) }),
    [Symbol.asyncDispose]: () => connection.close(),
  };
}

const progress = (era: Era) => (era === "modern" ? {} : { _meta: { progressToken: "p" } });

test.each<[Era, string]>([
  ["modern", "short"],
  ["legacy", "short"],
  ["legacy", "long"],
])(
  "on a %s connection an id that is under way on the %s way is refused, and the first is answered",
  async (era, way) => {
    const gate = new Gate();
    await using connection = await connect(era);
    const { peer, ask } = connection;
    const others = way === "long" ? progress(era) : {};
    ask(5, "tools/call", { name: "gated", arguments: {}, ...others });
    await vi.waitUntil(() => running() === 1);
    for (const method of ["tools/list", "prompts/list"]) {
      ask(5, method);
      const { error } = await peer.next(({ id }) => id === 5);
      expect(error).toEqual({
        code: -32600,
        message: expect.stringMatching(/id 5 is still under way.+Send it again/),
      });
    }
    ask(5, "tools/call", { name: "gated", arguments: {} });
    expect((await peer.next(({ id }) => id === 5)).error.code).toBe(-32600);
    expect(running()).toBe(1);
    ask("5", "tools/call", { name: "quick", arguments: {} });
    expect((await peer.next(({ id }) => id === "5")).result.content[0].text).toBe("quick");
    gate.open();
    expect((await peer.next(({ id }) => id === 5)).result.content[0].text).toBe("done");
    ask(5, "tools/call", { name: "quick", arguments: {} });
    expect((await peer.next(({ id }) => id === 5)).result.content[0].text).toBe("quick");
  },
);

test("an id that was cancelled may be used again", async () => {
  const gate = new Gate();
  await using connection = await connect("legacy");
  const { peer, ask } = connection;
  ask(5, "tools/call", { name: "gated", arguments: {}, ...progress("legacy") });
  await vi.waitUntil(() => running() === 1);
  peer.send({ method: "notifications/cancelled", params: { requestId: 5 } });
  ask(5, "tools/call", { name: "quick", arguments: {} });
  expect((await peer.next(({ id }) => id === 5)).result.content[0].text).toBe("quick");
  gate.open();
});

/** All of it comes at once. */
function sendAtOnce(peer: StdioPeer, ...messages: object[]): void {
  const lines = messages.map((message) => `${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  peer.streams.input.write(lines.join(""));
}

const cancelled = (requestId: unknown) => ({ method: "notifications/cancelled", params: { requestId } });

test("a call that is cancelled before the SDK comes for it runs once, and is not answered", async () => {
  const gate = new Gate();
  const runs: string[] = [];
  Object.assign(globalThis, { runs });
  await using connection = await connect("legacy");
  const { peer, ask } = connection;
  const call = (id: unknown, name: string) => ({ id, method: "tools/call", params: { name, arguments: {} } });
  sendAtOnce(peer, call(7, "outspoken"), cancelled(7));
  await vi.waitUntil(() => running() === 0);
  sendAtOnce(peer, call(7, "outspoken"), cancelled(7), call(7, "outspoken"));
  await vi.waitUntil(() => running() === 1);
  gate.open();
  expect((await peer.next(({ id }) => id === 7)).result.content[0].text).toBe("said");
  ask(8, "prompts/list");
  await peer.next(({ id }) => id === 8);
  expect(peer.messages.filter(({ id }) => id === 7)).toHaveLength(1);
  expect(runs).toEqual(["aborted", "aborted", "done"]);
});

test("a list that is cancelled is not answered, and its id is that of the next request", async () => {
  await using connection = await connect("legacy");
  const { peer, ask } = connection;
  const call = { id: 5, method: "tools/call", params: { name: "quick", arguments: {} } };
  sendAtOnce(peer, { id: 5, method: "tools/list" }, cancelled(5), call);
  expect((await peer.next(({ id }) => id === 5)).result.content?.[0].text).toBe("quick");
  ask(6, "prompts/list");
  await peer.next(({ id }) => id === 6);
  expect(peer.messages.filter(({ id }) => id === 5)).toHaveLength(1);
});

test("what a subscription watches is watched until it is cancelled, and its id is not free before", async () => {
  await using connection = await connect("modern");
  const { peer, ask } = connection;
  const notifications = { resourceSubscriptions: ["note://one"] };
  ask("l", "subscriptions/listen", { notifications });
  await peer.next(({ method }) => method === "notifications/subscriptions/acknowledged");
  expect([...watched]).toEqual(["note://one"]);
  ask("l", "tools/list");
  expect((await peer.next(({ id }) => id === "l")).error.code).toBe(-32600);
  peer.send({ method: "notifications/cancelled", params: modernParams({ requestId: "l" }) });
  await vi.waitUntil(() => watched.size === 0);
  // It is cancelled before anybody could look which of them there are.
  ask("m", "subscriptions/listen", { notifications });
  peer.send({ method: "notifications/cancelled", params: modernParams({ requestId: "m" }) });
  ask("n", "prompts/list");
  await peer.next(({ id }) => id === "n");
  await vi.waitUntil(() => watched.size === 0);
  expect(peer.messages.filter(({ method }) => method?.endsWith("acknowledged"))).toHaveLength(1);
});

test("a resource that cannot be watched ends neither the connection nor the subscription", async () => {
  await using connection = await connect("modern");
  const { peer, ask } = connection;
  const notifications = { resourceSubscriptions: ["note://broken", "note://two"] };
  ask("l", "subscriptions/listen", { notifications });
  const { params } = await peer.next(({ method }) => method === "notifications/subscriptions/acknowledged");
  expect(params.notifications.resourceSubscriptions).toEqual(["note://two"]);
});

test("a client of an older version hears once of each change, and only of what it has subscribed to", async () => {
  await using connection = await connect("legacy");
  const { peer, ask } = connection;
  ask(1, "resources/subscribe", { uri: "note://two" });
  await peer.next(({ id }) => id === 1);
  tell({ kind: "resource", uri: "note://one" });
  tell({ kind: "resource", uri: "note://two" });
  await nextTurn();
  ask(2, "prompts/list");
  await peer.next(({ id }) => id === 2);
  const updates = peer.messages.filter(({ method }) => method === "notifications/resources/updated");
  expect(updates.map(({ params }) => params.uri)).toEqual(["note://two"]);
});

test("a line that is too long is refused, and those after it are read whole", async () => {
  await using connection = await connect("legacy");
  const { peer } = connection;
  const { input } = peer.streams;
  const part = Buffer.alloc(1024 * 1024, "x");
  for (let at = 0; at < 11; at++) input.write(part);
  input.write("\n");
  const { error } = await peer.next((message) => message.error !== undefined);
  expect(error).toMatchObject({ code: -32600, message: expect.stringContaining("longer than") });
  input.write('{"jsonrpc":"2.0","id":9,');
  await nextTurn();
  input.write('"method":"ping"}\n');
  expect(await peer.next(({ id }) => id !== null)).toEqual({ jsonrpc: "2.0", id: 9, result: {} });
});

test.each<Era>(["modern", "legacy"])(
  "a request that is too long for HTTP is too long here, and is told so by its id on a %s connection",
  async (era) => {
    await using connection = await connect(era);
    const { peer, ask } = connection;
    ask(11, "tools/call", { name: "quick", arguments: { text: "x".repeat(longestMessage) } });
    expect(await peer.next(({ id }) => id === 11 || id === null)).toEqual({
      jsonrpc: "2.0",
      id: 11,
      error: { code: -32600, message: expect.stringContaining(`${longestMessage} bytes`) },
    });
    ask(12, "tools/call", { name: "quick", arguments: {} });
    expect(await peer.next(({ id }) => id === 12)).toMatchObject({
      result: { content: [{ text: "quick" }] },
    });
  },
);

test.each<Era>(["modern", "legacy"])(
  "a request on a %s connection that is no UTF-8 is refused, and not begun",
  async (era) => {
    const recorded = async () => (await rack.serving.store.calls.list({})).items.length;
    await using connection = await connect(era);
    const { peer, ask } = connection;
    const before = await recorded();
    const params = { name: "quick", arguments: { text: "?" } };
    const request = { jsonrpc: "2.0", id: 13, method: "tools/call", params };
    const sent = era === "modern" ? { ...request, params: modernParams(params) } : request;
    const [start, end] = JSON.stringify(sent).split("?");
    const bytes = [Buffer.from(start!), Buffer.from([0xff]), Buffer.from(`${end}\n`)];
    peer.streams.input.write(Buffer.concat(bytes));
    expect(await peer.next(({ id }) => id === 13 || id === null)).toEqual({
      jsonrpc: "2.0",
      id: 13,
      error: { code: -32700, message: expect.stringContaining("UTF-8") },
    });
    const nameless = ['{"jsonrpc":"2.0","id":"', '","method":"ping"}\n'].map((part) => Buffer.from(part));
    peer.streams.input.write(Buffer.concat([nameless[0]!, Buffer.from([0xff]), nameless[1]!]));
    expect(await peer.next(({ error }) => error !== undefined)).toMatchObject({
      id: null,
      error: { code: -32700 },
    });
    ask(14, "tools/call", { name: "quick", arguments: { text: "\uFFFD" } });
    expect(await peer.next(({ id }) => id === 14)).toMatchObject({
      result: { content: [{ text: "quick" }] },
    });
    await vi.waitUntil(async () => (await recorded()) === before + 1);
  },
);
