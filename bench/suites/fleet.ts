import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import {
  findPostgres,
  findRedis,
  startPostgres,
  startRedis,
} from "../../packages/server/src/builtin-tools/testing/database-servers.ts";
import { contestants } from "../contestants/index.ts";
import { describeGoal, type GoalOutcome, judgeGoal } from "../lib/goal.ts";
import { medianOf } from "../lib/median-of.ts";
import { cpuOf } from "../lib/served-process.ts";
import type { Suite } from "../lib/suite.ts";
import { formatNumber, formatRatio } from "../lib/table.ts";

interface FleetSample {
  /** Milliseconds from asking to the answer, by the clock. */
  readonly p50: number;
  readonly p99: number;
  readonly callsPerSecond: number;
  /** Microseconds of CPU of all processes of the contestant, for each call. Redis and PostgreSQL are not counted. */
  readonly cpu: number;
}

const inFlight: Record<string, number> = { "1 in flight": 1, "64 in flight": 64 };
const seconds = Number(process.env.BENCH_FLEET_SECONDS ?? 6);
const root = fileURLToPath(new URL("../..", import.meta.url));
const main = fileURLToPath(new URL("../../packages/server/src/main.ts", import.meta.url));

const tools = `import { Tool } from "@toolrack/core";
const add = { description: "Adds one to a number.",
  parameters: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] },
  execute: async ({ input }) => String(input.n + 1) };
export const direct = Tool.define({ name: "direct", ...add });
export const lane = Tool.define({ name: "lane", metadata: { lane: "bench" }, ...add });
export const again = Tool.define({ name: "again", metadata: { lane: "bench", idempotent: true }, ...add });
`;

const bullmqWorker = `import { Worker } from "bullmq";
const worker = new Worker("bench", async (job) => String(job.data.n + 1), {
  connection: { url: process.env.REDIS_URL, maxRetriesPerRequest: null }, concurrency: 64 });
await worker.waitUntilReady();
console.log("ready");`;

const toolOf: Record<string, string> = { "ours-lane-again": "again", "ours-lane": "lane" };

/** A call that a worker performs, beside the same call where it arrives, and beside BullMQ with nothing around it. */
export const fleet: Suite<FleetSample> = {
  title: "calls of lanes",
  floor: "bullmq",
  contestants: [
    "bullmq",
    "ours-postgres",
    "ours-arrival",
    "ours-lane-again",
    "ours-lane",
    "ours-lane-sqlite",
  ],
  variants: Object.keys(inFlight),

  async sample({ contestant, variant }) {
    if (process.platform !== "linux") throw new Error("CPU time is read from /proc: Linux only");
    const redis = findRedis();
    const postgres = findPostgres();
    if (redis === undefined || postgres === undefined) throw new Error("needs redis-server and PostgreSQL");
    await using queue = await startRedis(redis);
    const many = inFlight[variant]!;
    if (contestant === "bullmq") return await measureBullmq(queue.url, many);
    if (contestant === "ours-lane-sqlite") return await measureRack("lane", many, { REDIS_URL: queue.url });
    await using database = await startPostgres(postgres);
    if (contestant === "ours-postgres")
      return await measureRack("direct", many, { DATABASE_URL: database.url });
    const env = { REDIS_URL: queue.url, DATABASE_URL: database.url };
    return await measureRack(toolOf[contestant] ?? "direct", many, env);
  },

  report(measured) {
    const goals: GoalOutcome[] = [];
    const of = (contestant: string, variant: string) =>
      measured.find((one) => one.contestant === contestant && one.variant === variant);
    const rows = measured.map((entry) => {
      const floor = of("bullmq", entry.variant);
      const direct = of("ours-arrival", entry.variant);
      const isLane = entry.contestant.startsWith("ours-lane");
      const added = isLane ? medianOf(entry, "p50") - medianOf(direct, "p50") : Number.NaN;
      const ratio = added / medianOf(floor, "p50");
      const alone = medianOf(entry, "cpu") / medianOf(of("ours-postgres", entry.variant), "cpu");
      const goal =
        // BullMQ itself may run a job twice, so this is what promises the same.
        entry.contestant === "ours-lane-again" && entry.variant === "1 in flight"
          ? [judgeGoal("p50 that a lane adds, to BullMQ's round trip", 1.5, ratio)]
          : entry.contestant === "ours-arrival"
            ? [judgeGoal(`CPU of a direct call with a fleet, to one without, ${entry.variant}`, 1.05, alone)]
            : [];
      goals.push(...goal);
      return [
        `${contestants[entry.contestant].title}, ${entry.variant}`,
        ...(["p50", "p99", "callsPerSecond", "cpu"] as const).map((key) =>
          formatNumber(medianOf(entry, key)),
        ),
        isLane ? formatNumber(added) : "",
        isLane ? formatRatio(ratio) : "",
        formatRatio(medianOf(entry, "cpu") / medianOf(floor, "cpu")),
        goal.map((one) => describeGoal(one)).join(),
      ];
    });
    const columns = ["contestant", "p50, ms", "p99, ms", "calls/s", "CPU, µs/call"];
    const ratios = ["added p50, ms", "to BullMQ", "CPU to BullMQ", "goal"];
    return { tables: [{ title: `${seconds} s`, columns: [...columns, ...ratios], rows }], goals };
  },
};

async function measureBullmq(url: string, many: number): Promise<FleetSample> {
  const worker = spawn(process.execPath, ["--input-type=module", "-e", bullmqWorker], {
    cwd: root,
    env: { ...process.env, REDIS_URL: url },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const { Queue, QueueEvents } = await import("bullmq");
  const connection = { url };
  const queue = new Queue("bench", { connection });
  const events = new QueueEvents("bench", { connection });
  // Every job that is waited for listens.
  queue.setMaxListeners(0);
  events.setMaxListeners(0);
  try {
    await once(createInterface(worker.stdout!), "line");
    await events.waitUntilReady();
    return await measure(many, [worker, undefined], async (n) => {
      const job = await queue.add("add", { n }, { removeOnComplete: { count: 1_000 } });
      if ((await job.waitUntilFinished(events)) !== String(n + 1)) throw new Error("a wrong answer");
    });
  } finally {
    worker.kill("SIGKILL");
    await Promise.all([queue.close(), events.close()]);
  }
}

async function measureRack(tool: string, many: number, env: Record<string, string>): Promise<FleetSample> {
  const directory = await mkdtemp(join(tmpdir(), "toolrack-bench-"));
  await mkdir(join(directory, "tools"));
  await writeFile(join(directory, "toolrack.config.js"), "export default { builtins: false };");
  await writeFile(join(directory, "tools/all.ts"), tools);
  const start = async (...words: string[]): Promise<{ process: ChildProcess; line: string }> => {
    const child = spawn(
      process.execPath,
      ["--conditions=toolrack-source", main, ...words, "--json", "--no-watch"],
      {
        cwd: directory,
        env: { ...process.env, ...env, TOOLRACK_KEYRING: "off" },
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    const [line] = (await once(createInterface(child.stdout!), "line")) as [string]; // A line event carries the line.
    child.stdout!.resume();
    return { process: child, line };
  };
  const started: ChildProcess[] = [];
  try {
    const server = await start("serve", "--port", "0");
    started.push(server.process);
    if (env.REDIS_URL !== undefined) started.push((await start("worker", "--concurrency", "64")).process);
    const { readFile } = await import("node:fs/promises");
    const token = (await readFile(join(directory, ".toolrack/token"), "utf8")).trim();
    const url = `${JSON.parse(server.line).url}/api/tools/${tool}/calls`;
    const agent = new Agent({ keepAlive: true });
    return await measure(many, started, async (n) => {
      const outgoing = request(url, {
        agent,
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      });
      outgoing.end(JSON.stringify({ arguments: { n } }));
      const [incoming] = await once(outgoing, "response");
      const { recorded, result } = JSON.parse(await text(incoming));
      if (recorded !== true || result.content !== String(n + 1)) throw new Error(JSON.stringify(result));
    });
  } finally {
    for (const child of started) child.kill("SIGKILL");
    await rm(directory, { recursive: true, force: true, maxRetries: 5 });
  }
}

/**
 * Makes calls for some seconds. `undefined` among the processes stands for this one. Before, everybody is warmed up with as many
 * in flight as there ever are: with one, what takes longer would have made fewer calls, and would still be compiled while it
 * is measured.
 */
async function measure(
  many: number,
  processes: readonly (ChildProcess | undefined)[],
  call: (n: number) => Promise<void>,
): Promise<FleetSample> {
  const cpu = () => processes.reduce((sum, one) => sum + cpuOf(one?.pid ?? process.pid), 0);
  const run = async (milliseconds: number, together: number) => {
    const end = performance.now() + milliseconds;
    const times: number[] = [];
    let n = 0;
    await Promise.all(
      Array.from({ length: together }, async () => {
        while (performance.now() < end) {
          const before = performance.now();
          await call(n++);
          times.push(performance.now() - before);
        }
      }),
    );
    return times.sort((one, other) => one - other);
  };
  await run(6_000, 64);
  await run(500, many);
  const before = cpu();
  const since = performance.now();
  const times = await run(seconds * 1_000, many);
  const elapsed = (performance.now() - since) / 1_000;
  return {
    p50: times[Math.floor(times.length / 2)]!,
    p99: times[Math.floor(times.length * 0.99)]!,
    callsPerSecond: times.length / elapsed,
    cpu: ((cpu() - before) * 1e6) / times.length,
  };
}
