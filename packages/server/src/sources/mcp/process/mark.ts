import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { processIds } from "../../../host/process-stat.ts";

/**
 * The variable that every process started for an upstream server carries, and everything it starts inherits. By it
 * they are found again, also when they have left their process group or lost their parent.
 */
export const MARK = "TOOLRACK_UPSTREAM";

/** What the marks of this process begin with. */
export const markOfRack: string = randomUUID();

let count = 0;

/** A mark for one start of one server. */
export function nextMark(): string {
  count++;
  return `${markOfRack}.${count}.`;
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
