import { type ChildProcess, spawn } from "node:child_process";
import {
  chownSync,
  closeSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { processStat } from "../../helpers/index.ts";
import { SandboxError } from "../sandbox.ts";
import { workerBootstrap } from "../worker-bootstrap.ts";
import { type ShellLimits, timeZone, withShellLimits } from "./bubblewrap.ts";
import {
  type Confinement,
  confinedStdio,
  type Launched,
  nodeArguments,
  nodeEnvironment,
  nodeFlags,
  type ProgramShape,
  type WorkerShape,
} from "./confinement.ts";

interface RestrictedProcessOptions {
  /** What Node counts as data before it has run a line; see `measureData`. */
  readonly nodeDataKb?: number;
  readonly reaper: Reaper;
  /** Holds the scratch directories. Others may pass through it. */
  readonly directory: string;
}

/** Threads' stacks and the allocator's own. */
const overheadMb = 64;

/** Level 2: an ordinary process with Node's permissions, no network, limits, and a user of its own under root. */
export function restrictedProcessConfinement(options: RestrictedProcessOptions): Confinement {
  const { nodeDataKb } = options;
  keepDebuggerClosed();
  const limitsFor = (memoryMb: number, scratchMb: number): ShellLimits => ({
    ...(nodeDataKb === undefined ? {} : { dataKb: nodeDataKb + (memoryMb + overheadMb) * 1024 }),
    fileMb: scratchMb,
    openFiles: 256,
  });

  return {
    level: 2,

    startWorker({ dependencies, memoryMb, scratchMb }: WorkerShape): Launched {
      const home = createHome(options.directory);
      const directory = dependencies === undefined ? home.path : reachable(dependencies, home);
      return start(options.reaper, home, {
        limits: limitsFor(memoryMb, scratchMb),
        codeDirectory: directory,
        workingDirectory: home.path,
        nodeArgs: [
          ...nodeFlags({ read: [directory], write: [home.path], network: false, memoryMb }),
          "-e",
          workerBootstrap({}),
        ],
        environment: {},
      });
    },

    startProgram({ program, limits }: ProgramShape): Launched {
      if (basename(program.command) !== "node")
        throw new SandboxError(
          "sandbox_refused",
          `${program.label} wants to run ${program.command}. At the reduced isolation of this server only Node scripts can be run. Install bubblewrap to run other programs.`,
        );
      const args = nodeArguments(program.label, program.args);
      const home = createHome(options.directory);
      const directory = reachable(program.directory, home);
      const { memoryMb, scratchMb, cpuSeconds } = limits;
      return start(options.reaper, home, {
        limits: { ...limitsFor(memoryMb, scratchMb), cpuSeconds },
        codeDirectory: directory,
        workingDirectory: directory,
        nodeArgs: [
          ...nodeFlags({ read: [directory], write: [home.path], network: false, memoryMb }),
          ...args,
        ],
        environment: nodeEnvironment(program.environment),
      });
    },
  };
}

/**
 * Without root, a tool has the server's own user and may send it signals. At SIGUSR1 Node would open its debugger, and with it
 * the whole server, to everybody on this machine; not where somebody listens to the signal.
 */
function keepDebuggerClosed(): void {
  if (process.listenerCount("SIGUSR1") === 0) process.on("SIGUSR1", () => {});
}

interface Home {
  readonly path: string;
  readonly uid: number | undefined;
}

interface Start {
  readonly limits: ShellLimits;
  readonly codeDirectory: string;
  readonly workingDirectory: string;
  readonly nodeArgs: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

function createHome(directory: string): Home {
  const path = mkdtempSync(join(directory, "scratch-"));
  const uid = nextUserId();
  if (uid !== undefined) chownSync(path, uid, uid);
  return { path, uid };
}

function start(reaper: Reaper, { path, uid }: Home, start: Start): Launched {
  const { limits, codeDirectory, workingDirectory, nodeArgs, environment } = start;
  const [shell = "", ...shellArgs] = withShellLimits(limits);
  // Another user may not be able to walk to this Node's file. One that is open already needs no walk.
  const node = process.platform === "linux" ? openSync(process.execPath, "r") : undefined;
  try {
    const child = spawn(
      shell,
      [...shellArgs, node === undefined ? process.execPath : "/proc/self/fd/4", ...nodeArgs],
      {
        stdio: confinedStdio(node),
        env: { PATH: "/usr/bin:/bin", HOME: path, TMPDIR: path, TZ: timeZone(), ...environment },
        cwd: workingDirectory,
        detached: true,
        ...(uid === undefined ? {} : { uid, gid: uid }),
      },
    );
    const { pid } = child;
    if (pid !== undefined) reaper.add(pid);
    return {
      child,
      codeDirectory,
      scratch: path,
      release() {
        if (pid !== undefined) reaper.remove(pid);
        rmSync(path, { recursive: true, force: true });
      },
    };
  } finally {
    if (node !== undefined) closeSync(node);
  }
}

/** The real path of a directory that the worker's user can walk to. */
function reachable(directory: string, { uid, path: home }: Home): string {
  const path = realpathSync(directory);
  if (uid === undefined) return path;
  for (let current = path; current !== dirname(current); current = dirname(current)) {
    const needed = current === path ? 0o005 : 0o001;
    if ((statSync(current).mode & needed) === needed) continue;
    rmSync(home, { recursive: true, force: true });
    throw new SandboxError(
      "sandbox_refused",
      `${path} cannot be read by other users, because of ${current}. At the reduced isolation of this server, tools run as a user of their own. Install bubblewrap, or move the workspace to a directory that others can read.`,
    );
  }
  return path;
}

/** Processor seconds of these processes, as far as they still live. */
export function cpuSecondsOf(members: readonly number[]): number {
  return sumOf(members, (pid) => processStat(pid)?.cpuSeconds ?? 0);
}

/** The most that a process of the tree has mapped as data, in KB, which is what the limit on data counts. */
export function dataKbOfTree(pid: number): number | undefined {
  const members = treeOf(pid);
  return members.length === 0 ? undefined : Math.max(...members.map(dataKb));
}

/**
 * Memory of these processes, without files. What several of them share counts once, which takes a
 * closer look; that is taken only when the first one is above `most`.
 */
export function memoryMbOf(members: readonly number[], most: number): number {
  const rough = sumOf(members, residentKb) / 1024;
  return rough <= most ? rough : sumOf(members, proportionalKb) / 1024;
}

/**
 * Ends a process group for good, and whoever came from it and has left it: until such a process has asked to end with its
 * parent, it does not. Whoever is gone already is no error.
 */
export function killTree(pid: number | undefined): void {
  if (pid === undefined) return;
  for (const member of [-pid, ...treeOf(pid)]) {
    try {
      process.kill(member, "SIGKILL");
    } catch {}
  }
}

/** A process and all that came from it and still lives. Nobody when it is gone, or there is no /proc. */
export function treeOf(pid: number): number[] {
  const found: number[] = [];
  const waiting = [pid];
  for (let member = waiting.pop(); member !== undefined; member = waiting.pop()) {
    const children = childrenOf(member);
    if (children === undefined) continue;
    found.push(member);
    waiting.push(...children);
  }
  return found;
}

/** Each thread has children of its own. */
function childrenOf(pid: number): number[] | undefined {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      (read(`/proc/${pid}/task/${thread}/children`) ?? "").split(" ").filter(Boolean).map(Number),
    );
  } catch {
    return undefined;
  }
}

function sumOf(members: readonly number[], measure: (pid: number) => number): number {
  return members.reduce((sum, member) => sum + measure(member), 0);
}

function dataKb(pid: number): number {
  return sizesIn(read(`/proc/${pid}/status`), /^VmData:\s+(\d+)/gm);
}

function residentKb(pid: number): number {
  return sizesIn(read(`/proc/${pid}/status`), /^Rss(?:Anon|Shmem):\s+(\d+)/gm);
}

/** Pages that n processes share count as 1/n of each. Old systems, and those that do not let us look, tell less. */
function proportionalKb(pid: number): number {
  const shares = sizesIn(read(`/proc/${pid}/smaps_rollup`), /^Pss_(?:Anon|Shmem):\s+(\d+)/gm);
  return shares === 0 ? residentKb(pid) : shares;
}

function sizesIn(text: string | undefined, pattern: RegExp): number {
  return [...(text ?? "").matchAll(pattern)].reduce((sum, [, size]) => sum + Number(size), 0);
}

/** One that has ended in the meantime has nothing to tell; the others still count. */
function read(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

/**
 * A small shell that outlives the server by a moment: when the server is gone, however it went, the shell's input
 * ends, it kills the processes it was told of and removes their directory. A worker that loops for ever would not notice by itself.
 */
export class Reaper {
  readonly #shell: ChildProcess;

  constructor(directory: string) {
    this.#shell = startShell(directory);
  }

  /** `pid` leads a process group. */
  add(pid: number): void {
    this.#tell(`add ${pid}`);
  }

  remove(pid: number): void {
    this.#tell(`remove ${pid}`);
  }

  /** Kills what has been added and not removed, and removes the directory. */
  close(): void {
    this.#shell.stdin?.end();
  }

  #tell(order: string): void {
    this.#shell.stdin?.write(`${order}\n`);
  }
}

// Not all shells take `--` after `kill -9`; after `-s` they do.
const script = `
while read -r action pid; do
  if [ "$action" = add ]; then pids="$pids $pid"; continue; fi
  rest=
  for other in $pids; do [ "$other" = "$pid" ] || rest="$rest $other"; done
  pids=$rest
done
for pid in $pids; do kill -s KILL -- "-$pid"; done
rm -rf -- "$1"
`;

function startShell(directory: string): ChildProcess {
  const shell = spawn("/bin/sh", ["-c", script, "sh", directory], {
    stdio: ["pipe", "ignore", "ignore"],
    env: {},
    cwd: "/",
    // An interrupt from the terminal goes to the server's group and is the server's to handle.
    detached: true,
  });
  shell.on("error", () => {});
  shell.stdin?.on("error", () => {});
  shell.unref();
  // The pipe is a socket, which can be told not to keep the server alive.
  (shell.stdin as unknown as { unref(): void }).unref();
  return shell;
}

/** The range that Linux keeps for users without an account. Containers with few user ids have it too. */
const first = 61_184;
const last = 65_519;

let next = first + Math.floor(Math.random() * (last - first));

/**
 * The user for the next process when the server is root: another one each time, so that neither signals nor files
 * nor the count of processes connect two of them. Nothing when the server is no root and cannot change users.
 */
export function nextUserId(): number | undefined {
  if (process.getuid?.() !== 0) return undefined;
  next = next === last ? first : next + 1;
  return next;
}

/** How long what a process said last is still read after its end, in milliseconds. */
const LAST_WORDS = 1_000;

/**
 * Acts once the process has ended and its streams are closed. One that is ended in the middle of its start may leave a
 * process behind that was to end with it, and that holds the streams open for ever: then they are closed here, which is
 * what such a process ends by.
 */
export function whenClosed(
  child: ChildProcess,
  act: (exitCode: number | null, signal: NodeJS.Signals | null) => void,
): void {
  child.once("close", act);
  child.once("exit", () => {
    const timer = setTimeout(() => {
      for (const stream of child.stdio) stream?.destroy();
    }, LAST_WORDS);
    child.once("close", () => clearTimeout(timer));
  });
}
