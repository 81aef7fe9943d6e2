import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import {
  type Json,
  linesOf,
  notingTools,
  repeatedIn,
  ServerProcess,
} from "./reliability/testing/server-process.ts";

/** `npm run test:slow` kills it more often, under calls that take longer. */
const KILLS = 5;
const CALLERS = 16;
const RUNNING = "/api/calls?status=running&tool=endless";

describe("a server that is killed again and again under load", () => {
  let workspace: TemporaryWorkspace;
  let life: ServerProcess;
  let next = 0;
  /** The number that each acknowledged call was made with, by its id. */
  const acknowledged = new Map<string, number>();
  const unexpected: unknown[] = [];
  /** Calls that were seen under way in the store when their process was killed. */
  const leftRunning: string[] = [];

  beforeAll(async () => {
    workspace = await TemporaryWorkspace.create({
      "toolrack.config.js": "export default { builtins: false };",
      "tools/all.ts": notingTools,
    });
    life = await ServerProcess.start(workspace.directory);
    const created = await life.call("schedule_tool", {
      action: "create",
      toolName: "tick",
      interval: "every@1s",
    });
    expect(created.status, JSON.stringify(created.body)).toBe(200);
    // Which due time a call was made for is forgotten when the next is set; the trigger keeps it.
    withDatabase((database) =>
      database.exec(`
        CREATE TABLE test_taken (due_at INTEGER, call_id TEXT);
        CREATE TRIGGER test_take AFTER UPDATE ON schedules WHEN NEW.last_call_id IS NOT OLD.last_call_id
        BEGIN INSERT INTO test_taken VALUES (OLD.next_run_at, NEW.last_call_id); END;`),
    );

    for (let kill = 0; kill < KILLS; kill++) {
      const before = acknowledged.size;
      const ticksBefore = tickCount();
      const endless = [`endless-${kill}-a`, `endless-${kill}-b`];
      const cutOff = endless.map((id) => life.call("endless", {}, { callId: id }).catch(() => "cut off"));
      const load = Array.from({ length: CALLERS }, () => callUntilKilled(life));
      await vi.waitUntil(async () => (await life.ask(RUNNING)).body.items.length === endless.length);
      leftRunning.push(...endless);
      // Every second life goes on until its schedule ran: how long that takes depends on the machine.
      if (kill % 2 === 1) await vi.waitUntil(() => tickCount() > ticksBefore, { timeout: 30_000 });
      // Another moment each time: within a batch, between two, beside a run of the schedule.
      await sleep(100 + ((kill * 137) % 700));
      expect(await life.end("SIGKILL")).toEqual([null, "SIGKILL"]);
      await Promise.all(load);
      expect(await Promise.all(cutOff)).toEqual(["cut off", "cut off"]);
      expect(acknowledged.size).toBeGreaterThan(before);

      expect(withDatabase((database) => database.prepare("PRAGMA integrity_check").all())).toEqual([
        { integrity_check: "ok" },
      ]);
      life = await ServerProcess.start(workspace.directory);
      expect(life.ready).toMatchObject({ type: "ready", failures: [] });
      expect(life.ready.interrupted).toBeGreaterThanOrEqual(endless.length);
      expect((await life.ask(RUNNING)).body.items).toEqual([]);
    }
  }, 300_000);

  afterAll(async () => {
    if (life?.isAlive) await life.end("SIGKILL");
    await workspace[Symbol.asyncDispose]();
  });

  test("answers nothing but recorded calls until it dies", () => {
    expect(unexpected).toEqual([]);
    expect(acknowledged.size).toBeGreaterThan(KILLS * CALLERS);
  });

  test("has every acknowledged call in the store, as it was answered", () => {
    const stored = new Map(storedCalls("count").map((row) => [row.call_id, row]));
    const missing = [...acknowledged].filter(([callId, n]) => {
      const row = stored.get(callId);
      return row?.state !== "completed" || row.result_text !== `counted ${n}`;
    });
    expect(missing).toEqual([]);
  });

  test("has every call once, and ran it once", () => {
    expect(repeatedIn(storedCalls("count").map((row) => row.parameters))).toEqual([]);
    const counted = linesOf(workspace.directory, "counted.txt");
    expect(repeatedIn(counted)).toEqual([]);
    const ran = new Set(counted.map(Number));
    expect([...acknowledged.values()].filter((n) => !ran.has(n))).toEqual([]);
  });

  test("settles what was left running as interrupted", async () => {
    const states = new Map(storedCalls("endless").map((row) => [row.call_id, row.state]));
    expect([...new Set(leftRunning.map((callId) => states.get(callId)))]).toEqual(["interrupted"]);
    expect(leftRunning).toHaveLength(2 * KILLS);
    const detail = (await life.ask(`/api/calls/${leftRunning[0]}`)).body;
    expect(detail).toMatchObject({ status: "interrupted" });
  });

  test("goes on with its schedules, and runs no due time twice", async () => {
    const before = tickCount();
    await expect.poll(tickCount, { timeout: 10_000 }).toBeGreaterThan(before);
    // Read before the store: a run is noted in the store first.
    const ticks = linesOf(workspace.directory, "ticks.txt");
    const taken = withDatabase((database) => database.prepare("SELECT * FROM test_taken").all());
    const dueAt = new Map(taken.map(({ call_id, due_at }) => [String(call_id), String(due_at)]));
    expect(repeatedIn(ticks)).toEqual([]);
    expect(ticks.filter((callId) => !dueAt.has(callId))).toEqual([]);
    expect(repeatedIn(taken.map(({ due_at }) => String(due_at)))).toEqual([]);
  });

  test("still stops in order when it is told to", async () => {
    expect(await life.end("SIGTERM")).toEqual([0, null]);
    expect(storedStates()).not.toContain("running");
  });

  function tickCount(): number {
    return linesOf(workspace.directory, "ticks.txt").length;
  }

  async function callUntilKilled(server: ServerProcess): Promise<void> {
    while (server.isAlive) {
      const n = next++;
      const answer = await server.call("count", { n, ms: n % 4 === 0 ? 8 : 0 }).catch(() => undefined);
      if (answer === undefined) {
        if (server.isAlive) unexpected.push(`call ${n} got no answer from a living server`);
        return;
      }
      if (answer.status === 200 && answer.body.recorded === true) acknowledged.set(answer.body.callId, n);
      else unexpected.push(answer);
    }
  }

  function withDatabase<Value>(use: (database: DatabaseSync) => Value): Value {
    const database = new DatabaseSync(join(workspace.directory, ".toolrack/toolrack.db"), { timeout: 5_000 });
    try {
      return use(database);
    } finally {
      database.close();
    }
  }

  function storedCalls(tool: string): Json[] {
    return withDatabase((database) => database.prepare("SELECT * FROM calls WHERE tool_name = ?").all(tool));
  }

  function storedStates(): unknown[] {
    return withDatabase((database) => database.prepare("SELECT DISTINCT state FROM calls").all()).map(
      ({ state }) => state,
    );
  }
});

test("a call that waited for approval when its server was killed is settled as one that did not run, at its place in the chain", {
  timeout: 60_000,
}, async () => {
  await using workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": "export default { builtins: false };",
    "tools/chain.ts": `
      import { Tool } from "@toolrack/core";
      const none = { type: "object", properties: {} };
      const calls = (name, next) => Tool.define({ name, description: name, parameters: none, execute: async ({ call }) => call(next, {}) });
      export const outer = calls("outer", "middle");
      export const middle = calls("middle", "wipe");
      export const wipe = Tool.define({ name: "wipe", description: "Wipes.", parameters: none, metadata: { dangerous: true }, execute: async () => "wiped" });
    `,
  });
  const killed = await ServerProcess.start(workspace.directory);
  const cutOff = killed.call("outer", {}).catch(() => "cut off");
  const running = async () => (await killed.ask("/api/calls?status=running")).body.items;
  await vi.waitUntil(async () => (await running()).length === 3, { timeout: 20_000 });
  await vi.waitUntil(async () => (await killed.ask("/api/approvals")).body.items.length === 1, {
    timeout: 20_000,
  });
  await killed.end("SIGKILL");
  expect(await cutOff).toBe("cut off");
  const next = await ServerProcess.start(workspace.directory);
  try {
    const { items } = (await next.ask("/api/calls")).body;
    const of = (name: string) => items.find(({ toolName }: Json) => toolName === name);
    expect(of("wipe")).toMatchObject({
      status: "interrupted",
      depth: 2,
      parentCallId: of("middle").callId,
      error: { code: "approval_denied", message: expect.stringContaining("it did not run") },
    });
    expect(of("middle")).toMatchObject({ depth: 1, parentCallId: of("outer").callId });
    for (const name of ["outer", "middle"]) expect(of(name).error.code).toBe("outcome_unknown");
  } finally {
    await next.end("SIGKILL");
  }
});
