import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openSandbox } from "../../packages/server/src/sandbox/sandbox.ts";
import { contestants } from "../contestants/index.ts";
import { describeGoal, type GoalOutcome, judgeGoal } from "../lib/goal.ts";
import { medianOf } from "../lib/median-of.ts";
import { median } from "../lib/statistics.ts";
import type { Measured, Suite } from "../lib/suite.ts";
import { formatNumber, formatRatio } from "../lib/table.ts";
import { treeBelow } from "./first-line.ts";

interface SandboxSample {
  /** Microseconds of one call after another, by the clock: the best batch, as a busy neighbour only ever adds. */
  readonly warmCall: number;
  /** Milliseconds from the call to its answer, on a worker that has never seen the tool. The floor has none. */
  readonly firstCall?: number;
  /** Memory in MB that nobody else shares, of an idle worker with all its processes. */
  readonly privateMemory: number;
}

const limits = { warmCall: 100, firstCall: 10, privateMemory: 25 } as const;
const batches = 20;
const callsPerBatch = 500;
const firstCalls = 7;
const params = { name: "someone", text: "x".repeat(150), count: 3 };
const code = `module.exports = { methods: { echo: (params) => params } };`;

type Call = (params: unknown) => Promise<unknown>;

/** A tool in a process of its own: what confining it adds to what the pipe takes anyway. */
export const sandbox: Suite<SandboxSample> = {
  title: "Sandboxed call",
  floor: "node-pipe",
  contestants: ["node-pipe", "ours-sandbox-3", "ours-sandbox-2"],
  variants: ["echo"],

  async sample({ contestant }) {
    if (contestant === "node-pipe") return samplePipe();
    return sampleSandbox(contestant === "ours-sandbox-3" ? 3 : 2);
  },

  report(measured) {
    const goals: GoalOutcome[] = [];
    const floor = medianOf(
      measured.find(({ contestant }) => contestant === sandbox.floor),
      "warmCall",
    );
    const rows = measured.map((entry) => {
      const judged = entry.contestant === sandbox.floor ? [] : judge(entry);
      goals.push(...judged);
      const warmCall = medianOf(entry, "warmCall");
      return [
        contestants[entry.contestant].title,
        formatNumber(warmCall),
        formatRatio(warmCall / floor),
        formatNumber(medianOf(entry, "firstCall")),
        formatNumber(medianOf(entry, "privateMemory")),
        judged.map((goal) => describeGoal(goal)).join("; "),
      ];
    });
    const columns = [
      "contestant",
      "warm call, µs",
      "to floor",
      "first call, ms",
      "private memory, MB",
      "goal",
    ];
    return { tables: [{ title: "echo of 200 bytes", columns, rows }], goals };
  },
};

async function sampleSandbox(level: 3 | 2): Promise<SandboxSample> {
  const directory = await mkdtemp(join(tmpdir(), "toolrack-bench-"));
  const ignore = () => {};
  const logger = { debug: ignore, info: ignore, warn: ignore, error: ignore };
  const opened = await openSandbox({ directory, logger, level });
  try {
    if (opened.level !== level) throw new Error(opened.reason);
    const { signal } = new AbortController();
    const callOf = (key: string): Call => {
      const spec = { key, label: key, code, filename: "echo.js", hosts: [], settings: null, foreign: false };
      const unlimited = { ...spec, limits: { maxCallsPerWorker: 1_000_000 } };
      return (given) => opened.invoke(unlimited, { method: "echo", params: given, signal });
    };
    const firsts: number[] = [];
    for (let index = 0; index < firstCalls; index++) {
      // Long enough for the next blank worker to be up.
      await sleep(700);
      const start = performance.now();
      await check(callOf(`first-${index}`));
      firsts.push(performance.now() - start);
      opened.retire([`first-${index}`]);
    }
    await sleep(700);
    const privateMemory = privateMemoryOfWorkers();
    return { warmCall: await microsecondsPerCall(callOf("warm")), firstCall: median(firsts), privateMemory };
  } finally {
    await opened.close();
    await rm(directory, { recursive: true, force: true });
  }
}

/**
 * The least that a call in another process can take: one line of JSON there, one back. The process has a session of
 * its own, as one must have that is killed with all it started; Linux schedules sessions against each other.
 */
async function samplePipe(): Promise<SandboxSample> {
  const program = `const socket = new (require("node:net").Socket)({ fd: 3, readable: true, writable: true });
    socket.setEncoding("utf8"); socket.on("data", (line) => socket.write(JSON.stringify(JSON.parse(line)) + "\\n"));`;
  const child: ChildProcess = spawn(process.execPath, ["-e", program], {
    stdio: ["ignore", "inherit", "inherit", "pipe"],
    detached: true,
  });
  // Stdio 3 is a socket in both directions; the types know only the first three.
  const channel = child.stdio[3] as unknown as Socket;
  channel.setEncoding("utf8");
  let answer: (value: unknown) => void;
  channel.on("data", (line: string) => answer(JSON.parse(line)));
  const call: Call = (given) =>
    new Promise((resolve) => {
      answer = resolve;
      channel.write(`${JSON.stringify(given)}\n`);
    });
  await check(call);
  const privateMemory = privateMemoryOfWorkers();
  const warmCall = await microsecondsPerCall(call);
  child.kill();
  await once(child, "exit");
  return { warmCall, privateMemory };
}

async function check(call: Call): Promise<void> {
  const answer = await call(params);
  if (JSON.stringify(answer) !== JSON.stringify(params))
    throw new Error(`answered ${JSON.stringify(answer)}`);
}

async function microsecondsPerCall(call: Call): Promise<number> {
  for (let done = 0; done < 6 * callsPerBatch; done++) await call(params);
  const figures: number[] = [];
  for (let batch = 0; batch < batches; batch++) {
    const start = performance.now();
    for (let done = 0; done < callsPerBatch; done++) await call(params);
    figures.push(((performance.now() - start) * 1_000) / callsPerBatch);
  }
  await check(call);
  return Math.min(...figures);
}

/** Of all processes below this one, which here is one worker. */
function privateMemoryOfWorkers(): number {
  return treeBelow(process.pid).reduce((sum, pid) => sum + privateKb(pid), 0) / 1024;
}

function privateKb(pid: number): number {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  return [...text.matchAll(/^Private_\w+:\s+(\d+)/gm)].reduce((sum, [, kb]) => sum + Number(kb), 0);
}

function judge(entry: Measured<SandboxSample>): GoalOutcome[] {
  const { title } = contestants[entry.contestant];
  return [
    judgeGoal(`${title}: warm call, of 100 µs`, 1, medianOf(entry, "warmCall") / limits.warmCall),
    judgeGoal(`${title}: first call, of 10 ms`, 1, medianOf(entry, "firstCall") / limits.firstCall),
    judgeGoal(
      `${title}: private memory, of 25 MB`,
      1,
      medianOf(entry, "privateMemory") / limits.privateMemory,
    ),
  ];
}
