import { readdirSync, readFileSync } from "node:fs";

/** A process that cannot be mistaken for a later one of the same id. */
export interface KnownProcess {
  readonly id: number;
  /** As the system counts it. */
  readonly startedAt: string;
}

interface Seen extends KnownProcess {
  readonly parent: number;
  readonly isOver: boolean;
}

/** Processes by the id of their parent. */
export type Families = ReadonlyMap<number, readonly KnownProcess[]>;

/** All processes there are. Only Linux shows them; elsewhere there are none. */
export function findFamilies(): Families {
  const families = new Map<number, KnownProcess[]>();
  if (process.platform !== "linux") return families;
  for (const name of readdirSync("/proc")) {
    const seen = /^\d+$/.test(name) ? look(name) : undefined;
    if (seen === undefined) continue;
    const { id, startedAt, parent } = seen;
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
  const seen = look(String(id));
  return seen === undefined ? undefined : { id, startedAt: seen.startedAt };
}

/** Whether it is still the process that it was, and runs. */
export function isRunning({ id, startedAt }: KnownProcess): boolean {
  const seen = look(String(id));
  return seen !== undefined && seen.startedAt === startedAt && !seen.isOver;
}

function look(id: string): Seen | undefined {
  try {
    const line = readFileSync(`/proc/${id}/stat`, "latin1");
    // The name of the program comes in brackets and may hold anything; the state is the third field.
    const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
    const [state, parent] = fields;
    return {
      id: Number(id),
      parent: Number(parent),
      isOver: state === "Z" || state === "X",
      startedAt: fields[19] ?? "",
    };
  } catch {
    // It has ended in between.
    return undefined;
  }
}
