import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import {
  findPostgres,
  findRedis,
  startPostgres,
  startRedis,
} from "../../builtin-tools/testing/database-servers.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { laneTools } from "./testing/lane-tools.ts";
import { type Answer, linesOf, repeatedIn, ServerProcess } from "./testing/server-process.ts";

const SERVERS = 3;
const WORKERS = 4;
const CLIENTS = 32;
const SECONDS = 60;
const KILL_EVERY = 3_000;

const postgres = findPostgres();
const redis = findRedis();
const isMissing = postgres === undefined || redis === undefined;
if (isMissing) console.warn("SKIPPED: the fleet. Install PostgreSQL and redis-server to run it.");

interface Sent {
  readonly n: number;
  readonly tool: "once" | "again";
  /** What the client was told at last; undefined when its connection broke each time. */
  answer?: Answer | undefined;
}

/** Whether the client knows that there is a call under its id: it was told how it ended, or that the id is taken. */
const isKnown = ({ answer }: Sent) => answer?.status === 200 || answer?.status === 409;

test.skipIf(isMissing)(
  "3 servers and 4 workers, 32 clients, kill -9 in turn every 3 s, PostgreSQL and Redis restarted",
  async ({ task }) => {
    await using database = await startPostgres(postgres!);
    await using queue = await startRedis(redis!);
    await using workspace = await TemporaryWorkspace.create({
      "toolrack.config.js": "export default { builtins: false };",
      "tools/all.ts": laneTools,
    });
    const { directory } = workspace;
    const env = { DATABASE_URL: database.url, REDIS_URL: queue.url, TOOLRACK_KEYRING: "off" };
    // As a supervisor does: a process that cannot start because the database is away is started again.
    const start = (command: "serve" | "worker", attempts = 5): Promise<ServerProcess> =>
      ServerProcess.start(directory, { command, env }).catch(async (error) => {
        if (attempts === 0) throw error;
        await sleep(500);
        return start(command, attempts - 1);
      });
    await using stack = new AsyncDisposableStack();
    // The first makes the token and the tables, which the others find.
    const servers = [await start("serve")];
    for (let at = 1; at < SERVERS; at++) servers.push(await start("serve"));
    const workers = await Promise.all(Array.from({ length: WORKERS }, () => start("worker")));
    stack.defer(async () => {
      for (const one of [...servers, ...workers]) await one[Symbol.asyncDispose]();
    });

    const sent: Sent[] = [];
    const idOf = (n: number) => `fleet-${n}`;
    const end = performance.now() + SECONDS * 1_000;
    const giveUp = end + 60_000;
    const clients = Array.from({ length: CLIENTS }, async (_, client) => {
      while (performance.now() < end) {
        const n = sent.length;
        const call: Sent = { n, tool: n % 2 === 0 ? "once" : "again" };
        sent.push(call);
        // As a client does whose connection broke: it asks again under the same id, of any server.
        for (let attempt = 0; !isKnown(call) && performance.now() < giveUp; attempt++) {
          if (attempt > 0) await sleep(100);
          const living = servers.filter((server) => server.isAlive);
          const server = living[(n + client + attempt) % living.length];
          call.answer = await server
            ?.call(call.tool, { n, ms: 20 + ((n * 37) % 300) }, { callId: idOf(n) })
            .catch(() => undefined);
        }
      }
    });

    let kills = 0;
    const starting: Promise<void>[] = [];
    for (let turn = 0; performance.now() < end - KILL_EVERY; turn++) {
      await sleep(KILL_EVERY);
      if (turn === 5) await database.goAway().then(() => database.comeBack());
      if (turn === 10) await queue.goAway().then(() => queue.comeBack());
      const isWorker = turn % 2 === 0;
      const among = isWorker ? workers : servers;
      const living = among.filter((one) => one.isAlive);
      // On a busy machine a process takes longer to start than to be killed; one of each kind is left.
      if (living.length < 2) continue;
      const victim = living[Math.floor(turn / 2) % living.length]!;
      await victim.end("SIGKILL");
      kills++;
      starting.push(
        start(isWorker ? "worker" : "serve").then((fresh) => {
          among[among.indexOf(victim)] = fresh;
        }),
      );
    }
    await Promise.all(clients);
    await Promise.all(starting);

    const server = servers.find(({ isAlive }) => isAlive)!;
    const running = async () => (await server.ask("/api/calls?status=running&limit=100")).body.items;
    const settleBy = performance.now() + 60_000;
    while ((await running()).length > 0 && performance.now() < settleBy) await sleep(250);
    const left = await running();

    const records = new Map<number, { status: string; code?: string }>();
    for (const { n } of sent) {
      const { body, status } = await server.ask(`/api/calls/${idOf(n)}`);
      if (status === 200) records.set(n, { status: body.status, code: body.error?.code });
    }
    const begun = linesOf(directory, "begun.txt");
    const acknowledged = sent.filter(({ answer }) => answer?.status === 200 && answer.body.recorded === true);
    const lost = sent.filter(({ n }) => !records.has(n));
    const outcomeOf = ({ answer }: Sent) => answer?.body.result?.error?.code ?? answer?.body.status;
    const other = acknowledged.filter((call) => {
      const record = records.get(call.n);
      return record !== undefined && outcomeOf(call) !== (record.code ?? record.status);
    });
    const twice = repeatedIn(begun).filter((n) => Number(n) % 2 === 0);
    const unfinished = sent.filter(
      ({ n, tool }) => tool === "again" && records.get(n)?.status !== "completed",
    );
    const unknown = sent.filter(({ n }) => records.get(n)?.code === "outcome_unknown");
    task.meta.figures = {
      kills,
      sent: sent.length,
      acknowledged: acknowledged.length,
      lost: lost.length,
      "told otherwise": other.length,
      "run twice though not idempotent": twice.length,
      "run again, idempotent": repeatedIn(begun).length - twice.length,
      "outcome unknown": unknown.length,
      "still running": left.length,
    };
    console.log(task.meta.figures);
    expect(kills).toBeGreaterThan(5);
    expect(acknowledged.length).toBeGreaterThan(10 * CLIENTS);
    expect(lost).toEqual([]);
    expect(other.map((call) => [call.n, outcomeOf(call), records.get(call.n)])).toEqual([]);
    expect(twice).toEqual([]);
    expect(unfinished.map((call) => [call.n, outcomeOf(call), records.get(call.n)])).toEqual([]);
    expect(left).toEqual([]);
  },
  300_000,
);
