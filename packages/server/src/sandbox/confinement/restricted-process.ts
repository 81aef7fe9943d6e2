import { type ChildProcess, spawn } from "node:child_process";
import { chownSync, mkdtempSync, realpathSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { defined } from "../../helpers/index.ts";
import { closeLinks } from "../data-folder.ts";
import { type DataFolder, type OpenedFolders, SandboxError } from "../sandbox-types.ts";
import { workerBootstrap } from "../worker-bootstrap.ts";
import {
  type Confinement,
  type Launched,
  nextUserId,
  nodeFlags,
  type ShellLimits,
  spawnLimited,
  timeZone,
  type WorkerShape,
} from "./confinement.ts";

interface RestrictedProcessOptions {
  /** KB of data memory that a Node process uses right after its start, as `findConfinement` measured it. */
  readonly nodeDataKb?: number;
  readonly reaper: Reaper;
  /** The directory in which scratch directories are created. Its mode must let other users pass through. */
  readonly directory: string;
}

/**
 * Level 2: an ordinary process with Node's permissions, no network, limits, and its own user when the server is root.
 */
export function restrictedProcessConfinement(options: RestrictedProcessOptions): Confinement {
  const { nodeDataKb: nodeKb, reaper, directory } = options;
  keepDebuggerClosed();

  /**
   * Starts Node with a new scratch directory, which is also its home when it has no data folder. `code` is another
   * directory that it may read.
   */
  const start = (
    code: string | undefined,
    cwd: "home" | "code",
    shape: Pick<ShellLimits, "cpuSeconds"> & WorkerShape,
    nodeArgs: readonly string[],
    environment: Readonly<Record<string, string>> = {},
  ): Launched => {
    const { memoryMb, scratchMb, dataMb, cpuSeconds, dependencies, folders = [] } = shape;
    closeLinks(shape);
    const data = reachableData(shape);
    const uid = data?.uid ?? nextUserId();
    const scratch = mkdtempSync(join(directory, "scratch-"));
    const home = data?.path ?? scratch;
    const removeScratch = () => rmSync(scratch, { recursive: true, force: true });
    try {
      if (uid !== undefined) chownSync(scratch, uid, uid);
      const isAtHome = code !== undefined && code === shape.data?.path;
      const codeDirectory = isAtHome ? home : code === undefined ? scratch : reachablePath(code, uid);
      const isLinux = process.platform === "linux";
      const limits: ShellLimits = {
        data: { nodeKb, memoryMb },
        fileMb: data === undefined ? scratchMb : Math.max(scratchMb, dataMb),
        openFiles: 256,
        ...defined({ cpuSeconds }),
      };
      const child = spawnLimited(
        limits,
        [
          // Another user may not be able to reach Node's file by its path; an open descriptor needs no path.
          isLinux ? "/proc/self/fd/4" : process.execPath,
          ...nodeFlags(
            [
              codeDirectory,
              ...(dependencies === undefined ? [] : [dependencies]),
              ...folders.map(({ path }) => path),
            ],
            [scratch, home, ...folders.flatMap(({ path, isWritable }) => (isWritable ? [path] : []))],
            false,
            memoryMb,
          ),
          ...nodeArgs,
        ],
        isLinux ? process.execPath : undefined,
        {
          env: { PATH: "/usr/bin:/bin", HOME: home, TMPDIR: scratch, TZ: timeZone(), ...environment },
          cwd: cwd === "home" ? home : codeDirectory,
          ...(uid !== undefined && { uid, gid: uid }),
        },
      );
      const { pid } = child;
      if (pid !== undefined) reaper.add(pid);
      const release = () => {
        if (pid !== undefined) reaper.remove(pid);
        removeScratch();
      };
      return { child, codeDirectory, scratch, release, ...defined({ data }) };
    } catch (error) {
      removeScratch();
      throw error;
    }
  };

  return {
    level: 2,
    placeOf: ({ path }) => path,

    startWorker: (shape) => start(shape.dependencies, "home", shape, ["-e", workerBootstrap({})]),

    startProgram({ program, limits: { memoryMb, scratchMb, dataMb, cpuSeconds } }) {
      const { label, command, args, data, dependencies, folders } = program;
      if (basename(command) !== "node")
        throw new SandboxError(
          "sandbox_refused",
          `${label} wants to run ${command}. At the reduced isolation of this server only Node scripts can be run. Install bubblewrap to run other programs.`,
        );
      const nodeArgs = nodeArguments(label, args);
      const environment = {
        ...(dependencies !== undefined && { NODE_PATH: join(dependencies, "node_modules") }),
        ...nodeEnvironment(program.environment),
      };
      const shape = {
        ...{ memoryMb, scratchMb, dataMb, cpuSeconds },
        ...defined({ data, dependencies, folders }),
      };
      return start(program.directory, "code", shape, nodeArgs, environment);
    },
  };
}

/**
 * The data folder, if the user that the process runs as can reach it: a folder above it may be closed to other users,
 * as `/root` is. Such a process keeps nothing, rather than not run at all.
 */
function reachableData({ data }: OpenedFolders): DataFolder | undefined {
  if (data?.uid === undefined) return data;
  const isClosed = (path: string) => (statSync(path).mode & 0o001) === 0;
  for (let above = dirname(data.path); above !== dirname(above); above = dirname(above))
    if (isClosed(above)) return undefined;
  return data;
}

/**
 * When the server is not root, a tool has the server's own user and may send signals to the server. At
 * SIGUSR1 Node would open its debugger, and with it the whole server, to everybody on this machine. A
 * listener for the signal prevents that.
 */
function keepDebuggerClosed(): void {
  if (process.listenerCount("SIGUSR1") === 0) process.on("SIGUSR1", () => {});
}

/** Returns the real path of the directory. Throws when the process's user, `uid`, cannot read it. */
function reachablePath(directory: string, uid: number | undefined): string {
  const path = realpathSync(directory);
  if (uid === undefined) return path;
  for (let current = path; current !== dirname(current); current = dirname(current)) {
    const needed = current === path ? 0o005 : 0o001;
    if ((statSync(current).mode & needed) === needed) continue;
    throw new SandboxError(
      "sandbox_refused",
      `${path} cannot be read by other users, because of ${current}. At the reduced isolation of this server, tools run as a user of their own. Install bubblewrap, or move the workspace to a directory that others can read.`,
    );
  }
  return path;
}

/**
 * Returns the arguments for Node: a script or code, then the program's own arguments. Other options of Node
 * are refused, because one could switch off Node's permissions, which alone confine the program at this
 * level.
 */
function nodeArguments(label: string, [first, ...rest]: readonly string[]): string[] {
  if (first === undefined) return [];
  if (!first.startsWith("-")) return ["--", first, ...rest];
  const [code = "", ...args] = rest;
  const isPrinted = first === "-p" || first === "--print";
  if (isPrinted || first === "-e" || first === "--eval")
    return [...(isPrinted ? ["--print"] : []), `--eval=${code}`, "--", ...args];
  throw new SandboxError(
    "sandbox_refused",
    `${label} wants to start Node with the option ${first.split("=")[0]}. At the reduced isolation of this server a script can be started, or code with -e or -p, and no other option of Node be given. Install bubblewrap to use all of them.`,
  );
}

/** Names of variables that make Node, the dynamic loader, OpenSSL or the shell load or run other code. */
const dangerousVariable = /^(node_|ld_|dyld_|openssl_|gconv_|glibc_|bash|shellopts$|nlspath$|locpath$)/i;
/** Names that variables may have. Bash takes functions from variables with other characters in the name. */
const plainName = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** The program's environment without variables that could make Node or a shell run other code. */
function nodeEnvironment(environment: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(environment).filter(([name]) => plainName.test(name) && !dangerousVariable.test(name)),
  );
}

/**
 * A small shell that outlives the server. When the server ends in any way, the shell's input closes; the
 * shell then kills the processes that were added and not removed, and deletes `directory`. A worker in an
 * endless loop would not notice the server's end by itself.
 */
export class Reaper {
  readonly #shell: ChildProcess;

  constructor(directory: string) {
    const shell = spawn("/bin/sh", ["-c", reaperScript, "sh", directory], {
      stdio: ["pipe", "ignore", "ignore"],
      env: {},
      cwd: "/",
      // Gives the shell a process group of its own, so that an interrupt from the terminal reaches only the
      // server.
      detached: true,
    });
    shell.on("error", () => {});
    shell.stdin?.on("error", () => {});
    shell.unref();
    // Node makes the pipe a socket, which has `unref`. The pipe must not keep the server alive.
    (shell.stdin as unknown as { unref(): void }).unref();
    this.#shell = shell;
  }

  /** `pid` must lead a process group. */
  add(pid: number): void {
    this.#shell.stdin?.write(`add ${pid}\n`);
  }

  remove(pid: number): void {
    this.#shell.stdin?.write(`remove ${pid}\n`);
  }

  /** Kills the processes that were added and not removed, and removes the directory. */
  close(): void {
    this.#shell.stdin?.end();
  }
}

// Not all shells accept `--` after `kill -9`; after `-s` they do.
const reaperScript = `
while read -r action pid; do
  if [ "$action" = add ]; then pids="$pids $pid"; continue; fi
  rest=
  for other in $pids; do [ "$other" = "$pid" ] || rest="$rest $other"; done
  pids=$rest
done
for pid in $pids; do kill -s KILL -- "-$pid"; done
rm -rf -- "$1"
`;
