import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
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
    const { default: pg } = await import("pg");
    const client = new pg.Client(fleet.database.url);
    client.on("error", () => {});
    await client.connect();
    // By then, the follower of each node knows what the database announces.
    await wait(10_000);
    // What the database does for itself would be counted too.
    await client.query("alter system set autovacuum = off");
    await client.query("select pg_reload_conf()");
    const read = async () => {
      const { rows } = await client.query(
        "select xact_commit + xact_rollback as count from pg_stat_database where datname = current_database()",
      );
      return Number(rows[0].count);
    };
    // What a connection has done is counted when it has been idle for a moment.
    const before = await read();
    const seconds = 60;
    await wait(seconds * 1_000);
    const rate = ((await read()) - before - 1) / seconds / 3;
    await client.end();
    console.log(`idle: ${rate.toFixed(2)} transactions a second per node`);
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
