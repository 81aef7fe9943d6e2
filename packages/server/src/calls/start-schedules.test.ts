import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Tool, type ToolCallRecord, ToolRegistry, type ToolResult } from "@toolrack/core";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { grantOf } from "../access/grants.ts";
import { issueToken } from "../access/tokens.ts";
import { openStore, type Store } from "../store/store.ts";
import { CallBook } from "./call-book.ts";
import { openCalls } from "./call-service.ts";

import { openSchedules, type Schedules } from "./schedule-tool.ts";

const SECOND = 1_000;
const DAY = 86_400_000;

/** A process: its own rack, and its own runner and connection on the common database. */
interface Node {
  readonly store: Store;
  readonly registry: ToolRegistry;
  readonly schedules: Schedules;
  readonly runs: ToolCallRecord[];
  readonly warnings: string[];
  call(input: Record<string, unknown>, caller?: string): Promise<ToolResult>;
}

let directory: string;
let store: Store;
let nodes: Node[];
/** What the tool `waits` waits for. */
let release: () => void;

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"], now: Date.UTC(2026, 2, 1, 12) });
  directory = await mkdtemp(join(tmpdir(), "toolrack-schedules-"));
  store = await openStore({ directory });
  nodes = [];
});
afterEach(async () => {
  for (const node of nodes) {
    await node.schedules.close();
    await node.store.close();
  }
  await store.close();
  vi.useRealTimers();
  await rm(directory, { recursive: true, force: true });
});

async function startNode(): Promise<Node> {
  const registry = new ToolRegistry({ permissions: ["*"], timeout: 0 });
  const parameters = { type: "object", properties: { text: { type: "string" } } } as const;
  const waiting = new Promise<void>((resolve) => {
    release = resolve;
  });
  registry.register(
    Tool.define({ name: "note", parameters, aliases: ["memo"], execute: async () => "noted" }),
  );
  registry.register(Tool.define({ name: "waits", parameters, execute: () => waiting }));
  registry.register(
    Tool.define({
      name: "relay",
      parameters: {
        type: "object",
        properties: { name: { type: "string" }, input: { type: "object", additionalProperties: true } },
        required: ["name"],
      },
      execute: async ({ input, call }) => (await call(input.name, input.input)).content,
    }),
  );
  const runs: ToolCallRecord[] = [];
  registry.subscribe((event) => {
    if (event.type === "record" && event.record.toolName !== "schedule_tool") runs.push(event.record);
  });
  const warnings: string[] = [];
  const say = (text: unknown) => void warnings.push(String(text));
  const logger = { debug() {}, info() {}, warn: say, error: say };
  const own = await openStore({ directory });
  const book = new CallBook(registry);
  const { service } = openCalls({ book, store: own, logger });
  const schedules = openSchedules({ store: own, service, book, logger });
  schedules.start();
  registry.register(schedules.tool);
  const call: Node["call"] = (input, caller = "ai") => registry.execute("schedule_tool", input, { caller });
  const node = { store: own, registry, schedules, runs, warnings, call };
  nodes.push(node);
  await settle();
  return node;
}

/** Lets everything happen that waits for no timer. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
}

async function pass(milliseconds: number): Promise<void> {
  await settle();
  await vi.advanceTimersByTimeAsync(milliseconds);
  await settle();
}

async function create(node: Node, input: Record<string, unknown>, caller?: string): Promise<string> {
  const result = await node.call({ action: "create", toolName: "note", ...input }, caller);
  expect(result.type, result.content).toBe("json");
  return (result.structured as { created: { id: string } }).created.id;
}

describe("a schedule", () => {
  it("is safe in the store when it is acknowledged, and runs its tool as a call of its own", async () => {
    const node = await startNode();
    const id = await create(node, { delaySeconds: 10, toolArgs: { text: "hello" } });
    expect(await store.schedules.get(id)).toMatchObject({ state: "active", toolName: "note", caller: "ai" });
    await pass(9 * SECOND);
    expect(node.runs).toEqual([]);
    await pass(SECOND);
    expect(node.runs).toMatchObject([
      { toolName: "note", caller: `schedule_tool_${id}`, parameters: { text: "hello" }, status: "completed" },
    ]);
    expect(await store.schedules.get(id)).toMatchObject({
      state: "finished",
      runs: 1,
      lastCallId: node.runs[0]!.callId,
    });
    await pass(DAY / 24);
    expect(node.runs).toHaveLength(1);
  });

  it("is refused beyond the thousandth that is active", async () => {
    const node = await startNode();
    const common = { toolName: "note", arguments: {}, caller: "ai", missed: "skip" } as const;
    const at = Date.now() + DAY;
    for (let n = 0; n < 999; n++)
      await store.schedules.add({ ...common, id: `s${n}`, timing: { kind: "once", at }, nextRunAt: at });
    await create(node, { delaySeconds: 100 });
    const { error } = await node.call({ action: "create", toolName: "note", delaySeconds: 100 });
    expect(error?.message).toContain("There are 1000 active schedules");
  });

  it("is the task of its runs and of the calls that these make", async () => {
    const node = await startNode();
    const id = await create(node, { delaySeconds: 1, toolName: "relay", toolArgs: { name: "note" } });
    await pass(SECOND);
    expect(node.runs.map(({ toolName, tid }) => [toolName, tid])).toEqual([
      ["note", id],
      ["relay", id],
    ]);
  });

  it("runs at every interval, the first time after one", async () => {
    const node = await startNode();
    await create(node, { interval: "every@5s" });
    await pass(4 * SECOND);
    expect(node.runs).toHaveLength(0);
    for (let run = 0; run < 4; run++) await pass(5 * SECOND);
    expect(node.runs).toHaveLength(4);
  });

  it("runs by a cron expression in its time zone", async () => {
    const node = await startNode();
    await create(node, { cron: "30 21 * * *", timeZone: "Asia/Tokyo" });
    vi.setSystemTime(Date.UTC(2026, 2, 1, 12, 29, 50));
    await pass(30 * SECOND);
    expect(node.runs).toHaveLength(1);
    expect((await store.schedules.list())[0]?.nextRunAt).toBe(Date.UTC(2026, 2, 2, 12, 30));
  });

  it("of 40 days from now does not run at once, and runs then", async () => {
    const node = await startNode();
    await create(node, { delaySeconds: (40 * DAY) / SECOND });
    await pass(60 * SECOND);
    expect(node.runs).toHaveLength(0);
    vi.setSystemTime(Date.now() + 40 * DAY - 70 * SECOND);
    await pass(30 * SECOND);
    expect(node.runs).toHaveLength(1);
  });

  it("is noted when its run begins, so that a crash leaves a trace of it", async () => {
    const node = await startNode();
    const id = await create(node, { toolName: "waits", delaySeconds: 1, toolArgs: { text: "hello" } });
    await pass(2 * SECOND);
    const { lastCallId } = (await store.schedules.get(id))!;
    let noted = await store.calls.get(lastCallId!);
    // Of calls that end at once the arguments are not noted, by a clock that is not the tests' own.
    for (let turn = 0; noted?.parameters.text === undefined && turn < 500; turn++) {
      await pass(5);
      noted = await store.calls.get(lastCallId!);
    }
    expect(noted).toMatchObject({
      outcome: "running",
      toolName: "waits",
      caller: `schedule_tool_${id}`,
      parameters: { text: "hello" },
    });
    release();
    await settle();
    expect(await store.calls.get(lastCallId!)).toMatchObject({ outcome: "completed" });
  });

  it("does not run beside itself: a time that comes during a run is passed over", async () => {
    const node = await startNode();
    const id = await create(node, { toolName: "waits", interval: "every@5s" });
    for (let run = 0; run < 3; run++) await pass(5 * SECOND);
    expect((await store.schedules.get(id))?.runs).toBe(1);
    expect(node.warnings.join()).toContain("its last run is still under way");
    release();
    await pass(5 * SECOND);
    expect((await store.schedules.get(id))?.runs).toBe(2);
  });

  it("goes on at its interval when the clock is set back, and does not run a time of day again", async () => {
    const node = await startNode();
    const every = await create(node, { interval: "every@5s" });
    const daily = await create(node, { cron: "0 * * * * *", timeZone: "UTC" });
    for (let passed = 0; passed < 60; passed += 5) await pass(5 * SECOND);
    const before = (await store.schedules.get(every))!.runs;
    vi.setSystemTime(Date.now() - 3_600_000);
    for (let passed = 0; passed < 60; passed += 5) await pass(5 * SECOND);
    expect((await store.schedules.get(every))?.runs).toBeGreaterThan(before + 8);
    expect((await store.schedules.get(daily))?.runs).toBe(1);
  });

  it("goes on when its tool fails or is gone", async () => {
    const node = await startNode();
    await create(node, { interval: "every@5s" });
    node.registry.unregister("note");
    await pass(5 * SECOND);
    expect(node.warnings.join()).toContain("which failed");
    await pass(5 * SECOND);
    expect(node.runs.map(({ status }) => status)).toEqual(["error", "error"]);
  });

  it("is listed and cancelled, alone or with all of its kind", async () => {
    const node = await startNode();
    const [once, again, cron] = [
      await create(node, { delaySeconds: 5 }),
      await create(node, { interval: "every@5s" }),
      await create(node, { cron: "* * * * *" }),
    ];
    const listed = await node.call({ action: "list" });
    expect(listed.structured).toMatchObject({ total: 3, schedules: [{ state: "active" }, {}, {}] });
    expect((await node.call({ action: "cancel_all_once" })).structured).toEqual({ cancelled: [once] });
    expect((await node.call({ action: "cancel", id: again })).structured).toEqual({ cancelled: [again] });
    expect((await node.call({ action: "cancel", id: again })).error?.message).toContain(
      "is cancelled already",
    );
    expect((await node.call({ action: "cancel_all_recurring" })).structured).toEqual({ cancelled: [cron] });
    expect((await node.call({ action: "list" })).structured).toMatchObject({ total: 0 });
    expect((await node.call({ action: "list", all: true })).structured).toMatchObject({ total: 3 });
    await pass(120 * SECOND);
    expect(node.runs).toEqual([]);
  });

  it.each<[string, Record<string, unknown>, string]>([
    ["an unknown tool, with the nearest names", { toolName: "nite", delaySeconds: 1 }, '"note"'],
    ["itself", { toolName: "schedule_tool", delaySeconds: 1 }, "may not schedule itself"],
    ["arguments that do not fit", { delaySeconds: 1, toolArgs: { text: 5 } }, "do not fit"],
    ["no time", {}, "exactly one of"],
  ])("is refused for %s", async (_, input, message) => {
    const node = await startNode();
    const result = await node.call({ action: "create", toolName: "note", ...input });
    expect(result.error?.message).toContain(message);
    expect(await store.schedules.list()).toEqual([]);
  });
});

describe("a restart", () => {
  it("resumes what is to come, and runs nothing again that has run", async () => {
    const before = await startNode();
    await create(before, { delaySeconds: 5 });
    await create(before, { delaySeconds: 100, toolArgs: { text: "later" } });
    await pass(6 * SECOND);
    await before.schedules.close();
    const after = await startNode();
    expect(after.runs).toEqual([]);
    for (let turn = 0; turn < 4; turn++) await pass(30 * SECOND);
    expect(after.runs.map(({ parameters }) => parameters)).toEqual([{ text: "later" }]);
    expect(before.runs).toHaveLength(1);
  });

  it("passes over what was missed, or runs it once, as its policy says", async () => {
    const before = await startNode();
    const skipped = await create(before, { interval: "every@1m", toolArgs: { text: "skip" } });
    const gone = await create(before, { delaySeconds: 60, toolArgs: { text: "gone" } });
    await create(before, { interval: "every@1m", missed: "run_once", toolArgs: { text: "run" } });
    await before.schedules.close();
    vi.setSystemTime(Date.now() + DAY + 20 * SECOND);
    const after = await startNode();
    expect(after.runs.map(({ parameters }) => parameters)).toEqual([{ text: "run" }]);
    expect(after.warnings.join()).toContain("when nothing was there to run it");
    expect(await store.schedules.get(gone)).toMatchObject({ state: "finished", runs: 0 });
    expect(await store.schedules.get(skipped)).toMatchObject({ state: "active", runs: 0 });
    await pass(30 * SECOND);
    await pass(10 * SECOND);
    expect(after.runs.map(({ parameters }) => parameters.text).sort()).toEqual(["run", "run", "skip"]);
  });
});

describe("two processes on one store", () => {
  it("run each time once between them", async () => {
    const [one, other] = [await startNode(), await startNode()];
    await create(one, { interval: "every@20s" });
    await pass(SECOND);
    for (let turn = 0; turn < 12; turn++) await pass(10 * SECOND);
    expect(one.runs.length + other.runs.length).toBe(6);
  });

  it("run a time once also when both have read that it is due before either takes it", async () => {
    const both = [await startNode(), await startNode()];
    let readers = 0;
    for (const { store: own } of both) {
      const listDue = own.schedules.listDue.bind(own.schedules);
      vi.spyOn(own.schedules, "listDue").mockImplementation(async (now) => {
        const due = await listDue(now);
        if (due.length > 0) readers++;
        while (due.length > 0 && readers < both.length) await new Promise((resolve) => setImmediate(resolve));
        return due;
      });
    }
    const id = await create(both[0]!, { delaySeconds: 30 });
    await pass(30 * SECOND);
    expect(readers).toBe(2);
    expect(both.flatMap(({ runs }) => runs)).toHaveLength(1);
    expect(await store.schedules.get(id)).toMatchObject({ state: "finished", runs: 1 });
  });

  it("run what the other made and left behind", async () => {
    const [one, other] = [await startNode(), await startNode()];
    await create(one, { delaySeconds: 10 });
    await one.schedules.close();
    await pass(31 * SECOND);
    expect(other.runs).toHaveLength(1);
  });
});

describe("a token's schedule", () => {
  const token = async (name: string, tools: string[], expiresAt?: number) => {
    const { stored } = await issueToken(store.tokens, {
      name,
      scopes: { tools },
      ...(expiresAt === undefined ? {} : { expiresAt }),
    });
    return { id: stored.id, caller: grantOf(stored).caller };
  };

  it("runs only what the token may use", async () => {
    const node = await startNode();
    const { caller } = await token("narrow", ["schedule_tool", "note"]);
    const input = { action: "create", toolName: "waits", delaySeconds: 1 };
    expect((await node.call(input, caller)).error?.message).toContain("There is no tool named");
    await create(node, { toolName: "memo", delaySeconds: 1 }, caller);
    await pass(2 * SECOND);
    expect(node.runs).toHaveLength(1);
  });

  it("reaches no more than the token does, through the tools that it runs, also after a restart", async () => {
    const { caller } = await token("narrow", ["schedule_tool", "relay"]);
    await create(
      await startNode(),
      { toolName: "relay", toolArgs: { name: "note" }, interval: "every@10s" },
      caller,
    );
    await nodes[0]!.schedules.close();
    const restarted = await startNode();
    await pass(11 * SECOND);
    expect(restarted.runs.map(({ toolName, error }) => [toolName, error?.code])).toEqual([
      ["note", "permission_denied"],
      ["relay", "execution_failed"],
    ]);
  });

  it("is the token's also when a tool makes it, and when what it runs makes another", async () => {
    const node = await startNode();
    const { id, caller } = await token("narrow", ["schedule_tool", "relay"]);
    const make = (toolName: string, more: object = {}) => ({
      name: "schedule_tool",
      input: { action: "create", toolName, delaySeconds: 5, ...more },
    });
    const ask = (input: object) => node.registry.execute("relay", input, { caller });
    expect((await ask(make("note"))).content).toContain("There is no tool named");
    await ask(make("relay", { toolArgs: make("relay", { toolArgs: { name: "note" } }) }));
    await pass(6 * SECOND);
    const all = await store.schedules.list();
    expect(all.map(({ caller: by }) => by)).toEqual([`token:${id}`, `token:${id}`]);
  });

  it("ends with the token, whether it is removed or expires", async () => {
    const node = await startNode();
    const removed = await token("removed", ["*"]);
    const expiring = await token("expiring", ["*"], Date.now() + 8 * SECOND);
    await create(node, { interval: "every@5s" }, removed.caller);
    await create(node, { interval: "every@5s" }, expiring.caller);
    await store.tokens.remove(removed.id);
    await pass(5 * SECOND);
    expect(node.runs).toHaveLength(1);
    await pass(5 * SECOND);
    expect(node.runs).toHaveLength(1);
    expect(await store.schedules.list({ state: "active" })).toEqual([]);
  });

  it("is hidden from other tokens, and shown to the operator", async () => {
    const node = await startNode();
    const [mine, other] = [await token("mine", ["*"]), await token("other", ["*"])];
    const id = await create(node, { delaySeconds: 100 }, mine.caller);
    expect((await node.call({ action: "list" }, other.caller)).structured).toMatchObject({ total: 0 });
    expect((await node.call({ action: "cancel", id }, other.caller)).error?.message).toContain("no schedule");
    expect((await node.call({ action: "list" }, mine.caller)).structured).toMatchObject({ total: 1 });
    expect((await node.call({ action: "list" }, "http")).structured).toMatchObject({ total: 1 });
  });
});
