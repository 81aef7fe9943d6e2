import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { type ProcessStat, processIds, processStat } from "../../../helpers/processes.ts";

/**
 * The variable that every process started for an upstream server carries, and everything it starts inherits. By it
 * they are found again, also when they have left their process group or lost their parent.
 */
export const MARK = "TOOLRACK_UPSTREAM";

/** What the marks of this process begin with. */
export const markOfRack: string = randomUUID();

let marks = 0;

/** A mark for one start of one server. */
export function nextMark(): string {
  marks++;
  return `${markOfRack}.${marks}.`;
}

/** A process that cannot be mistaken for a later one of the same id. */
export type KnownProcess = Pick<ProcessStat, "id" | "startedAt">;

/** All processes by the id of their parent. Only Linux shows them; elsewhere there are none. */
export function findFamilies(): ReadonlyMap<number, readonly KnownProcess[]> {
  return Map.groupBy(
    processIds().flatMap((id) => processStat(id) ?? []),
    ({ parent }) => parent,
  );
}

/** Everything that these processes started, and that those started, as far as their parents still live. */
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

/** A process that runs now; undefined where there is none, or the system does not show it. */
export function knownProcess(id: number): KnownProcess | undefined {
  const seen = processStat(id);
  return seen === undefined ? undefined : { id, startedAt: seen.startedAt };
}

/** Whether it is still the process that it was, and runs. */
export function isRunning({ id, startedAt }: KnownProcess): boolean {
  const seen = processStat(id);
  return seen !== undefined && seen.startedAt === startedAt && !seen.isOver;
}

/** The processes whose mark begins so. Only Linux shows the environment of processes; elsewhere there are none. */
export function findMarked(prefix: string): number[] {
  const wanted = `${MARK}=${prefix}`;
  return processIds().filter((id) => {
    if (id === process.pid) return false;
    try {
      const environment = readFileSync(`/proc/${id}/environ`, "latin1");
      return environment.startsWith(wanted) || environment.includes(`\0${wanted}`);
    } catch {
      return false; // It has ended, or it belongs to somebody else.
    }
  });
}

/** Says whether there was a process, or a group where the id is negative, to send it to. */
export function signalProcess(id: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(id, signal);
  } catch {
    return false;
  }
}
