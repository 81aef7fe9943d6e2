import { readdirSync, readFileSync } from "node:fs";
import { processStat } from "../../../host/process-stat.ts";

/** Processor seconds of these processes, as far as they still live. */
export function cpuSecondsOf(members: readonly number[]): number {
  return sumOf(members, (pid) => processStat(pid)?.cpuSeconds ?? 0);
}

/** The most that a process of the tree has mapped as data, in KB, which is what the limit on data counts. */
export function dataKbOfTree(pid: number): number | undefined {
  const members = treeOf(pid);
  return members.length === 0 ? undefined : Math.max(...members.map(dataKb));
}

/**
 * Memory of these processes, without files. What several of them share counts once, which takes a
 * closer look; that is taken only when the first one is above `most`.
 */
export function memoryMbOf(members: readonly number[], most: number): number {
  const rough = sumOf(members, residentKb) / 1024;
  return rough <= most ? rough : sumOf(members, proportionalKb) / 1024;
}

/**
 * Ends a process group for good, and whoever came from it and has left it: until such a process has asked to end with its
 * parent, it does not. Whoever is gone already is no error.
 */
export function killTree(pid: number | undefined): void {
  if (pid === undefined) return;
  for (const member of [-pid, ...treeOf(pid)]) {
    try {
      process.kill(member, "SIGKILL");
    } catch {}
  }
}

/** A process and all that came from it and still lives. Nobody when it is gone, or there is no /proc. */
export function treeOf(pid: number): number[] {
  const found: number[] = [];
  const waiting = [pid];
  for (let member = waiting.pop(); member !== undefined; member = waiting.pop()) {
    const children = childrenOf(member);
    if (children === undefined) continue;
    found.push(member);
    waiting.push(...children);
  }
  return found;
}

/** Each thread has children of its own. */
function childrenOf(pid: number): number[] | undefined {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      (read(`/proc/${pid}/task/${thread}/children`) ?? "").split(" ").filter(Boolean).map(Number),
    );
  } catch {
    return undefined;
  }
}

function sumOf(members: readonly number[], measure: (pid: number) => number): number {
  return members.reduce((sum, member) => sum + measure(member), 0);
}

function dataKb(pid: number): number {
  return sizesIn(read(`/proc/${pid}/status`), /^VmData:\s+(\d+)/gm);
}

function residentKb(pid: number): number {
  return sizesIn(read(`/proc/${pid}/status`), /^Rss(?:Anon|Shmem):\s+(\d+)/gm);
}

/** Pages that n processes share count as 1/n of each. Old systems, and those that do not let us look, tell less. */
function proportionalKb(pid: number): number {
  const shares = sizesIn(read(`/proc/${pid}/smaps_rollup`), /^Pss_(?:Anon|Shmem):\s+(\d+)/gm);
  return shares === 0 ? residentKb(pid) : shares;
}

function sizesIn(text: string | undefined, pattern: RegExp): number {
  return [...(text ?? "").matchAll(pattern)].reduce((sum, [, size]) => sum + Number(size), 0);
}

/** One that has ended in the meantime has nothing to tell; the others still count. */
function read(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
