import { setTimeout as wait } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { serve } from "./serve.ts";
import { Fleet, postgres, until } from "./testing/fleet.fixture.ts";

if (postgres === undefined)
  console.warn("SKIPPED: several servers on one PostgreSQL. Install PostgreSQL to run it.");

/** Milliseconds that the soak takes, between two kills, and how many clients there are. */
const SOAK = 60_000;
const KILL_EVERY = 3_000;
const CLIENTS = 32;

describe.skipIf(postgres === undefined)("three servers on one PostgreSQL", { timeout: 600_000 }, () => {
  let fleet: Fleet;
  beforeAll(async () => {
    fleet = await Fleet.start(3);
  }, 90_000);
  afterAll(() => fleet?.[Symbol.asyncDispose](), 30_000);

  it("ask the database at most once in two seconds each while nothing happens", async () => {
    const { directory } = await TemporaryWorkspace.create({
      "toolrack.config.js": "export default { builtins: false };",
    });
    vi.stubEnv("DATABASE_URL", fleet.database.url);
    vi.stubEnv("TOOLRACK_KEY", fleet.key);
    vi.stubEnv("TOOLRACK_OPERATOR_TOKEN", fleet.token);
    const silent = { debug() {}, info() {}, warn() {}, error() {} };
    const serving = await serve(directory, { logger: silent, port: 0 });
    // By then, the follower knows what the database announces, and old records were looked for.
    await wait(15_000);
    const asked = vi.spyOn(pg.Client.prototype, "query");
    const seconds = 60;
    await wait(seconds * 1_000);
    const rate = asked.mock.calls.length / seconds;
    asked.mockRestore();
    await serving.close();
    vi.unstubAllEnvs();
    console.log(`idle: ${rate.toFixed(2)} queries a second`);
    expect(rate).toBeGreaterThan(0.1);
    expect(rate).toBeLessThanOrEqual(0.5);
  });

  it("lose no acknowledged call and run none twice while one is killed every three seconds, and PostgreSQL restarts", async () => {
    const acknowledged: { callId: string; id: string }[] = [];
    const outcomes = new Map<string, number>();
    const count = (outcome: string) => outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    const ends = performance.now() + SOAK;
    let chosen = 0;
    const clients = Array.from({ length: CLIENTS }, async (_, client) => {
      for (let n = 0; performance.now() < ends; n++) {
        const id = `soak-${client}-${n}`;
        const node = fleet.nodes[chosen++ % fleet.nodes.length]!;
        const tool = n % 2 === 0 ? "note" : "steady";
        const given = n % 3 === 0 ? { callId: id } : {};
        try {
          const { status, body } = await node.ask("POST", `/api/tools/${tool}/calls`, {
            arguments: { id, ms: 5 },
            ...given,
          });
          count(String(status));
          if (status === 200 && body.recorded !== false) acknowledged.push({ callId: body.callId, id });
        } catch {
          count("connection lost");
          await wait(50);
        }
      }
    });
    const chaos = (async () => {
      for (let turn = 0; performance.now() + KILL_EVERY < ends; turn++) {
        await wait(KILL_EVERY);
        const at = turn % 3;
        await fleet.nodes[at]!.end("SIGKILL");
        if (turn === 1) {
          await fleet.database.goAway();
          await wait(1_500);
          await fleet.database.comeBack();
        }
        fleet.nodes[at] = await fleet.startNode();
      }
    })();
    await Promise.all([...clients, chaos]);
    console.log(
      `soak: ${acknowledged.length} acknowledged; answers ${JSON.stringify(Object.fromEntries(outcomes))}`,
    );
    expect(acknowledged.length).toBeGreaterThan(100);
    for (const status of outcomes.keys()) expect(["200", "409", "503", "connection lost"]).toContain(status);
    const node = fleet.nodes[0]!;
    const effects = Map.groupBy(fleet.effects("begin "), (line) => line.split(" ")[1]);
    for (const [id, lines] of effects) expect([id, lines.length]).toEqual([id, 1]);
    let lost = 0;
    for (const { callId, id } of acknowledged) {
      const { status, body } = await node.ask("GET", `/api/calls/${callId}`);
      if (status !== 200 || body.status !== "completed" || body.result.content !== `noted ${id}`) lost++;
    }
    expect(lost).toBe(0);
    // Nothing is left running: what killed nodes left was taken up.
    await until(
      async () => (await node.ask("GET", "/api/calls?status=running&limit=5")).body.items.length === 0,
      20_000,
    );
  });

  it("answer 503 while PostgreSQL is away, lose no call that was acknowledged before, and record what ran meanwhile", async () => {
    fleet.forgetEffects();
    const calls: { id: string; status: number; recorded: boolean; callId?: string }[] = [];
    const broken: string[] = [];
    let isOver = false;
    const clients = Array.from({ length: 12 }, async (_, client) => {
      for (let n = 0; !isOver; n++) {
        const id = `away-${client}-${n}`;
        const node = fleet.nodes[(client + n) % 3]!;
        const given = n % 4 === 0 ? { callId: id } : {};
        try {
          const { status, body } = await node.ask("POST", "/api/tools/note/calls", {
            arguments: { id, ms: 5 },
            ...given,
          });
          calls.push({ id, status, recorded: body.recorded !== false, callId: body.callId });
          if (status !== 200) await wait(20);
        } catch (error) {
          broken.push(String(error));
        }
      }
    });
    await until(() => calls.length > 300, 30_000);
    await fleet.database.goAway();
    await wait(5_000);
    const lists = await Promise.all(fleet.nodes.map((node) => node.ask("GET", "/api/calls")));
    const ready = await Promise.all(fleet.nodes.map((node) => node.ask("GET", "/readyz")));
    await wait(15_000);
    const duringOutage = calls.length;
    await fleet.database.comeBack();
    await until(async () => {
      const answers = await Promise.all(fleet.nodes.map((node) => node.ask("GET", "/readyz")));
      return answers.every(({ status }) => status === 200);
    }, 30_000);
    await until(() => calls.length > duringOutage + 300, 30_000);
    isOver = true;
    await Promise.all(clients);
    const counted = Map.groupBy(
      calls,
      ({ status, recorded }) => `${status}${recorded ? "" : " not recorded yet"}`,
    );
    console.log(`away: ${[...counted].map(([kind, some]) => `${kind}: ${some.length}`).join(", ")}`);
    expect(lists.map(({ status }) => status)).toEqual([503, 503, 503]);
    expect(ready.map(({ status }) => status)).toEqual([503, 503, 503]);
    expect(broken).toEqual([]);
    expect(calls.filter(({ status }) => status !== 200 && status !== 503)).toEqual([]);
    const begun = Map.groupBy(fleet.effects("begin "), (line) => line.split(" ")[1]);
    for (const [id, lines] of begun) expect([id, lines.length]).toEqual([id, 1]);
    for (const { id, status } of calls) if (status === 503) expect([id, begun.has(id)]).toEqual([id, false]);
    // The records that waited are written by now, or within seconds.
    let missing = calls.filter(({ status }) => status === 200);
    const look = async () => {
      const found = await Promise.all(
        missing.slice(0, 200).map(({ callId }) => fleet.nodes[0]!.ask("GET", `/api/calls/${callId}`)),
      );
      const done = new Set(
        found.flatMap(({ body }) => (body.status === "completed" ? [String(body.callId)] : [])),
      );
      missing = missing.filter(({ callId }) => !done.has(String(callId)));
      return missing.length === 0;
    };
    console.log(`away: all records were there after ${Math.round(await until(look, 60_000))} ms`);
  });

  it("run each due time of a schedule once, and never two at a time", async () => {
    fleet.forgetEffects();
    const made = await fleet.nodes[0]!.call("schedule_tool", {
      action: "create",
      toolName: "note",
      toolArgs: { id: "tick", ms: 1_500 },
      interval: "every@1s",
    });
    expect(made.status).toBe(200);
    await wait(12_000);
    let running = 0;
    for (const line of fleet.effects()) {
      if (line.startsWith("begin tick")) running++;
      if (line.startsWith("end tick")) running--;
      expect(running).toBeLessThanOrEqual(1);
    }
    expect(fleet.effects("end tick").length).toBeGreaterThan(2);
  });
});
