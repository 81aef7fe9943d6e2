import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { McpVariant } from "./messages.ts";

export interface McpSample {
  /** Microseconds of the whole server process for each request. */
  readonly cpu: number;
  readonly perSecond: number;
  /** Milliseconds that half of the requests took at most; over HTTP only. */
  readonly p50?: number;
}

/** A server in processes of its own, which are ended together. */
export interface Running {
  readonly process: ChildProcess;
  readonly url: string;
}

export interface LoadOptions {
  readonly token?: string;
  /** The calls are made in one session, for servers that know no others. */
  readonly inSession?: boolean;
  readonly connections: number;
  /** How long, or how many; what comes first where both are given. */
  readonly milliseconds?: number;
  readonly requests?: number;
}

/** `getconf CLK_TCK` is 100 on every Linux that Node runs on. */
const ticksPerSecond = 100;

/** Starts a program that says its address in a line of JSON. */
export async function startServer(words: readonly string[], directory: string): Promise<Running> {
  const server = spawn(process.execPath, words, {
    cwd: directory,
    stdio: ["ignore", "pipe", "inherit"],
    detached: true,
  });
  return { process: server, url: JSON.parse(await readyLine(server)).url };
}

export function stopServer({ process: server }: Running): void {
  // The group, since some start others.
  if (server.exitCode === null && server.pid !== undefined) process.kill(-server.pid, "SIGKILL");
}

/** Has clients, in a process of their own, make requests for so long or so often. */
export async function loadFor(
  { process: server, url }: Running,
  variant: McpVariant,
  options: LoadOptions,
): Promise<McpSample> {
  const target = JSON.stringify({ url, variant, ...options });
  const before = cpuOfTree(server.pid!);
  const begun = performance.now();
  const load = fork(fileURLToPath(new URL("./load.ts", import.meta.url)), [target], { execArgv: [] });
  const ended = once(load, "exit").then(() => {
    throw new Error("the clients ended without an answer");
  });
  ended.catch(() => {});
  // The only sender is `load.ts`, which sends exactly this.
  const [{ answered, p50 }] = (await Promise.race([once(load, "message"), ended])) as [
    { answered: number; p50: number },
  ];
  const seconds = (performance.now() - begun) / 1_000;
  const cpu = ((cpuOfTree(server.pid!) - before) * 1e6) / answered;
  return { cpu, perSecond: answered / seconds, p50 };
}

/** The line with the address; some say other things before. */
async function readyLine({ stdout }: ChildProcess): Promise<string> {
  for await (const line of createInterface(stdout!)) {
    if (!line.startsWith("{")) continue;
    // What it says from now on is read by nobody, and must not hold it up.
    stdout!.resume();
    return line;
  }
  throw new Error("the server ended before it was ready");
}

/** Seconds of CPU that a process has used, by user and system. */
export function cpuOf(pid: number): number {
  const { cpu } = readStat(pid) ?? { cpu: 0 };
  return cpu;
}

/** The same for a process and all that descend from it. */
function cpuOfTree(root: number): number {
  const all = readdirSync("/proc").flatMap((name) => {
    const pid = Number(name);
    const stat = Number.isInteger(pid) ? readStat(pid) : undefined;
    return stat === undefined ? [] : [{ pid, ...stat }];
  });
  const sum = (pid: number): number =>
    all
      .filter(({ parent }) => parent === pid)
      .reduce((total, child) => total + child.cpu + sum(child.pid), 0);
  return cpuOf(root) + sum(root);
}

function readStat(pid: number): { parent: number; cpu: number } | undefined {
  try {
    // The name of the program may hold spaces; what follows it does not.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ");
    return { parent: Number(fields[1]), cpu: (Number(fields[11]) + Number(fields[12])) / ticksPerSecond };
  } catch {
    return undefined; // It has ended meanwhile.
  }
}
