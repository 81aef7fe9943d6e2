import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { expect, it, vi } from "vitest";
import { type Rack, StdioBridge } from "./stdio-bridge.ts";

/** One end of the lines between the bridge and a client or a rack. */
class End {
  readonly input = new PassThrough();
  readonly output = new PassThrough();
  readonly heard: unknown[] = [];
  #rest = "";

  constructor(read: PassThrough) {
    read.setEncoding("utf8").on("data", (piece: string) => {
      const lines = (this.#rest + piece).split("\n");
      this.#rest = lines.pop() ?? "";
      for (const line of lines) this.heard.push(line.startsWith("{") ? JSON.parse(line) : line);
    });
  }
}

class TestRack implements Rack {
  readonly input = new PassThrough();
  readonly output = new PassThrough();
  readonly isJoined: boolean;
  readonly #ended = Promise.withResolvers<number>();
  readonly ended = this.#ended.promise;
  readonly #end = new End(this.input);

  constructor(isJoined = true) {
    this.isJoined = isJoined;
  }

  get heard() {
    return this.#end.heard;
  }

  say(...messages: object[]): void {
    for (const message of messages) this.output.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  end(code = 0): void {
    this.#ended.resolve(code);
  }
}

function bridged(...racks: TestRack[]) {
  const [first, ...others] = racks;
  const input = new PassThrough();
  const output = new PassThrough();
  const end = new End(output);
  const attach = vi.fn(async (): Promise<Rack> => {
    const next = others.shift();
    if (next === undefined) throw new Error("no rack is left");
    return next;
  });
  const bridge = new StdioBridge({ input, output }, attach);
  const closed = bridge.run(first!);
  const say = (...messages: object[]) => {
    for (const message of messages) input.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  };
  return { input, output, heard: end.heard, say, bridge, closed, attach };
}

const initialize = { id: 1, method: "initialize", params: { protocolVersion: "2025-11-25" } };
const initialized = { method: "notifications/initialized" };
const rpc = (message: object) => ({ jsonrpc: "2.0", ...message });
const methodsOf = (heard: readonly unknown[]) =>
  heard.map((message) => (message as { method?: string }).method); // Lines that are no messages have none.

it("repeats to the next rack what the client said about itself, and tells the client that all may have changed", async () => {
  const [one, two] = [new TestRack(), new TestRack()];
  const { say, heard, attach } = bridged(one, two);
  say(initialize, initialized);
  say({ id: 2, method: "logging/setLevel", params: { level: "debug" } });
  say({ id: 3, method: "resources/subscribe", params: { uri: "a:1" } });
  say({ id: 4, method: "resources/subscribe", params: { uri: "a:2" } });
  say({ id: 5, method: "resources/unsubscribe", params: { uri: "a:1" } });
  await vi.waitFor(() => expect(one.heard).toHaveLength(6));
  for (const id of [1, 2, 3, 4, 5]) one.say({ id, result: {} });
  await vi.waitFor(() => expect(heard).toHaveLength(5));
  heard.length = 0;
  one.end();
  await vi.waitFor(() => expect(two.heard).toHaveLength(4));
  expect(two.heard).toEqual([
    expect.objectContaining({ method: "initialize", params: initialize.params }),
    rpc(initialized),
    expect.objectContaining({ method: "logging/setLevel" }),
    expect.objectContaining({ method: "resources/subscribe", params: { uri: "a:2" } }),
  ]);
  for (const message of two.heard) two.say({ id: (message as { id?: string }).id ?? "x", result: {} }); // A message may have an id.
  two.say({ id: 6, result: { last: true } });
  await vi.waitFor(() => expect(heard).toContainEqual(rpc({ id: 6, result: { last: true } })));
  expect(heard).toEqual([
    ...["tools", "prompts", "resources"].map((kind) => rpc({ method: `notifications/${kind}/list_changed` })),
    rpc({ method: "notifications/resources/updated", params: { uri: "a:2" } }),
    rpc({ id: "x", result: {} }),
    rpc({ id: 6, result: { last: true } }),
  ]);
  expect(attach).toHaveBeenCalledOnce();
});

it("asks again what only asks, and answers calls, tasks and batches with an error", async () => {
  const [one, two] = [new TestRack(), new TestRack(false)];
  const { say, heard, input } = bridged(one, two);
  say({ id: 1, method: "tools/list" }, { id: "c", method: "tools/call", params: { name: "a" } });
  say({ id: 3, method: "tasks/cancel", params: { taskId: "t" } }, { id: 4, method: "tools/call" });
  say({ method: "notifications/cancelled", params: { requestId: 4 } });
  input.write(`${JSON.stringify([rpc({ id: 5, method: "tools/list" })])}\n`);
  await vi.waitFor(() => expect(one.heard).toHaveLength(6));
  one.end();
  await vi.waitFor(() => expect(two.heard).toEqual([rpc({ id: 1, method: "tools/list" })]));
  expect(heard).toEqual(
    ["c", 3, 5].map((id) =>
      rpc({ id, error: { code: -32001, message: expect.stringContaining("nothing was run a second time") } }),
    ),
  );
  two.say({ id: 1, result: { tools: [] } });
  await vi.waitFor(() => expect(heard).toContainEqual(rpc({ id: 1, result: { tools: [] } })));
});

it("goes on with a subscription of the stateless version, whose end and second confirmation nobody sees", async () => {
  const [one, two] = [new TestRack(), new TestRack()];
  const { say, heard } = bridged(one, two);
  const notifications = { toolsListChanged: true, resourceSubscriptions: ["a:1"] };
  const listen = { id: 7, method: "subscriptions/listen", params: { notifications } };
  const _meta = { "io.modelcontextprotocol/subscriptionId": 7 };
  const confirmed = { method: "notifications/subscriptions/acknowledged", params: { notifications, _meta } };
  say(listen);
  one.say(confirmed);
  await vi.waitFor(() => expect(heard).toEqual([rpc(confirmed)]));
  // The server ends its subscriptions when it stops.
  one.say({ id: 7, result: {} });
  one.end();
  await vi.waitFor(() => expect(two.heard).toEqual([rpc(listen)]));
  two.say(confirmed, { method: "notifications/tools/list_changed", params: { _meta, again: true } });
  await vi.waitFor(() => expect(heard).toHaveLength(4));
  expect(heard.slice(1)).toEqual([
    rpc({ method: "notifications/tools/list_changed", params: { _meta } }),
    rpc({ method: "notifications/resources/updated", params: { uri: "a:1", _meta } }),
    rpc({ method: "notifications/tools/list_changed", params: { _meta, again: true } }),
  ]);
  // A subscription that the rack ends while it goes on is over for the client too.
  two.say({ id: 7, result: { over: true } });
  await vi.waitFor(() => expect(heard).toContainEqual(rpc({ id: 7, result: { over: true } })));
});

it("withdraws the questions of a rack that ended, and never takes their answers for those of the next", async () => {
  const [one, two] = [new TestRack(), new TestRack()];
  const { say, heard } = bridged(one, two);
  say({ id: 1, method: "tools/call" });
  one.say({ id: 0, method: "elicitation/create", params: { message: "first" } });
  await vi.waitFor(() => expect(heard).toHaveLength(1));
  one.end();
  await vi.waitFor(() => expect(heard).toHaveLength(3));
  say({ id: 2, method: "tools/call" });
  await vi.waitFor(() => expect(two.heard).toEqual([rpc({ id: 2, method: "tools/call" })]));
  two.say({ id: 0, method: "elicitation/create", params: { message: "second" } });
  await vi.waitFor(() => expect(methodsOf(heard).filter(Boolean)).toHaveLength(3));
  expect(heard[1]).toMatchObject({ method: "notifications/cancelled", params: { requestId: 0 } });
  const { id } = heard.at(-1) as { id: string }; // The last message is the question, which has an id.
  expect(id).not.toBe(0);
  say({ id: 0, result: { action: "accept", late: true } }, { id, result: { action: "decline" } });
  await vi.waitFor(() => expect(two.heard).toHaveLength(2));
  expect(two.heard[1]).toEqual(rpc({ id: 0, result: { action: "decline" } }));
  // A question that the rack takes back has the id that the client knows.
  two.say({ id: 1, method: "elicitation/create" });
  two.say({ method: "notifications/cancelled", params: { requestId: 1, reason: "late" } });
  await vi.waitFor(() => expect(methodsOf(heard).at(-1)).toBe("notifications/cancelled"));
  const [asked, withdrawn] = heard.slice(-2) as [{ id: string }, { params: object }]; // The last two messages are the question and its withdrawal.
  expect(withdrawn.params).toEqual({ requestId: asked.id, reason: "late" });
});

it("attaches an idle client only when it speaks again, and keeps the order of its lines", async () => {
  const [one, two] = [new TestRack(), new TestRack()];
  const { say, attach, heard } = bridged(one, two);
  say(initialize);
  await vi.waitFor(() => expect(one.heard).toHaveLength(1));
  one.say({ id: 1, result: {} });
  await vi.waitFor(() => expect(heard).toHaveLength(1));
  one.end();
  await new Promise(setImmediate);
  expect(attach).not.toHaveBeenCalled();
  say(...["a", "b", "c"].map((id) => ({ id, method: "ping" })));
  await vi.waitFor(() => expect(two.heard).toHaveLength(4));
  expect(methodsOf(two.heard)).toEqual(["initialize", "ping", "ping", "ping"]);
  expect(attach).toHaveBeenCalledOnce();
});

it("reads on when a rack ended that could take no more", async () => {
  const [one, two] = [new TestRack(), new TestRack()];
  const { say } = bridged(one, two);
  say(initialize);
  await vi.waitFor(() => expect(one.heard).toHaveLength(1));
  one.say({ id: 1, result: {} });
  // As a socket does that is closing: a line to it is lost, and it never asks for more.
  one.input.end();
  say(initialized);
  await new Promise(setImmediate);
  one.end();
  await new Promise(setImmediate);
  say({ id: 2, method: "tools/list" });
  await vi.waitFor(() => expect(methodsOf(two.heard)).toContain("tools/list"));
});

it("passes on what is no message, and refuses a line that is too long", async () => {
  const rack = new TestRack();
  const raw: Buffer[] = [];
  rack.input.removeAllListeners("data");
  const passed = new PassThrough();
  const given = { ...rack, input: passed, ended: rack.ended, output: rack.output };
  passed.on("data", (piece: Buffer) => raw.push(piece));
  const input = new PassThrough();
  const output = new PassThrough();
  const said = text(output);
  const closed = new StdioBridge({ input, output }, async () => rack).run(given);
  input.write(Buffer.from([0x7b, 0xff, 0x0a]));
  input.write("not JSON\n\n");
  const long = "x".repeat(11 * 1024 * 1024);
  input.write(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":"${long}"}\n`);
  input.end("the last line has no end");
  await vi.waitFor(() => expect(Buffer.concat(raw).toString()).toContain("has no end"));
  expect(Buffer.concat(raw).subarray(0, 3)).toEqual(Buffer.from([0x7b, 0xff, 0x0a]));
  expect(Buffer.concat(raw).toString("latin1").slice(3)).toBe("not JSON\n\nthe last line has no end\n");
  rack.output.write("no JSON from a rack\n");
  await new Promise(setImmediate);
  rack.end(3);
  expect(await closed).toBe(3);
  output.end();
  const lines = (await said).trim().split("\n");
  expect(JSON.parse(lines[0]!)).toMatchObject({ id: 9, error: { code: -32600 } });
  expect(lines[1]).toBe("no JSON from a rack");
});

it("ends when no rack can be had, with the client, and with a rack of its own", async () => {
  const server = new TestRack();
  const lost = bridged(server);
  const refused = expect(lost.closed).rejects.toThrow("no rack is left");
  lost.say({ id: 1, method: "ping" });
  await vi.waitFor(() => expect(server.heard).toHaveLength(1));
  server.end();
  await refused;

  const rack = new TestRack();
  const gone = bridged(rack);
  gone.output.destroy();
  expect(await gone.closed).toBe(0);
  expect(rack.input.destroyed).toBe(true);

  const own = new TestRack(false);
  const ended = bridged(own);
  own.end(4);
  expect(await ended.closed).toBe(4);

  const idle = new TestRack();
  const stopped = bridged(idle);
  idle.end();
  await new Promise(setImmediate);
  stopped.bridge.stop();
  expect(await stopped.closed).toBe(0);
});
