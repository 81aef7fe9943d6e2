import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { extname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type ProcessStat, processIds, processStat, recentProcesses } from "../../../helpers/processes.ts";

/**
 * The environment variable that every process started for an upstream server gets. Its value is called the
 * mark. Descendants of the process inherit it, so they are found even when they have left the process group or
 * lost their parent.
 */
export const MARK = "TOOLRACK_UPSTREAM";

/** The beginning of all marks that this rack gives to processes. */
const markOfRack: string = randomUUID();

let marks = 0;

/** Returns a mark by which the processes of one start of one server are recognised. */
export function nextMark(): string {
  marks++;
  return `${markOfRack}.${marks}.`;
}

/** The start time tells the process from a later one with the same id. */
export type KnownProcess = Pick<ProcessStat, "id" | "startedAt">;

/** All processes by the id of their parent. Empty on other systems than Linux. */
export function findFamilies(): ReadonlyMap<number, readonly KnownProcess[]> {
  return Map.groupBy(recentProcesses(), ({ parent }) => parent);
}

/** All descendants of the processes with the ids `roots`. A process whose parent has ended is not found. */
export function descendantsOf(roots: Iterable<number>, families = findFamilies()): KnownProcess[] {
  const found: KnownProcess[] = [];
  const parents = [...roots];
  for (let parent = parents.pop(); parent !== undefined; parent = parents.pop()) {
    for (const { id, startedAt } of families.get(parent) ?? []) {
      found.push({ id, startedAt });
      parents.push(id);
    }
  }
  return found;
}

/** Undefined when there is no such process, or the system does not show it. */
export function knownProcess(id: number): KnownProcess | undefined {
  const seen = processStat(id);
  return seen === undefined ? undefined : { id, startedAt: seen.startedAt };
}

/** Whether the process still runs. False when its id now belongs to a later process. */
export function isRunning({ id, startedAt }: KnownProcess): boolean {
  const seen = processStat(id);
  return seen !== undefined && seen.startedAt === startedAt && !seen.isOver;
}

/** The processes whose mark has this prefix, with their marks. Empty on other systems than Linux. */
export function findMarked(prefix: string): ReadonlyMap<number, string> {
  const start = `${MARK}=`;
  const wanted = start + prefix;
  const found = new Map<number, string>();
  for (const id of processIds()) {
    if (id === process.pid) continue;
    try {
      const environment = readFileSync(`/proc/${id}/environ`, "latin1");
      if (!environment.includes(wanted)) continue;
      const value = environment.split("\0").find((one) => one.startsWith(wanted));
      if (value !== undefined) found.set(id, value.slice(start.length));
    } catch {
      // The process has ended, or belongs to another user.
    }
  }
  return found;
}

/** Milliseconds for which `findOwnSoon` waits for others that ask the same. */
const SHARED = 25;
let search: Promise<ReadonlyMap<number, string>> | undefined;

/**
 * The processes of this rack with their marks, as they are in a moment. All that ask within that moment share one
 * search, because hundreds of servers may end at the same time.
 */
export function findOwnSoon(): Promise<ReadonlyMap<number, string>> {
  search ??= delay(SHARED).then(() => {
    search = undefined;
    return findMarked(markOfRack);
  });
  return search;
}

/**
 * Sends a signal; 0 only checks that the process exists. Returns false if there is no such process, or we may
 * not send it signals. A negative id means a process group.
 */
export function signalProcess(id: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(id, signal);
  } catch {
    return false;
  }
}

/** The file of the watchdog's program. It has the same ending as this file: `.ts` in the sources, `.js` when built. */
const program = fileURLToPath(new URL(`./watchdog-main${extname(import.meta.url)}`, import.meta.url));

let watchdog: ChildProcess | undefined;
const groups = new Set<number>();

/**
 * Makes sure that a process group ends when this process ends, even by SIGKILL. One small watchdog process does this for
 * all groups. It is started for the first group.
 */
export function watchGroup(id: number): void {
  groups.add(id);
  if (watchdog === undefined) start();
  else tell(`+${id}`);
}

export function unwatchGroup(id: number): void {
  if (!groups.delete(id)) return;
  tell(`-${id}`);
}

function start(): void {
  const args = ["--disable-sigusr1", "--max-old-space-size=32", program, markOfRack];
  const env = { PATH: process.env.PATH ?? "" };
  // `detached` starts the watchdog in a session of its own, so that signals to the rack's process group do not
  // reach it.
  const stdio: ["pipe", "ignore", "ignore"] = ["pipe", "ignore", "ignore"];
  const child = spawn(process.execPath, args, { detached: true, stdio, env, cwd: "/" });
  watchdog = child;
  // Without a watchdog the servers still end when the rack stops normally.
  child.on("error", () => {});
  child.stdin.on("error", () => {});
  child.on("exit", () => {
    if (watchdog !== child) return;
    watchdog = undefined;
    // Start the watchdog again if there are still groups to watch.
    if (groups.size > 0)
      setTimeout(() => groups.size > 0 && watchdog === undefined && start(), 1_000).unref();
  });
  child.unref();
  // The watchdog's standard input is a socket, although the types do not say so. It must not keep this process running.
  (child.stdin as unknown as { unref?: () => void }).unref?.();
  for (const id of groups) tell(`+${id}`);
}

function tell(line: string): void {
  if (watchdog?.stdin?.writable) watchdog.stdin.write(`${line}\n`);
}
