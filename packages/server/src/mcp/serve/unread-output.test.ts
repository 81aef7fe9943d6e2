import { setImmediate as nextTurn } from "node:timers/promises";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { FLOOD_ROUNDS, floodTool } from "./testing/flood-tool.ts";
import { Gate } from "./testing/gate.ts";
import { type Era, ServedRack, toolFile } from "./testing/served-rack.ts";
import { modernParams, StdioPeer } from "./testing/stdio-peer.ts";
import { surfaceParts } from "./testing/surface-parts.ts";

const MEGABYTE = 1024 * 1024;
const CALLS = 3;
const LIMIT = 60_000;

let rack: ServedRack;

beforeAll(async () => {
  rack = await ServedRack.open({
    "tools/all.ts": toolFile(
      floodTool,
      'name: "long", title: "y".repeat(5_000), execute: async () => "done"',
    ),
  });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

async function connect(era: Era) {
  const surface = await surfaceParts(rack);
  const peer = new StdioPeer();
  const { input, output } = peer.streams;
  const connection = await surface.stdio(peer.streams);
  const paramsOf = (params: object, meta: object = {}) => {
    const { _meta = {}, ...rest } = (era === "modern" ? modernParams(params) : params) as { _meta?: object };
    return { ...rest, _meta: { ..._meta, ...meta } };
  };
  if (era === "legacy") await peer.initialize();
  else {
    peer.send({ id: "first", method: "tools/list", params: paramsOf({}) });
    await peer.next(({ id }) => id === "first");
  }
  output.pause();
  return {
    peer,
    input,
    output,
    paramsOf,
    unread: () => output.writableLength + output.readableLength,
    [Symbol.asyncDispose]: () => connection.close(),
  };
}

const eras: Era[] = ["modern", "legacy"];

test.each(eras)(
  "what tools say to a %s client that does not read is not kept for it; it hears the latest, and the results",
  async (era) => {
    await using client = await connect(era);
    const gate = new Gate();
    Object.assign(globalThis, { flooded: 0 });
    for (let id = 0; id < CALLS; id++) {
      const params = client.paramsOf({ name: "flood", arguments: {} }, { progressToken: id });
      client.peer.send({ id, method: "tools/call", params });
    }
    await vi.waitFor(() => expect(Reflect.get(globalThis, "flooded")).toBe(CALLS), { timeout: LIMIT / 2 });
    // All that was said are 75 MB for each of them.
    expect(client.unread()).toBeLessThan(10 * MEGABYTE);
    gate.open();
    client.output.resume();
    const left = new Set([0, 1, 2]);
    while (left.size > 0) {
      const { id, result } = await client.peer.next(({ id }) => left.has(id));
      left.delete(id);
      expect(result.content).toEqual([{ type: "text", text: "done" }]);
      const told = client.peer.messages.filter(({ params }) => params?.progressToken === id);
      expect(told.at(-1).params.progress).toBe(FLOOD_ROUNDS * 30);
    }
  },
  LIMIT,
);

test.each(eras)(
  "no more is taken of what a %s client asks than it reads answers, and all is answered when it reads",
  async (era) => {
    await using client = await connect(era);
    const requests = 3_000;
    for (let id = 0; id < requests; id++) {
      client.peer.send({ id, method: "tools/list", params: client.paramsOf({}) });
    }
    await vi.waitFor(() => expect(client.unread()).toBeGreaterThan(10_000), { timeout: LIMIT / 2 });
    for (let turn = 0; turn < 200; turn++) await nextTurn();
    // All the answers are many times as much.
    expect(client.unread()).toBeLessThan(15 * MEGABYTE);
    expect(client.input.readableLength + client.input.writableLength).toBeGreaterThan(0);
    client.output.resume();
    client.input.end();
    const answered = new Set<number>();
    while (answered.size < requests) {
      const { id } = await client.peer.next(
        ({ id, result }) => typeof id === "number" && result !== undefined,
      );
      answered.add(id);
    }
  },
  LIMIT,
);
