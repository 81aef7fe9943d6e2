import type { ChildProcess } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

/** A process as `/proc/ID/stat` shows it. */
export interface ProcessStat {
  readonly id: number;
  readonly parent: number;
  /** The id of its process group. */
  readonly group: number;
  /** True when the process has ended but its parent has not collected it yet. */
  readonly isOver: boolean;
  /**
   * Processor time that the process used itself and that the system used for it. Linux counts it in
   * hundredths of a second on all machines that Node supports.
   */
  readonly cpuSeconds: number;
  /**
   * The start time in the system's own unit. Together with the id, it tells the process from a later one with
   * the same id.
   */
  readonly startedAt: string;
}

/** Undefined when there is no such process, and on systems other than Linux. */
export function processStat(id: number): ProcessStat | undefined {
  let line: string;
  try {
    line = readFileSync(`/proc/${id}/stat`, "latin1");
  } catch {
    return undefined;
  }
  // The program's name is in brackets and may contain anything; the state is the third field.
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

/** The ids of all processes; empty on systems other than Linux. */
export function processIds(): number[] {
  if (process.platform !== "linux") return [];
  return readdirSync("/proc").flatMap((name) => (/^\d+$/.test(name) ? [Number(name)] : []));
}

const GRACE = 2_000;
const POLL = 25;

let table: readonly ProcessStat[] = [];
let tableReadAt = Number.NEGATIVE_INFINITY;

/**
 * All processes, as they were at most `POLL` milliseconds ago; empty on systems other than Linux. Reading them takes
 * milliseconds where hundreds run, and hundreds of groups may end at the same time.
 */
export function recentProcesses(): readonly ProcessStat[] {
  if (performance.now() - tableReadAt < POLL) return table;
  table = processIds().flatMap((id) => processStat(id) ?? []);
  tableReadAt = performance.now();
  return table;
}

/** Groups that must be killed when the server ends: each is a session of its own and would outlive it. */
const running = new Set<number>();
let isWatchingExit = false;

/**
 * A child that was started with `detached: true`, with all its descendants that stayed in its group. Ending the child
 * alone would leave the others running.
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

  /** Sends SIGTERM, then SIGKILL. Resolves when no process of the group is left. */
  async end(): Promise<void> {
    signalGroup(this.id, "SIGTERM");
    const deadline = performance.now() + GRACE;
    while (this.isAlive && performance.now() < deadline) await delay(POLL);
    signalGroup(this.id, "SIGKILL");
    // No process can refuse SIGKILL, but one that waits for a device may end late.
    const killDeadline = performance.now() + GRACE;
    while (this.isAlive && performance.now() < killDeadline) await delay(POLL);
    this.release();
  }

  /** Forgets the group, so that it may go on running when the server ends. */
  release(): void {
    running.delete(this.id);
  }
}

/** Returns whether the group exists. */
function signalGroup(id: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-id, signal);
  } catch (error) {
    // EPERM: the group exists, and a member of it runs as another user.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/**
 * Whether a process of the group runs. On Linux, ended processes that their parent has not collected yet do not count. A
 * group that had no living member a moment ago has none now, because nobody was left to start one.
 */
function hasLivingMember(group: number): boolean {
  if (process.platform !== "linux") return true;
  return recentProcesses().some((seen) => seen.group === group && !seen.isOver);
}

function watchExit(): void {
  if (isWatchingExit) return;
  isWatchingExit = true;
  process.on("exit", () => {
    for (const id of running) signalGroup(id, "SIGKILL");
  });
}
