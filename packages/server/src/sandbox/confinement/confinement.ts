import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { closeSync, openSync, readdirSync, readFileSync } from "node:fs";
import type { WorkerLimits } from "../../config/index.ts";
import type { DataFolder, OpenedFolders, ProgramSpec } from "../sandbox-types.ts";

/** The properties of a worker that are fixed when its process starts. Code and settings are sent later. */
export interface WorkerShape extends OpenedFolders {
  readonly dependencies?: string;
  /** The path of the unix socket of the egress proxy, which lets through the hosts granted to the worker. */
  readonly egressSocket?: string;
  readonly memoryMb: number;
  readonly scratchMb: number;
  readonly dataMb: number;
}

export interface ProgramShape {
  readonly program: ProgramSpec;
  readonly egressSocket?: string;
  readonly limits: WorkerLimits;
}

export interface Launched {
  /** The process, which leads its own process group. Its stdio 3 is a pipe for messages with the host. */
  readonly child: ChildProcess;
  /** The directory of the code, as the process sees it. `require` looks for packages there. */
  readonly codeDirectory: string;
  /**
   * The host's directory that the process may write to. Set only where the system does not limit the
   * directory's size, so that the server must measure it.
   */
  readonly scratch?: string;
  /** The data folder of the process, whose size the server must measure. */
  readonly data?: DataFolder;
  /** Frees the host's resources for the process. Called once, after the process has ended. */
  release(): void;
}

/** Starts confined processes. Both methods throw when the process cannot be confined. */
export interface Confinement {
  readonly level: 3 | 2;
  startWorker(shape: WorkerShape): Launched;
  startProgram(shape: ProgramShape): Launched;
  /** The path of a data folder as confined processes see it. */
  placeOf(data: DataFolder): string;
}

const nodeOptions = process.allowedNodeEnvironmentFlags;

/** Whether this Node version can deny a process the network. */
export const nodeGuardsNetwork = nodeOptions.has("--allow-net");

/** Flags that remove features of Node by which code could escape, as far as this Node version has them. */
const restrictingFlags = [
  // Without this flag node:sqlite opens any file, past the permissions.
  "--no-experimental-sqlite",
  "--no-addons",
  "--no-experimental-ffi",
  "--no-experimental-webstorage",
  "--disable-sigusr1",
].filter((flag) => nodeOptions.has(flag) || nodeOptions.has(flag.replace("--no-", "--")));

/**
 * The flags of a confined Node process. Node can allow only all hosts or none (`network`); the egress proxy
 * decides which hosts can be reached.
 */
export function nodeFlags(
  read: readonly string[],
  write: readonly string[],
  network: boolean,
  memoryMb: number,
): string[] {
  return [
    "--permission",
    // Code could set engine flags that write files past the permissions (--trace-turbo-path). This flag makes
    // the memory of the engine flags read-only.
    "--freeze-flags-after-init",
    ...restrictingFlags,
    ...[...read, ...write].map((path) => `--allow-fs-read=${path}`),
    ...write.map((path) => `--allow-fs-write=${path}`),
    ...(network && nodeGuardsNetwork ? ["--allow-net"] : []),
    `--max-old-space-size=${memoryMb}`,
    "--disable-warning=SecurityWarning",
    "--disable-warning=ExperimentalWarning",
  ];
}

export interface ShellLimits {
  /**
   * `nodeKb`: the data memory of a fresh Node process. `memoryMb`: what a process may use beyond that. Data
   * memory is unlimited when `nodeKb` is undefined.
   */
  readonly data?: { readonly nodeKb: number | undefined; readonly memoryMb: number };
  readonly fileMb: number;
  readonly openFiles: number;
  readonly processes?: number;
  readonly cpuSeconds?: number;
}

/** MB of data memory allowed beyond `memoryMb`, for the stacks of threads and the allocator. */
const overheadMb = 64;

/**
 * Returns a shell command that sets the limits and then executes `command`. Errors of `ulimit` are ignored:
 * it fails when the limit in force is already lower. The letter for the number of processes (-u or -p) and
 * the unit of file sizes (512 or 1024 bytes) depend on the shell.
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

/** Starts a command with limits, as the leader of its own process group, with `file` open as descriptor 4. */
export function spawnLimited(
  limits: ShellLimits,
  command: readonly string[],
  file: string | undefined,
  options: SpawnOptions,
): ChildProcess {
  const [shell = "", ...args] = withShellLimits(limits, command);
  // Opened anew for each process, because processes that shared a descriptor would share its read position.
  const descriptor = file === undefined ? undefined : openSync(file, "r");
  try {
    return spawn(shell, args, { ...options, stdio: confinedStdio(descriptor), detached: true });
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

/** The server's time zone, for confined processes, which cannot read the machine's settings. */
export function timeZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

// From `first` to `last` are the user ids that Linux reserves for users without an account. Containers with
// few user ids have them too.
const first = 61_184;
const last = 65_519;

let next = first + Math.floor(Math.random() * (last - first));

/**
 * Returns the user id for the next confined process when the server is root. Each process gets a different
 * user, so that no two of them share signals, files or process limits; only processes with the same data folder
 * have the same user. Undefined when the server is not root.
 */
export function nextUserId(): number | undefined {
  if (process.getuid?.() !== 0) return undefined;
  next = next === last ? first : next + 1;
  return next;
}

/** Whether the server is root and this is a user that it runs confined processes as. */
export function isConfinedUser(uid: number): boolean {
  return process.getuid?.() === 0 && uid >= first && uid <= last;
}

const closeOnExec = 0o2000000;

type Stdio = ("pipe" | "ignore" | number)[];

/**
 * The stdio of a confined process: stdin, stdout, stderr, the pipe for messages (3) and `file` (4). Open
 * files that the server inherited from its parent are replaced by /dev/null, because child processes would
 * get them too. Node closes its own open files in child processes itself.
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

/** The descriptors above 4 that the server inherited and that child processes would get too. */
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
    // The descriptor was closed in the meantime, like the one with which `readdirSync` read the directory.
    return false;
  }
}
