import { readFileSync } from "node:fs";
import type { ProcessStat } from "../../../helpers/processes.ts";
import { processIds, processStat } from "../../../helpers/processes.ts";

/** A process that cannot be mistaken for a later one of the same id. */
export type KnownProcess = Pick<ProcessStat, "id" | "startedAt">;

/** Processes by the id of their parent. */
type Families = ReadonlyMap<number, readonly KnownProcess[]>;

/** All processes there are. Only Linux shows them; elsewhere there are none. */
export function findFamilies(): Families {
  const families = new Map<number, KnownProcess[]>();
  for (const id of processIds()) {
    const seen = processStat(id);
    if (seen === undefined) continue;
    const { startedAt, parent } = seen;
    const siblings = families.get(parent);
    if (siblings === undefined) families.set(parent, [{ id, startedAt }]);
    else siblings.push({ id, startedAt });
  }
  return families;
}

/** Everything that these processes started, and that those started, as far as their parents still live. */
export function descendantsOf(roots: Iterable<number>, families: Families): KnownProcess[] {
  const found: KnownProcess[] = [];
  const parents = [...roots];
  for (let parent = parents.pop(); parent !== undefined; parent = parents.pop()) {
    for (const child of families.get(parent) ?? []) {
      found.push(child);
      parents.push(child.id);
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
  return processIds().filter((id) => id !== process.pid && isMarked(id, wanted));
}

function isMarked(id: number, wanted: string): boolean {
  try {
    const environment = readFileSync(`/proc/${id}/environ`, "latin1");
    return environment.startsWith(wanted) || environment.includes(`\0${wanted}`);
  } catch {
    // It has ended, or it belongs to somebody else.
    return false;
  }
}

/**
 * The variable that every process started for an upstream server carries, and everything it starts inherits. By it
 * they are found again, also when they have left their process group or lost their parent.
 */
export const MARK = "TOOLRACK_UPSTREAM";
