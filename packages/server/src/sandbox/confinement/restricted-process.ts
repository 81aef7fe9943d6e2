import { type ChildProcess, spawn } from "node:child_process";
import { chownSync, closeSync, mkdtempSync, openSync, realpathSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { SandboxError } from "../spec.ts";
import { workerBootstrap } from "../worker-bootstrap.ts";
import {
  type Confinement,
  confinedStdio,
  dataLimit,
  type Launched,
  nextUserId,
  nodeFlags,
  type ProgramShape,
  type ShellLimits,
  timeZone,
  type WorkerShape,
  withShellLimits,
} from "./confinement.ts";

interface RestrictedProcessOptions {
  /** Data memory of a fresh Node process; see `findConfinement`. */
  readonly nodeDataKb?: number;
  readonly reaper: Reaper;
  /** Holds the scratch directories. Other users may pass through it. */
  readonly directory: string;
}

/**
 * Level 2: an ordinary process with Node's permissions, no network, limits, and its own user when the server is root.
 */
export function restrictedProcessConfinement(options: RestrictedProcessOptions): Confinement {
  const { nodeDataKb, reaper } = options;
  keepDebuggerClosed();
  const limitsFor = (memoryMb: number, scratchMb: number): ShellLimits => ({
    ...dataLimit(nodeDataKb, memoryMb),
    fileMb: scratchMb,
    openFiles: 256,
  });

  return {
    level: 2,

    startWorker({ dependencies, memoryMb, scratchMb }: WorkerShape): Launched {
      const home = createHome(options.directory);
      const codeDirectory = dependencies === undefined ? home.path : reachablePath(dependencies, home);
      const flags = nodeFlags({ read: [codeDirectory], write: [home.path], network: false, memoryMb });
      const nodeArgs = [...flags, "-e", workerBootstrap({})];
      const limits = limitsFor(memoryMb, scratchMb);
      return start({ reaper, home, limits, codeDirectory, cwd: home.path, nodeArgs, environment: {} });
    },

    startProgram({ program, limits: { memoryMb, scratchMb, cpuSeconds } }: ProgramShape): Launched {
      if (basename(program.command) !== "node")
        throw new SandboxError(
          "sandbox_refused",
          `${program.label} wants to run ${program.command}. At the reduced isolation of this server only Node scripts can be run. Install bubblewrap to run other programs.`,
        );
      const own = nodeArguments(program.label, program.args);
      const home = createHome(options.directory);
      const cwd = reachablePath(program.directory, home);
      return start({
        reaper,
        home,
        limits: { ...limitsFor(memoryMb, scratchMb), cpuSeconds },
        codeDirectory: cwd,
        cwd,
        nodeArgs: [...nodeFlags({ read: [cwd], write: [home.path], network: false, memoryMb }), ...own],
        environment: nodeEnvironment(program.environment),
      });
    },
  };
}

/**
 * Without root, a tool has the server's own user and may send it signals. At SIGUSR1 Node would open its debugger, and
 * with it the whole server, to everybody on this machine. A listener for the signal prevents that.
 */
function keepDebuggerClosed(): void {
  if (process.listenerCount("SIGUSR1") === 0) process.on("SIGUSR1", () => {});
}

interface Home {
  readonly path: string;
  readonly uid: number | undefined;
}

interface Start {
  readonly reaper: Reaper;
  readonly home: Home;
  readonly limits: ShellLimits;
  readonly codeDirectory: string;
  readonly cwd: string;
  readonly nodeArgs: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

function createHome(directory: string): Home {
  const path = mkdtempSync(join(directory, "scratch-"));
  const uid = nextUserId();
  if (uid !== undefined) chownSync(path, uid, uid);
  return { path, uid };
}

function start({
  reaper,
  home: { path, uid },
  limits,
  codeDirectory,
  cwd,
  nodeArgs,
  environment,
}: Start): Launched {
  const [shell = "", ...shellArgs] = withShellLimits(limits);
  // Another user may not be able to reach Node's file by its path; an open descriptor needs no path.
  const node = process.platform === "linux" ? openSync(process.execPath, "r") : undefined;
  try {
    const child = spawn(
      shell,
      [...shellArgs, node === undefined ? process.execPath : "/proc/self/fd/4", ...nodeArgs],
      {
        stdio: confinedStdio(node),
        env: { PATH: "/usr/bin:/bin", HOME: path, TMPDIR: path, TZ: timeZone(), ...environment },
        cwd,
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

/** The real path of a directory that the worker's user can read. Throws when it cannot. */
function reachablePath(directory: string, { uid, path: home }: Home): string {
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

/** Options that give Node code instead of a file, and the flags they become. */
const codeOptions: Readonly<Record<string, readonly string[]>> = {
  "-e": [],
  "--eval": [],
  "-p": ["--print"],
  "--print": ["--print"],
};

/**
 * The arguments for Node: a script or code, then the program's own arguments. Other options are refused: one could
 * switch off the permissions, and nothing else holds the program.
 */
function nodeArguments(label: string, [first, ...rest]: readonly string[]): string[] {
  if (first === undefined) return [];
  const flags = Object.hasOwn(codeOptions, first) ? codeOptions[first] : undefined;
  if (flags !== undefined) {
    const [code = "", ...args] = rest;
    return [...flags, `--eval=${code}`, "--", ...args];
  }
  if (!first.startsWith("-")) return ["--", first, ...rest];
  throw new SandboxError(
    "sandbox_refused",
    `${label} wants to start Node with the option ${first.split("=")[0]}. At the reduced isolation of this server a script can be started, or code with -e or -p, and no other option of Node be given. Install bubblewrap to use all of them.`,
  );
}

/**
 * Variables that make Node, the dynamic loader, OpenSSL or the shell load or run something else. A shell may even take
 * a function from a variable, whose name then has unusual characters.
 */
const dangerousVariable = /^(node_|ld_|dyld_|openssl_|gconv_|glibc_|bash|shellopts$|nlspath$|locpath$)/i;
const plainName = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** A program's variables without those that change what runs it. */
function nodeEnvironment(environment: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(environment).filter(([name]) => plainName.test(name) && !dangerousVariable.test(name)),
  );
}

/**
 * A small shell that outlives the server. When the server ends in any way, the shell's input closes; it then kills the
 * processes it knows and removes their directory. A worker in an endless loop would not notice by itself.
 */
export class Reaper {
  readonly #shell: ChildProcess;

  constructor(directory: string) {
    this.#shell = startShell(directory);
  }

  /** `pid` must lead a process group. */
  add(pid: number): void {
    this.#send(`add ${pid}`);
  }

  remove(pid: number): void {
    this.#send(`remove ${pid}`);
  }

  /** Kills the processes that were added and not removed, and removes the directory. */
  close(): void {
    this.#shell.stdin?.end();
  }

  #send(order: string): void {
    this.#shell.stdin?.write(`${order}\n`);
  }
}

// Not all shells accept `--` after `kill -9`; after `-s` they do.
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
    // An interrupt from the terminal goes to the server's process group; the server handles it.
    detached: true,
  });
  shell.on("error", () => {});
  shell.stdin?.on("error", () => {});
  shell.unref();
  // The pipe is a socket, which must not keep the server alive.
  (shell.stdin as unknown as { unref(): void }).unref();
  return shell;
}
