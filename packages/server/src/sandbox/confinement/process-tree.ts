import type { ChildProcess } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { lstat, opendir } from "node:fs/promises";
import { join } from "node:path";
import type { WorkerLimits } from "../../config/index.ts";
import { processStat } from "../../helpers/index.ts";
import type { Launched } from "./confinement.ts";

/** The processor seconds of all these processes together. A process that has ended counts 0. */
export function cpuSecondsOf(members: readonly number[]): number {
  return members.reduce((sum, pid) => sum + (processStat(pid)?.cpuSeconds ?? 0), 0);
}

/** The largest data memory of a process in the tree, in KB, as `ulimit -d` counts it. */
export function dataKbOfTree(pid: number): number | undefined {
  const members = treeOf(pid);
  if (members.length === 0) return undefined;
  return Math.max(...members.map((member) => sizeIn(`/proc/${member}/status`, /^VmData:\s+(\d+)/gm)));
}

/**
 * MB of memory that these processes use together, without mapped files. First, a page that n processes share
 * counts fully for each. Only if that sum is above `most` are such pages counted again as 1/n for each
 * process, where the system reports it, because reading that is slow.
 */
function memoryMbOf(members: readonly number[], most: number): number {
  const residentKb = (pid: number) => sizeIn(`/proc/${pid}/status`, /^Rss(?:Anon|Shmem):\s+(\d+)/gm);
  const proportionalKb = (pid: number) =>
    sizeIn(`/proc/${pid}/smaps_rollup`, /^Pss_(?:Anon|Shmem):\s+(\d+)/gm) || residentKb(pid);
  const sumMb = (kb: (pid: number) => number) => members.reduce((sum, pid) => sum + kb(pid), 0) / 1024;
  const rough = sumMb(residentKb);
  return rough <= most ? rough : sumMb(proportionalKb);
}

/** Adds up the numbers that the pattern finds in a file of /proc. 0 when the process has ended. */
function sizeIn(path: string, pattern: RegExp): number {
  return [...read(path).matchAll(pattern)].reduce((sum, [, size]) => sum + Number(size), 0);
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

/**
 * Kills the process group that `pid` leads, and the descendants of `pid` that have left the group: a sandbox
 * that is still being set up does not end with its parent yet. Ignores processes that have already ended.
 */
export function killTree(pid: number | undefined): void {
  if (pid === undefined) return;
  for (const member of [-pid, ...treeOf(pid)]) {
    try {
      process.kill(member, "SIGKILL");
    } catch {}
  }
}

/** The ids of a process and its living descendants. Empty when the process has ended or there is no /proc. */
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

/** The ids of the child processes, which the kernel lists by thread. Undefined when the process has ended. */
function childrenOf(pid: number): number[] | undefined {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      read(`/proc/${pid}/task/${thread}/children`).split(" ").filter(Boolean).map(Number),
    );
  } catch {
    return undefined;
  }
}

/** Milliseconds for which output is still read after the end of a process. */
const LAST_OUTPUT_MS = 1_000;

/**
 * Calls `act` once the process has ended and its streams are closed. A process that is killed during its
 * start may leave a child behind that keeps the streams open for ever. Then this function closes the streams,
 * which ends that child.
 */
export function whenClosed(
  child: ChildProcess,
  act: (exitCode: number | null, signal: NodeJS.Signals | null) => void,
): void {
  child.once("close", act);
  child.once("exit", () => {
    const timer = setTimeout(() => {
      for (const stream of child.stdio) stream?.destroy();
    }, LAST_OUTPUT_MS);
    child.once("close", () => clearTimeout(timer));
  });
}

/** MB allowed beyond `memoryMb`, for Node itself, the starter process of a program, and the allocator. */
const overheadMb = 128;
const megabyte = 1024 * 1024;

/** `what` completes the sentence "{label} was ended: {what}." */
type OnExceeded = (limit: "memory" | "scratch" | "data", what: string) => void;

/** Milliseconds between two measurements of a data folder, which may hold many files. */
const dataCheckMs = 5_000;

/**
 * Measures a confined process and its descendants from outside, because the system's own limits apply to each
 * process by itself and do not count shared memory.
 */
export class Usage {
  readonly #launched: Launched;
  readonly #onExceeded: OnExceeded;
  #cpuSeconds = 0;
  #isMeasuring = false;
  #dataMeasuredAt = performance.now();

  constructor(launched: Launched, onExceeded: OnExceeded) {
    this.#launched = launched;
    this.#onExceeded = onExceeded;
  }

  /**
   * Checks the limits of memory and scratch space. Returns the processor seconds used since the last check;
   * the caller enforces the limit on those.
   */
  look({ memoryMb, scratchMb, dataMb }: WorkerLimits): number {
    const members = treeOf(this.#launched.child.pid ?? 0);
    const most = memoryMb + overheadMb;
    if (memoryMbOf(members, most) > most)
      this.#onExceeded("memory", `it used more than the ${memoryMb} MB of memory that it may use`);
    void this.#checkFolders(scratchMb, dataMb);
    const seconds = cpuSecondsOf(members);
    const used = Math.max(0, seconds - this.#cpuSeconds);
    this.#cpuSeconds = seconds;
    return used;
  }

  /** Measures the data folder, and the scratch directory where the system itself does not limit its size. */
  async #checkFolders(scratchMb: number, dataMb: number): Promise<void> {
    const { scratch, data } = this.#launched;
    if (this.#isMeasuring) return;
    this.#isMeasuring = true;
    if (scratch !== undefined && (await isLarger(scratch, scratchMb)))
      this.#onExceeded("scratch", `it wrote more than ${scratchMb} MB into its scratch directory`);
    const isDue = performance.now() - this.#dataMeasuredAt >= dataCheckMs;
    if (data !== undefined && isDue) {
      this.#dataMeasuredAt = performance.now();
      if (await isLarger(data.path, dataMb)) {
        const remedy = `clear it with: toolrack data clear ${data.name}`;
        const most = `${dataMb} MB, or more than ${mostEntries} files`;
        this.#onExceeded("data", `its data folder holds more than ${most}; ${remedy}`);
      }
    }
    this.#isMeasuring = false;
  }
}

async function isLarger(folder: string, mb: number): Promise<boolean> {
  return (await folderBytes(folder, mb * megabyte)) > mb * megabyte;
}

/** A folder with more entries than this counts as infinitely large. */
const mostEntries = 20_000;

/**
 * The size of all files in a folder. Infinity as soon as it is above `most`, because the tool decides how
 * many files there are to count; and for an unreadable folder, because it could hide files of any size.
 */
async function folderBytes(folder: string, most: number): Promise<number> {
  const waiting = [folder];
  let bytes = 0;
  let entries = 0;
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    try {
      for await (const entry of await opendir(path)) {
        if (++entries > mostEntries || bytes > most) return Number.POSITIVE_INFINITY;
        const inner = join(path, entry.name);
        if (entry.isDirectory()) waiting.push(inner);
        else bytes += await sizeOf(inner);
      }
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException; // The file system throws errors with a code.
      if (code !== "ENOENT") return Number.POSITIVE_INFINITY;
    }
  }
  return bytes;
}

async function sizeOf(path: string): Promise<number> {
  try {
    // The size on disk: a sparse file may claim any size.
    return (await lstat(path)).blocks * 512;
  } catch {
    return 0; // The file was removed in the meantime.
  }
}
