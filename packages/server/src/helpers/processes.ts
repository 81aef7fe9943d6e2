import type { ChildProcess } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

/** What the system shows of a process in `/proc/ID/stat`. */
export interface ProcessStat {
  readonly id: number;
  readonly parent: number;
  /** The id of its process group. */
  readonly group: number;
  /** It has ended, and nobody has collected it yet. */
  readonly isOver: boolean;
  /** Of processor time, its own and the system's for it. Linux counts in hundredths on every machine that Node runs on. */
  readonly cpuSeconds: number;
  /** As the system counts it: with the id, it cannot be mistaken for a later process of the same id. */
  readonly startedAt: string;
}

/** Undefined for a process that is not there, or that the system does not show: only Linux does. */
export function processStat(id: number): ProcessStat | undefined {
  let line: string;
  try {
    line = readFileSync(`/proc/${id}/stat`, "latin1");
  } catch {
    return undefined;
  }
  // The name of the program comes in brackets and may hold anything; the state follows as the third field.
  const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
  const [state, parent, group] = fields;
  return {
    id,
    parent: Number(parent),
    group: Number(group),
    isOver: state === "Z" || state === "X",
    cpuSeconds: (Number(fields[11]) + Number(fields[12])) / 100,
    startedAt: fields[19] ?? "",
  };
}

/** Of all processes. Only Linux shows them; elsewhere there are none. */
export function processIds(): number[] {
  if (process.platform !== "linux") return [];
  return readdirSync("/proc").flatMap((name) => (/^\d+$/.test(name) ? [Number(name)] : []));
}

const GRACE = 2_000;
const POLL = 25;

/** Groups that would outlive the server, because each is a session of its own. */
const running = new Set<number>();
let isWatchingExit = false;

/**
 * A child that was started with `detached: true`, together with everything it started that stayed in its group.
 * The group outlives its leader, so ending the leader alone would leave the rest running.
 */
export class ProcessGroup {
  readonly id: number;

  constructor(child: ChildProcess) {
    if (child.pid === undefined) throw new Error("The child process did not start, so it has no group.");
    this.id = child.pid;
    running.add(this.id);
    watchExit();
  }

  get isAlive(): boolean {
    return signalGroup(this.id, 0) && hasLivingMember(this.id);
  }

  /** Asks first, then kills. Resolves when no process of the group is left. */
  async end(): Promise<void> {
    signalGroup(this.id, "SIGTERM");
    const deadline = performance.now() + GRACE;
    while (this.isAlive && performance.now() < deadline) await delay(POLL);
    signalGroup(this.id, "SIGKILL");
    // Nothing can refuse that; a process that waits for a device may only be late.
    const patience = performance.now() + GRACE;
    while (this.isAlive && performance.now() < patience) await delay(POLL);
    this.release();
  }

  /** From here on the group lives its own life: the end of the server no longer ends it. */
  release(): void {
    running.delete(this.id);
  }
}

/** Answers whether there was anything to signal. */
function signalGroup(id: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-id, signal);
  } catch (error) {
    // EPERM: the group exists, and a member of it runs as another user.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/**
 * Ended processes stay in their group until their parent collects them, and an orphan's new parent may take its time.
 * Where the system shows the state of processes, those do not count.
 */
function hasLivingMember(group: number): boolean {
  if (process.platform !== "linux") return true;
  return processIds().some((id) => {
    const seen = processStat(id);
    return seen !== undefined && seen.group === group && !seen.isOver;
  });
}

function watchExit(): void {
  if (isWatchingExit) return;
  isWatchingExit = true;
  process.on("exit", () => {
    for (const id of running) signalGroup(id, "SIGKILL");
  });
}
