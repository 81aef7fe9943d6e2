import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Tool, type ToolRegistry } from "@toolrack/core";
import type { Sandbox, WorkerSpec } from "../../packages/server/src/sandbox/index.ts";
import { median } from "../lib/statistics.ts";

/** From a call to the first line of what it calls. CPU is of all threads, in milliseconds. */
export interface FirstLine {
  /** Milliseconds by the clock. */
  readonly time: number;
  /** Of this process, which takes the call. */
  readonly hostCpu: number;
  /** Of the workers, also of blank ones that do nothing. */
  readonly workerCpu: number;
}

const ROUNDS = 9;
/** Milliseconds after which the next blank worker is up, and does nothing any more. */
const UNTIL_BLANK = 1_500;
/** The first line of both: when it runs, by the clock that all processes of a machine share. Then it lets the host look. */
const CLOCK = "String(globalThis.process.hrtime.bigint())";

const warmTool: WorkerSpec = {
  ...{ key: "warm", label: "warm", filename: "warm.js", hosts: [], settings: null, foreign: false },
  code: `module.exports = { methods: { run: async (_, call) => { const at = ${CLOCK}; await call.request("look", {}); return at; } } };`,
  limits: { maxCallsPerWorker: 1_000_000 },
};

/** Measures code with a blank worker at hand, and a sandboxed tool whose worker is warm, in turns. */
export async function measureFirstLines(
  registry: ToolRegistry,
  sandbox: Sandbox,
): Promise<{ readonly code: FirstLine; readonly warm: FirstLine }> {
  let seen = { host: 0, workers: 0 };
  const look = async () => {
    seen = cpuNow();
    return "looked";
  };
  const none = { type: "object", properties: {} };
  registry.register(Tool.define({ name: "look", description: "", parameters: none, execute: look }));
  registry.register(
    Tool.define({
      name: "warm",
      description: "",
      parameters: none,
      execute: async ({ signal }) =>
        String(await sandbox.invoke(warmTool, { method: "run", params: {}, signal, onRequest: look })),
    }),
  );
  const one = async (name: string, args: object): Promise<FirstLine> => {
    await sleep(UNTIL_BLANK);
    const before = cpuNow();
    const started = process.hrtime.bigint();
    const { content } = await registry.execute(name, { ...args });
    return {
      time: Number(BigInt(content) - started) / 1e6,
      hostCpu: seen.host - before.host,
      workerCpu: seen.workers - before.workers,
    };
  };
  const rounds = { code: [] as FirstLine[], warm: [] as FirstLine[] };
  for (let round = 0; round <= ROUNDS; round++) {
    const warm = await one("warm", {});
    const code = await one("toolrack_run", { code: `const at = ${CLOCK};\nawait tools.look();\nreturn at;` });
    // The first round starts the warm worker and loads what reads code.
    if (round === 0) continue;
    rounds.warm.push(warm);
    rounds.code.push(code);
  }
  return { code: middle(rounds.code), warm: middle(rounds.warm) };
}

function middle(all: readonly FirstLine[]): FirstLine {
  const of = (key: keyof FirstLine) => median(all.map((one) => one[key]));
  return { time: of("time"), hostCpu: of("hostCpu"), workerCpu: of("workerCpu") };
}

function cpuNow(): { readonly host: number; readonly workers: number } {
  const { user, system } = process.cpuUsage();
  const workers = treeBelow(process.pid).reduce((sum, pid) => sum + cpuOf(pid), 0);
  return { host: (user + system) / 1_000, workers };
}

/** Milliseconds for which the threads of a process have been on a processor. */
function cpuOf(pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/task`)
      .map(
        (thread) => Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]) / 1e6,
      )
      .reduce((sum, time) => sum + time, 0);
  } catch {
    // It has ended meanwhile.
    return 0;
  }
}

/** The processes below a process. */
export function treeBelow(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
  return children === ""
    ? []
    : children.split(" ").flatMap((child) => [Number(child), ...treeBelow(Number(child))]);
}
