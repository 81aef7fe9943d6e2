import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { Agent, createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { contestants } from "../contestants/index.ts";
import { describeGoal, type GoalOutcome, judgeGoal } from "../lib/goal.ts";
import { medianOf } from "../lib/median-of.ts";
import { cpuOf, memoryOf, type ServedProcess, startProgram, startRack } from "../lib/served-process.ts";
import { median } from "../lib/statistics.ts";
import type { Measured, Suite } from "../lib/suite.ts";
import { formatNumber, formatPercent, formatRatio } from "../lib/table.ts";

interface HttpSample {
  readonly callsPerSecond: number;
  /** Milliseconds from sending a request to the end of its answer. */
  readonly p50: number;
  readonly p99: number;
  /** Calls that were not answered, or answered wrongly. */
  readonly errors: number;
  /** Microseconds of the whole server process for each call. */
  readonly serverCpu: number;
  /** Resident memory of the server, in MB, when a fifth of the time was over, and at the end. */
  readonly memoryEarly: number;
  readonly memoryEnd: number;
}

/** What the process of the clients tells. */
interface LoadOutcome {
  readonly answered: number;
  readonly errors: number;
  readonly firstError?: string;
  readonly seconds: number;
  readonly p50: number;
  readonly p99: number;
}

interface Target {
  readonly url: string;
  readonly token: string;
  readonly seconds: number;
}

const clients = 128;
const seconds = Number(process.env.BENCH_HTTP_SECONDS ?? 10);
const memoryGrowthLimit = 1.3;
const self = fileURLToPath(import.meta.url);

/** Many clients at once on a real server, in processes of their own, for a while. */
export const http: Suite<HttpSample> = {
  title: "HTTP under load",
  floor: "node-http",
  contestants: ["node-http", "ours-http"],
  variants: [`${clients} clients`],

  async sample({ contestant }) {
    if (process.platform !== "linux")
      throw new Error("the figures of the server are read from /proc: Linux only");
    const directory = await mkdtemp(join(tmpdir(), "toolrack-bench-"));
    const isOurs = contestant === "ours-http";
    const server = isOurs ? await startRack(directory) : await startProgram([self, "floor"]);
    try {
      const { outcome, sample } = await measureLoad(server);
      if (outcome.answered === 0) throw new Error(`no call was answered: ${outcome.firstError}`);
      const ended = once(server.process, "close");
      server.process.kill("SIGTERM");
      await ended;
      if (isOurs) checkRecords(join(directory, ".toolrack/toolrack.db"), outcome);
      return sample;
    } finally {
      server.process.kill("SIGKILL");
      await rm(directory, { recursive: true, force: true });
    }
  },

  report(measured) {
    const goals: GoalOutcome[] = [];
    const floor = measured.find(({ contestant }) => contestant === http.floor);
    const rows = measured.map((entry) => {
      const judged = judge(entry);
      goals.push(...judged);
      return [
        `${contestants[entry.contestant].title}, ${entry.variant}`,
        formatNumber(medianOf(entry, "callsPerSecond")),
        formatNumber(medianOf(entry, "p50")),
        formatNumber(medianOf(entry, "p99")),
        String(worstErrors(entry)),
        formatNumber(medianOf(entry, "serverCpu")),
        formatRatio(medianOf(entry, "serverCpu") / medianOf(floor, "serverCpu")),
        formatNumber(medianOf(entry, "memoryEarly")),
        formatNumber(medianOf(entry, "memoryEnd")),
        formatPercent(growthOf(entry) - 1),
        judged.map((goal) => `${goal.what}: ${describeGoal(goal)}`).join("; "),
      ];
    });
    const columns = [
      "contestant",
      "calls/s",
      "p50, ms",
      "p99, ms",
      "errors",
      "server CPU, µs/call",
      "CPU to floor",
      "RSS at 20%, MB",
      "RSS at end, MB",
      "growth",
      "goal",
    ];
    return { tables: [{ title: `${clients} clients for ${seconds} s`, columns, rows }], goals };
  },
};

function judge(entry: Measured<HttpSample>): GoalOutcome[] {
  if (!entry.contestant.startsWith("ours")) return [];
  return [
    judgeGoal("errors", 0, worstErrors(entry)),
    // A short run ends while the runtime is still warming up, and says nothing about memory.
    ...(seconds >= 30
      ? [judgeGoal("memory at the end to that at 20%", memoryGrowthLimit, growthOf(entry))]
      : []),
  ];
}

/** One error in one round is one too many. */
function worstErrors({ samples }: Measured<HttpSample>): number {
  return Math.max(...samples.map(({ errors }) => errors));
}

function growthOf({ samples }: Measured<HttpSample>): number {
  return median(samples.map(({ memoryEarly, memoryEnd }) => memoryEnd / memoryEarly));
}

async function measureLoad({ process: server, url, token }: ServedProcess) {
  const target: Target = { url, token, seconds };
  const load = fork(self, ["load", JSON.stringify(target)], { execArgv: [] });
  const told = once(load, "message");
  const ended = once(load, "exit").then(() => {
    throw new Error("the clients ended without an answer");
  });
  ended.catch(() => {});
  const cpuBefore = cpuOf(server.pid!);
  await sleep(seconds * 200);
  const memoryEarly = memoryOf(server.pid!);
  // The only sender is `load` below, which sends exactly this type.
  const [outcome] = (await Promise.race([told, ended])) as [LoadOutcome];
  const memoryEnd = memoryOf(server.pid!);
  const cpu = cpuOf(server.pid!) - cpuBefore;
  const { answered, errors, p50, p99 } = outcome;
  const callsPerSecond = answered / outcome.seconds;
  const serverCpu = (cpu * 1e6) / answered;
  const sample: HttpSample = { callsPerSecond, p50, p99, errors, serverCpu, memoryEarly, memoryEnd };
  return { outcome, sample };
}

/** Each call has a number of its own, from 0 on, so that both a lost and a doubled record show. */
function checkRecords(file: string, { answered, errors }: LoadOutcome): void {
  const database = new DatabaseSync(file, { readOnly: true });
  const { total, different, highest } = database
    .prepare(
      `SELECT count(*) AS total, count(DISTINCT parameters ->> 'n') AS different, max(parameters ->> 'n') AS highest
       FROM calls WHERE tool_name = 'add' AND state = 'completed'`,
    )
    .get()!;
  database.close();
  if (total !== different)
    throw new Error(`${total} records of ${different} calls: some were recorded twice`);
  if (errors === 0 && (total !== answered || highest !== answered - 1)) {
    throw new Error(`${answered} calls were answered, ${total} recorded, the last with ${highest}`);
  }
  if (Number(total) < answered) throw new Error(`${answered} calls were answered, only ${total} recorded`);
}

/** What the least possible server does: reads the JSON, adds, answers in the same form. Nothing is kept. */
function serveFloor(): void {
  let count = 0;
  const server = createServer((incoming, response) => {
    let text = "";
    incoming.setEncoding("utf8");
    incoming.on("data", (chunk) => {
      text += chunk;
    });
    incoming.on("end", () => {
      const content = String(JSON.parse(text).arguments.n + 1);
      const body = JSON.stringify({ callId: String(count++), result: { content }, recorded: true });
      response.writeHead(200, { "content-type": "application/json", "content-length": body.length });
      response.end(body);
    });
  });
  server.listen(0, "127.0.0.1", () => {
    // A server that listens on a port has such an address.
    console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  });
  process.on("SIGTERM", () => process.exit(0));
}

/** All clients, each on a connection that stays open, each with one call at a time. */
async function load({ url, token, seconds }: Target): Promise<LoadOutcome> {
  const agent = new Agent({ keepAlive: true, maxSockets: clients });
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const latencies: number[] = [];
  let errors = 0;
  let firstError: string | undefined;
  let next = 0;
  const begin = performance.now();
  const end = begin + seconds * 1_000;
  const client = async () => {
    while (performance.now() < end) {
      const n = next++;
      const sent = performance.now();
      try {
        const { status, text } = await post(
          `${url}/api/tools/add/calls`,
          { arguments: { n } },
          headers,
          agent,
        );
        const { result, recorded } = JSON.parse(text);
        if (status !== 200 || result.content !== String(n + 1) || recorded !== true) throw new Error(text);
        latencies.push(performance.now() - sent);
      } catch (error) {
        errors++;
        firstError ??= String(error);
      }
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  const elapsed = (performance.now() - begin) / 1_000;
  agent.destroy();
  const sorted = Float64Array.from(latencies).sort();
  const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
  return {
    answered: latencies.length,
    errors,
    ...(firstError === undefined ? {} : { firstError }),
    seconds: elapsed,
    p50: at(0.5),
    p99: at(0.99),
  };
}

function post(
  url: string,
  body: unknown,
  headers: Readonly<Record<string, string>>,
  agent: Agent,
): Promise<{ status: number | undefined; text: string }> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { method: "POST", headers, agent }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk) => {
        text += chunk;
      });
      response.on("end", () => resolve({ status: response.statusCode, text }));
      response.on("error", reject);
    });
    outgoing.on("error", reject);
    outgoing.end(JSON.stringify(body));
  });
}

// This file is also the program of the floor and of the clients, which are processes of their own.
if (process.argv[1] === self) {
  const [role, target] = process.argv.slice(2);
  if (role === "floor") serveFloor();
  // `measureLoad` wrote the argument from the same type.
  else process.send!(await load(JSON.parse(target!) as Target), () => process.exit(0));
}
