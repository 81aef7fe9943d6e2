import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  findPostgres,
  findRedis,
  startPostgres,
  startRedis,
  type TestDatabaseServer,
} from "../../builtin-tools/testing/database-servers.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { laneTools } from "./testing/lane-tools.ts";
import { type Json, linesOf, repeatedIn, ServerProcess } from "./testing/server-process.ts";

const postgres = findPostgres();
const redis = findRedis();
const isMissing = postgres === undefined || redis === undefined;
if (isMissing) console.warn("SKIPPED: workers. Install PostgreSQL and redis-server to run it.");

const config = `export default { builtins: false, workers: { lanes: {
  heavy: { maxWaiting: 4, limits: { limited: { concurrency: 1 } } },
  wide: { limits: { paced: { rate: { calls: 2, seconds: 1 } } } } } } };`;

describe.skipIf(isMissing)("a server and two workers on PostgreSQL and Redis", () => {
  const stack = new AsyncDisposableStack();
  let queue: TestDatabaseServer;
  let workspace: TemporaryWorkspace;
  let server: ServerProcess;
  let workers: ServerProcess[];
  let env: Record<string, string>;
  const startWorker = (...args: string[]) =>
    ServerProcess.start(workspace.directory, { command: "worker", env, args });

  beforeAll(async () => {
    const [database, started] = await Promise.all([startPostgres(postgres!), startRedis(redis!)]);
    queue = started;
    stack.use(database);
    stack.use(queue);
    workspace = stack.use(
      await TemporaryWorkspace.create({ "toolrack.config.js": config, "tools/all.ts": laneTools }),
    );
    env = { DATABASE_URL: database.url, REDIS_URL: queue.url, TOOLRACK_KEYRING: "off" };
    server = stack.use(await ServerProcess.start(workspace.directory, { env }));
    workers = await Promise.all([startWorker("--concurrency", "2"), startWorker("--concurrency", "2")]);
    for (const worker of workers) stack.use(worker);
  }, 60_000);
  afterAll(() => stack.disposeAsync(), 30_000);

  const recordOf = async (callId: string): Promise<Json> => (await server.ask(`/api/calls/${callId}`)).body;

  /** Waits until a call has a state, as its record shows it. */
  async function until(callId: string, isMet: (record: Json) => boolean): Promise<Json> {
    for (;;) {
      const record = await recordOf(callId);
      if (isMet(record)) return record;
      await sleep(20);
    }
  }

  /** How many calls of the limited tool ran at one time, at most. */
  function mostAtOnce(): number {
    let most = 0;
    let begun = 0;
    for (const line of linesOf(workspace.directory, "limited.txt")) {
      begun += line === "begin" ? 1 : -1;
      most = Math.max(most, begun);
    }
    return most;
  }

  it("runs a tool of a lane in a worker, and others where the call arrives", async () => {
    const { body } = await server.call("once", { n: 0 });
    expect(body).toMatchObject({ status: "completed", recorded: true, result: { structured: { n: 0 } } });
    expect(workers.map(({ pid }) => pid)).toContain(body.result.structured.pid);
    expect(await recordOf(body.callId)).toMatchObject({
      status: "completed",
      lane: "heavy",
      toolName: "once",
    });
    expect((await server.call("here", {})).body.result.structured.pid).toBe(server.pid);
  });

  it("shows lanes with their tools and workers, and what a worker serves", async () => {
    const workerIds = () => workers.map(({ pid }) => pid).sort();
    let body: Json;
    const told = () => body.items.filter(({ lanes }: Json) => lanes !== undefined);
    const isTold = () => told().length === 2 && body.lanes[0]?.workers.length === 2;
    for (; body === undefined || !isTold(); await sleep(50)) body = (await server.ask("/api/nodes")).body;
    expect(body.lanes.map(({ name }: Json) => name)).toEqual(["heavy", "wide"]);
    const [heavy] = body.lanes;
    expect(heavy).toMatchObject({ waiting: 0, tools: expect.arrayContaining(["once", "limited"]) });
    const pidOf = ({ name }: Json) => Number(name.split(":")[1]);
    expect(heavy.workers.map(pidOf).sort()).toEqual(workerIds());
    expect(heavy.workers[0]).toMatchObject({ concurrency: 2 });
    expect(told().map(pidOf).sort()).toEqual(workerIds());
    expect(told()[0].lanes.toSorted()).toEqual(["heavy", "wide"]);
  });

  it("carries long arguments, long results and errors", async () => {
    const text = "long ".repeat(20_000);
    const { body } = await server.call("echo", { text });
    expect(body.result.metadata.truncated.total).toBe(text.length);
    const whole = await server.ask(`/api/calls/${body.callId}/result?offset=0&limit=200000`);
    expect(whole.body.text).toBe(text);
    const refused = await server.call("once", { n: "no number" });
    expect(refused.body.error.code).toBe("invalid_arguments");
  });

  it("lets a tool ask, call others, log and report, and cancels it within a second", async () => {
    const calling = server.call("chain", { size: 50_000 }, { callId: "chained" });
    let question: Json;
    for (; question === undefined; await sleep(20))
      question = (await server.ask("/api/approvals?state=pending")).body.items[0];
    expect(question).toMatchObject({ toolName: "chain", message: "Go on?", stage: "during" });
    await server.ask(`/api/approvals/${question.id}`, { decision: "allow" });
    const { structured } = (await calling).body.result;
    const pids = workers.map(({ pid }) => pid);
    expect(pids).toContain(structured.pid);
    expect(pids).toContain(structured.child.pid);
    expect(structured).toMatchObject({ local: server.pid, size: 50_000, failed: "tool_not_found" });
    const record = await recordOf("chained");
    expect(record.log.map(({ text }: Json) => text)).toEqual(["first line", "half (1/2)"]);
    const { items } = (await server.ask("/api/calls?root=chained")).body;
    expect(items.map(({ toolName, depth }: Json) => [toolName, depth])).toEqual(
      expect.arrayContaining([
        ["again", 1],
        ["here", 1],
        ["chain", 0],
      ]),
    );

    const endless = server.call("once", { n: -1, ms: 60_000 }, { callId: "endless" });
    for (; !linesOf(workspace.directory, "begun.txt").includes("-1"); ) await sleep(20);
    const before = performance.now();
    await server.ask("/api/calls/endless", undefined, { method: "DELETE" });
    expect((await endless).body.result.error.code).toBe("cancelled");
    expect(performance.now() - before).toBeLessThan(1_000);
    expect(linesOf(workspace.directory, "aborted.txt")).toContain("endless");
    expect(await recordOf("endless")).toMatchObject({ status: "cancelled", error: { code: "cancelled" } });
  });

  it("performs the calls that calls make, though these take all places of their lane", async () => {
    const nested = await Promise.all(Array.from({ length: 8 }, () => server.call("nest", {})));
    expect(nested.map(({ body }) => body.status)).toEqual(Array(8).fill("completed"));
  }, 90_000);

  it("keeps the limit of a tool over all workers, and refuses calls when the queue is full", async () => {
    const calling = Promise.all(Array.from({ length: 12 }, () => server.call("limited", { n: 1, ms: 150 })));
    const running = async () => (await server.ask("/api/calls?status=running")).body.items.length;
    while ((await running()) < 4) await sleep(1);
    expect((await server.ask("/api/nodes")).body.lanes[0].waiting).toBeGreaterThan(0);
    const burst = await calling;
    expect(mostAtOnce()).toBe(1);
    const busy = burst.filter(({ status }) => status === 429);
    expect(busy.length).toBeGreaterThan(0);
    expect(busy[0]!.body.error).toMatchObject({ code: "busy", details: { lane: "heavy" } });
    expect(burst.filter(({ body }) => body.status === "completed").length).toBe(12 - busy.length);
  });

  it("keeps the limit of a tool when Redis comes back without its data", async () => {
    const client = new Redis(queue.url);
    await client.flushall();
    await client.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    const limit = async () =>
      (await client.keys("*.limited.*:meta")).map((key) => client.hget(key, "concurrency"));
    while ((await Promise.all(await limit())).join() !== "1") await sleep(20);
    await client.quit();
    const calls = await Promise.all(
      Array.from({ length: 4 }, () => server.call("limited", { n: 1, ms: 50 })),
    );
    expect(calls.map(({ body }) => body.status)).toEqual(Array(4).fill("completed"));
    expect(mostAtOnce()).toBe(1);
  });

  it("begins no more calls of a tool in some seconds than its rate allows, whichever worker and server they come to", async () => {
    await using other = await ServerProcess.start(workspace.directory, { env });
    const servers = [server, other];
    await Promise.all(Array.from({ length: 5 }, (_, n) => servers[n % 2]!.call("paced", {})));
    const times = linesOf(workspace.directory, "paced.txt").map(Number).sort();
    expect(times).toHaveLength(5);
    // Two begin in the first second, two in the next. The first may have said so late.
    expect(times[4]! - times[0]!).toBeGreaterThan(1_000);

    const lanes = JSON.stringify({ wide: { limits: { paced: { concurrency: 5 } } } });
    await using _ = await ServerProcess.start(workspace.directory, {
      command: "worker",
      env: { ...env, TOOLRACK_WORKERS_LANES: lanes },
    });
    // As soon as the limit is forgotten that a worker no longer has, five calls take less, unless the machine is busy.
    for (let span = Number.POSITIVE_INFINITY; span > 1_000; ) {
      await Promise.all(Array.from({ length: 5 }, () => server.call("paced", {})));
      const last = linesOf(workspace.directory, "paced.txt").map(Number).sort().slice(-5);
      span = last[4]! - last[0]!;
    }
  });

  it("counts no call as waiting that was cancelled while it waited", async () => {
    const begun = () => linesOf(workspace.directory, "limited.txt").filter((line) => line === "begin").length;
    const before = begun();
    const holding = server.call("limited", { n: 1, ms: 2_000 });
    while (begun() === before) await sleep(5);
    for (let n = 0; n < 12; n++) {
      const callId = `given-up-${n}`;
      const waiting = server.call("limited", { n: 1, ms: 1 }, { callId });
      await until(callId, ({ lane }) => lane === "heavy");
      await server.ask(`/api/calls/${callId}`, undefined, { method: "DELETE" });
      expect((await waiting).body).toMatchObject({ result: { error: { code: "cancelled" } } });
    }
    expect((await holding).body.status).toBe("completed");
  });

  it("says that the outcome is unknown when a worker dies, and runs only idempotent tools again", async () => {
    const [dying, other] = workers as [ServerProcess, ServerProcess];
    // More than one worker's places, so that both have some.
    const runs = [100, 101].map((n) => server.call("once", { n, ms: 2_500 }));
    const repeatable = [200, 201].map((n) => server.call("again", { n, ms: 2_500 }));
    const begun = () => linesOf(workspace.directory, "begun.txt");
    for (; begun().filter((n) => Number(n) >= 100).length < 4; ) await sleep(20);
    await dying.end("SIGKILL");
    workers = [other, stack.use(await startWorker("--concurrency", "2"))];
    const ended = (await Promise.all(runs)).map(({ body }) => body.result.error?.code ?? body.status);
    const repeated = (await Promise.all(repeatable)).map(({ body }) => body.status);
    expect(repeated).toEqual(["completed", "completed"]);
    for (const end of ended) expect(["completed", "outcome_unknown"]).toContain(end);
    const noted = begun().filter((n) => Number(n) >= 100);
    // What began twice was idempotent, and something was lost with the worker.
    expect(repeatedIn(noted).every((n) => Number(n) >= 200)).toBe(true);
    expect(ended.includes("outcome_unknown") || repeatedIn(noted).length > 0).toBe(true);
  });

  it("runs an id that two servers get at once on one of them, and completes what a dead server had handed over", async () => {
    const doomed = stack.use(await ServerProcess.start(workspace.directory, { env }));
    const pairs = Array.from({ length: 10 }, async (_, n) => {
      const send = (to: ServerProcess) => to.call("wide", { n: 500 + n }, { callId: `pair-${n}` });
      const both = await Promise.all([send(server), send(doomed)]);
      return both.map(({ body }) => body.error?.code ?? body.status).sort();
    });
    expect(await Promise.all(pairs)).toEqual(Array(10).fill(["call_exists", "completed"]));
    const begun = () => linesOf(workspace.directory, "begun.txt").map(Number);
    expect(
      repeatedIn(
        begun()
          .filter((n) => n >= 500 && n < 600)
          .map(String),
      ),
    ).toEqual([]);

    const ids = Array.from({ length: 30 }, (_, n) => 600 + n);
    const broken = ids.map((n) =>
      doomed.call("wide", { n, ms: 30 }, { callId: `left-${n}` }).catch(() => {}),
    );
    for (; !begun().some((n) => n >= 600); ) await sleep(1);
    await doomed.end("SIGKILL");
    await Promise.all(broken);
    const known = (await Promise.all(ids.map((n) => server.ask(`/api/calls/left-${n}`)))).flatMap(
      ({ status, body }) => (status === 200 ? [String(body.callId)] : []),
    );
    expect(known.length).toBeGreaterThan(0);
    for (const callId of known) {
      const { status } = await until(callId, (record) => record.status !== "running");
      expect([callId, status]).toEqual([callId, "completed"]);
    }
  }, 60_000);

  it("waits for Redis with a clear state, and runs other tools meanwhile", async () => {
    await queue.goAway();
    const waiting = server.call("once", { n: 300 }, { callId: "waits" });
    await until("waits", ({ lane }) => lane === "heavy");
    const live = (await server.ask("/api/calls?status=running")).body.items;
    expect(live.map(({ callId }: Json) => callId)).toEqual(["waits"]);
    expect((await server.call("here", {})).body.status).toBe("completed");
    await queue.comeBack();
    expect((await waiting).body).toMatchObject({ status: "completed", recorded: true });
    expect(linesOf(workspace.directory, "begun.txt").filter((n) => n === "300")).toEqual(["300"]);
  });

  it("runs no call before the id that its caller chose is claimed, though it may run twice", async () => {
    const { default: pg } = await import("pg");
    const client = new pg.Client(env.DATABASE_URL);
    await client.connect();
    await client.query("begin; lock table calls in share row exclusive mode");
    const claimed = server.call("again", { n: 700 }, { callId: "claimed-late" });
    const isUnderWay = async () => (await server.ask("/api/nodes")).body.items[0].calls > 0;
    while (!(await isUnderWay())) await sleep(20);
    // Whatever waits is put into its queue anew.
    await queue.goAway();
    await queue.comeBack();
    const other = server.call("again", { n: 701 });
    const begun = () => linesOf(workspace.directory, "begun.txt");
    while (!begun().includes("701")) await sleep(20);
    expect(begun()).not.toContain("700");
    await client.query("rollback");
    await client.end();
    for (const { body } of [await claimed, await other]) expect(body.status).toBe("completed");
  });

  it("gives a call to no worker with another version of the tool", async () => {
    await Promise.all(workers.map((worker) => worker.end("SIGTERM")));
    await workspace.write("tools/all.ts", `${laneTools}\n// another version`);
    const other = stack.use(await startWorker());
    // One that was killed is forgotten some seconds later.
    const known = async () => {
      const { lanes } = (await server.ask("/api/nodes")).body;
      return lanes[0].workers.map(({ name }: Json) => Number(name.split(":")[1]));
    };
    while (String(await known()) !== String(other.pid)) await sleep(50);
    const calling = server.call("once", { n: 400 }, { timeout: 1_500 });
    expect((await calling).body.result.error).toMatchObject({
      code: "timed_out",
      message: expect.stringMatching(
        /within 1\.5 s\. Waiting for a worker of lane "heavy" .*another version/,
      ),
    });
    expect(linesOf(workspace.directory, "begun.txt")).not.toContain("400");
    await other.end("SIGTERM");
  });
});
