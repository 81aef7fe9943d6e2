import { readdirSync, readFileSync } from "node:fs";

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
