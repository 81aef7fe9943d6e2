import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { closeSync, openSync, readdirSync, readFileSync } from "node:fs";
import type { WorkerLimits } from "../../config/index.ts";
import type { ProgramSpec } from "../spec.ts";

/** What must be known before a worker starts; all else is sent to it later. */
export interface WorkerShape {
  readonly dependencies?: string;
  /** The unix socket of the egress proxy for the worker's grants. */
  readonly egressSocket?: string;
  readonly memoryMb: number;
  readonly scratchMb: number;
}

export interface ProgramShape {
  readonly program: ProgramSpec;
  readonly egressSocket?: string;
  readonly limits: WorkerLimits;
}

export interface Launched {
  /** Leader of its own process group. For workers, stdio 3 is the channel. */
  readonly child: ChildProcess;
  /** The directory in which the code believes to lie, as the worker sees it. */
  readonly codeDirectory: string;
  /** The directory on the host that the process may write to, when the system does not limit its size. */
  readonly scratch?: string;
  /** Frees the host's resources of the process. Called once, after it has ended. */
  release(): void;
}

/** Starts confined processes. Both methods throw when the process cannot be confined. */
export interface Confinement {
  readonly level: 3 | 2;
  startWorker(shape: WorkerShape): Launched;
  startProgram(shape: ProgramShape): Launched;
}

const nodeOptions = process.allowedNodeEnvironmentFlags;

/** Whether this Node version can deny a process the network. */
export const nodeGuardsNetwork = nodeOptions.has("--allow-net");

/** Flags that remove features of Node by which code could escape. This Node version may know only some. */
const restrictingFlags = [
  // Without this flag node:sqlite opens any file, past the permissions.
  "--no-experimental-sqlite",
  "--no-addons",
  "--no-experimental-ffi",
  "--no-experimental-webstorage",
  "--disable-sigusr1",
].filter((flag) => nodeOptions.has(flag) || nodeOptions.has(flag.replace("--no-", "--")));

/** Node can only allow all hosts or none (`network`); the egress proxy decides which. */
export function nodeFlags(read: string, write: string, network: boolean, memoryMb: number): string[] {
  return [
    "--permission",
    // Engine flags can write files past the permissions (--trace-turbo-path). This makes their memory read-only.
    "--freeze-flags-after-init",
    ...restrictingFlags,
    ...[read, write].map((path) => `--allow-fs-read=${path}`),
    `--allow-fs-write=${write}`,
    ...(network && nodeGuardsNetwork ? ["--allow-net"] : []),
    `--max-old-space-size=${memoryMb}`,
    "--disable-warning=SecurityWarning",
    "--disable-warning=ExperimentalWarning",
  ];
}

export interface ShellLimits {
  /** The data memory of a fresh Node process, and what may be used beyond it. Unlimited when it is not known. */
  readonly data?: { readonly nodeKb: number | undefined; readonly memoryMb: number };
  readonly fileMb: number;
  readonly openFiles: number;
  readonly processes?: number;
  readonly cpuSeconds?: number;
}

/** For the stacks of threads and the allocator. */
const overheadMb = 64;

/**
 * A shell command that sets limits and then executes the command. A limit that cannot be set is already lower.
 * Shells disagree on the letter for processes, and on the unit of file sizes by a factor of two.
 */
export function withShellLimits(limits: ShellLimits, command: readonly string[]): string[] {
  const { data, fileMb, openFiles, processes, cpuSeconds } = limits;
  const settings = [
    "ulimit -c 0",
    `ulimit -f ${fileMb * 1024}`,
    `ulimit -n ${openFiles}`,
    ...(data?.nodeKb === undefined ? [] : [`ulimit -d ${data.nodeKb + (data.memoryMb + overheadMb) * 1024}`]),
    ...(cpuSeconds === undefined ? [] : [`ulimit -t ${cpuSeconds}`]),
    ...(processes === undefined ? [] : [`ulimit -u ${processes} || ulimit -p ${processes}`]),
  ];
  return ["/bin/sh", "-c", `{ ${settings.join("; ")}; } 2>/dev/null; exec "$@"`, "sh", ...command];
}

/** Starts a command as the leader of its own process group. It finds `file` open as descriptor 4. */
export function spawnLimited(
  limits: ShellLimits,
  command: readonly string[],
  file: string | undefined,
  options: SpawnOptions,
): ChildProcess {
  const [shell = "", ...args] = withShellLimits(limits, command);
  // Opened for each process, because the next reader of a descriptor reads on from where the last one stopped.
  const descriptor = file === undefined ? undefined : openSync(file, "r");
  try {
    return spawn(shell, args, { ...options, stdio: confinedStdio(descriptor), detached: true });
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

/** For the environment of confined processes, which cannot read the machine's settings. */
export function timeZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** The range that Linux reserves for users without an account. Containers with few user ids have it too. */
const first = 61_184;
const last = 65_519;

let next = first + Math.floor(Math.random() * (last - first));

/**
 * The user for the next process when the server is root: a different one each time, so that no signals, files or
 * process limits connect two of them. Undefined when the server is not root.
 */
export function nextUserId(): number | undefined {
  if (process.getuid?.() !== 0) return undefined;
  next = next === last ? first : next + 1;
  return next;
}

const closeOnExec = 0o2000000;

type Stdio = ("pipe" | "ignore" | number)[];

/**
 * Stdin, stdout, stderr, the channel, and one file that the start needs; no other open file of the server. Node closes
 * its own files in child processes, but not those that the server inherited.
 */
function confinedStdio(file: number | undefined): Stdio {
  const stdio: Stdio = ["pipe", "pipe", "pipe", "pipe", file ?? "ignore"];
  inherited ??= inheritedDescriptors();
  if (inherited.length === 0) return stdio;
  nullDevice ??= openSync("/dev/null", "r");
  for (let descriptor = stdio.length; descriptor <= Math.max(...inherited); descriptor++)
    stdio.push(inherited.includes(descriptor) ? nullDevice : "ignore");
  return stdio;
}

let inherited: readonly number[] | undefined;
let nullDevice: number | undefined;

/** Inherited open files beyond those that `confinedStdio` sets, which child processes would get too. */
function inheritedDescriptors(): number[] {
  if (process.platform !== "linux") return [];
  return readdirSync("/proc/self/fdinfo")
    .map(Number)
    .filter((descriptor) => descriptor > 4 && isPassedOn(descriptor));
}

function isPassedOn(descriptor: number): boolean {
  try {
    const flags =
      /^flags:\s+(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, "utf8"))?.[1] ?? "0";
    return (Number.parseInt(flags, 8) & closeOnExec) === 0;
  } catch {
    // It was closed in the meantime, like the one that listed the directory.
    return false;
  }
}
