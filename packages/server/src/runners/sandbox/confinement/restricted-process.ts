import { spawn } from "node:child_process";
import { chownSync, closeSync, mkdtempSync, openSync, realpathSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { SandboxError } from "../sandbox-error.ts";
import { workerBootstrap } from "../worker-bootstrap.ts";
import { confinedStdio } from "./confined-stdio.ts";
import type { Confinement, Launched, ProgramShape, WorkerShape } from "./confinement.ts";
import { nodeFlags } from "./node-flags.ts";
import { nodeArguments, nodeEnvironment } from "./node-program.ts";
import type { Reaper } from "./reaper.ts";
import { type ShellLimits, withShellLimits } from "./shell-limits.ts";
import { timeZone } from "./time-zone.ts";
import { nextUserId } from "./user-ids.ts";

export interface RestrictedProcessOptions {
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
