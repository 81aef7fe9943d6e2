import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { cleanEnvironment, program } from "./cli/testing/spawn-cli.ts";
import { TemporaryWorkspace } from "./testing/temporary-workspace.ts";

// biome-ignore lint/suspicious/noExplicitAny: what JSON answers hold is looked at freely in tests.
type Json = any;

const KILLS = 20;
const CALLERS = 16;
const RUNNING = "/api/calls?status=running&tool=endless";

/** Each tool notes on disk that it ran, so that what ran is known whatever became of the process. */
const tools = `
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Tool } from "@toolrack/core";
const number = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
const none = { type: "object", properties: {} };
const note = (file, text) => appendFileSync(file, text + "\\n");
export const count = Tool.define({ name: "count", description: "Counts.", parameters: number,
  execute: async ({ input }) => { note("counted.txt", input.n); if (input.n % 4 === 0) await sleep(8); return "counted " + input.n; } });
export const endless = Tool.define({ name: "endless", description: "Does not end.", parameters: none, execute: () => sleep(600_000) });
export const tick = Tool.define({ name: "tick", description: "Notes its run.", parameters: none,
  execute: async ({ callId }) => { note("ticks.txt", callId); return "ticked"; } });
`;

/** One life of the real program. */
class Life {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown[]>;
  readonly #token: string;
  readonly ready: Json;

  private constructor(child: ChildProcess, ended: Promise<unknown[]>, token: string, ready: Json) {
    this.#child = child;
    this.#ended = ended;
    this.#token = token;
    this.ready = ready;
  }

  static async begin(directory: string): Promise<Life> {
    const [file, ...words] = program;
    const child = spawn(file!, [...words, "serve", "--port", "0", "--json", "--no-watch"], {
      cwd: directory,
      env: cleanEnvironment(),
      stdio: ["ignore", "pipe", "inherit"],
    });
    const ended = once(child, "close");
    const [line] = await Promise.race([once(createInterface(child.stdout!), "line"), ended]);
    // The lines of calls are of no use here, but a full pipe would hold the server up.
    child.stdout!.resume();
    const token = readFileSync(join(directory, ".toolrack/token"), "utf8").trim();
    return new Life(child, ended, token, JSON.parse(line));
  }

  async ask(path: string, body?: unknown): Promise<{ status: number; body: Json }> {
    const response = await fetch(this.ready.url + path, {
      method: body === undefined ? "GET" : "POST",
      headers: { authorization: `Bearer ${this.#token}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: await response.json() };
  }

  call(tool: string, input: object, callId?: string) {
    return this.ask(`/api/tools/${tool}/calls`, { arguments: input, callId });
  }

  get isAlive(): boolean {
    return !this.#child.killed;
  }

  async end(signal: NodeJS.Signals): Promise<unknown[]> {
    this.#child.kill(signal);
    return this.#ended;
  }
}

describe("a server that is killed again and again under load", () => {
  let workspace: TemporaryWorkspace;
  let life: Life;
  let next = 0;
  /** The number that each acknowledged call was made with, by its id. */
  const acknowledged = new Map<string, number>();
  const unexpected: unknown[] = [];
  /** Calls that were seen under way in the store when their process was killed. */
  const leftRunning: string[] = [];
  const livesWithTicks = new Set<number>();

  beforeAll(async () => {
    workspace = await TemporaryWorkspace.create({
      "toolrack.config.js": "export default { builtins: false };",
      "tools/all.ts": tools,
    });
    life = await Life.begin(workspace.directory);
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
      const ticksBefore = linesOf("ticks.txt").length;
      const endless = [`endless-${kill}-a`, `endless-${kill}-b`];
      const cutOff = endless.map((id) => life.call("endless", {}, id).catch(() => "cut off"));
      const load = Array.from({ length: CALLERS }, () => callUntilKilled(life));
      await vi.waitUntil(async () => (await life.ask(RUNNING)).body.items.length === endless.length, {
        timeout: 5_000,
      });
      leftRunning.push(...endless);
      // Another moment each time: within a batch, between two, beside a run of the schedule.
      await sleep(100 + ((kill * 137) % 700));
      expect(await life.end("SIGKILL")).toEqual([null, "SIGKILL"]);
      await Promise.all(load);
      expect(await Promise.all(cutOff)).toEqual(["cut off", "cut off"]);
      expect(acknowledged.size).toBeGreaterThan(before);
      if (linesOf("ticks.txt").length > ticksBefore) livesWithTicks.add(kill);

      expect(withDatabase((database) => database.prepare("PRAGMA integrity_check").all())).toEqual([
        { integrity_check: "ok" },
      ]);
      life = await Life.begin(workspace.directory);
      expect(life.ready).toMatchObject({ type: "ready", failures: [] });
      expect(life.ready.interrupted).toBeGreaterThanOrEqual(endless.length);
      expect((await life.ask(RUNNING)).body.items).toEqual([]);
    }
  }, 120_000);

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
    const counted = linesOf("counted.txt");
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
    expect(livesWithTicks.size).toBeGreaterThan(KILLS / 4);
    const before = linesOf("ticks.txt").length;
    await expect.poll(() => linesOf("ticks.txt").length, { timeout: 10_000 }).toBeGreaterThan(before);
    // Read before the store: a run is noted in the store first.
    const ticks = linesOf("ticks.txt");
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

  async function callUntilKilled(server: Life): Promise<void> {
    while (server.isAlive) {
      const n = next++;
      const answer = await server.call("count", { n }).catch(() => undefined);
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

  function linesOf(file: string): string[] {
    try {
      return readFileSync(join(workspace.directory, file), "utf8").split("\n").slice(0, -1);
    } catch {
      return []; // No tool has written to it yet.
    }
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
  const killed = await Life.begin(workspace.directory);
  const cutOff = killed.call("outer", {}).catch(() => "cut off");
  const running = async () => (await killed.ask("/api/calls?status=running")).body.items;
  await vi.waitUntil(async () => (await running()).length === 3, { timeout: 20_000 });
  await vi.waitUntil(async () => (await killed.ask("/api/approvals")).body.items.length === 1, {
    timeout: 20_000,
  });
  await killed.end("SIGKILL");
  expect(await cutOff).toBe("cut off");
  const next = await Life.begin(workspace.directory);
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

function repeatedIn(values: readonly string[]): string[] {
  const seen = new Set<string>();
  return values.filter((value) => seen.size === seen.add(value).size);
}
