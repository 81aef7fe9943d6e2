import type { ChildProcess } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { lstat, opendir } from "node:fs/promises";
import { join } from "node:path";
import type { WorkerLimits } from "../../config/index.ts";
import { processStat } from "../../helpers/index.ts";
import type { Launched } from "./confinement.ts";

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
 * Kills a process group, and the descendants that have left it: a process that is still being set up does not end with
 * its parent yet. Processes that have ended already are no error.
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

/** How long what a process said last is still read after its end, in milliseconds. */
const LAST_WORDS = 1_000;

/**
 * Acts once the process has ended and its streams are closed. One that is ended in the middle of its start may leave a
 * process behind that was to end with it, and that holds the streams open for ever: then they are closed here, which is
 * what such a process ends by.
 */
export function whenClosed(
  child: ChildProcess,
  act: (exitCode: number | null, signal: NodeJS.Signals | null) => void,
): void {
  child.once("close", act);
  child.once("exit", () => {
    const timer = setTimeout(() => {
      for (const stream of child.stdio) stream?.destroy();
    }, LAST_WORDS);
    child.once("close", () => clearTimeout(timer));
  });
}

/** Node itself, our own process that starts a program, and the allocator's pieces. */
const overheadMb = 128;
const megabyte = 1024 * 1024;

/** What went over its limit, as the end of the sentence "… was ended: ". */
type OnExceeded = (limit: "memory" | "scratch", what: string) => void;

/**
 * What a confined process and all that came from it use, looked at from outside: the limits of the system count each
 * process by itself, and memory that is shared by none of them.
 */
export class Usage {
  readonly #launched: Launched;
  readonly #onExceeded: OnExceeded;
  #cpuSeconds = 0;
  #isMeasuring = false;

  constructor(launched: Launched, onExceeded: OnExceeded) {
    this.#launched = launched;
    this.#onExceeded = onExceeded;
  }

  /** Holds it to its limits. Answers the processor seconds since the last look, which are others' to judge. */
  look({ memoryMb, scratchMb }: WorkerLimits): number {
    const members = treeOf(this.#launched.child.pid ?? 0);
    const most = memoryMb + overheadMb;
    if (memoryMbOf(members, most) > most)
      this.#onExceeded("memory", `it used more than the ${memoryMb} MB of memory that it may use`);
    void this.#checkScratch(scratchMb);
    const seconds = cpuSecondsOf(members);
    const used = Math.max(0, seconds - this.#cpuSeconds);
    this.#cpuSeconds = seconds;
    return used;
  }

  /** Where the directory has no size of its own that the system would hold it to. */
  async #checkScratch(scratchMb: number): Promise<void> {
    const { scratch } = this.#launched;
    if (scratch === undefined || this.#isMeasuring) return;
    this.#isMeasuring = true;
    const bytes = await folderBytes(scratch, scratchMb * megabyte);
    this.#isMeasuring = false;
    if (bytes > scratchMb * megabyte)
      this.#onExceeded("scratch", `it wrote more than ${scratchMb} MB into its scratch directory`);
  }
}

/** A folder with more entries than this is taken for one that never ends. */
const mostEntries = 20_000;

/**
 * What the files of a folder hold together. Counts no further than `most`: whoever fills the folder decides how long
 * the walk would be. A part that is closed to us counts as endless, as it could hide anything.
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
      const { code } = error as NodeJS.ErrnoException; // What the file system says.
      if (code !== "ENOENT") return Number.POSITIVE_INFINITY;
    }
  }
  return bytes;
}

async function sizeOf(path: string): Promise<number> {
  try {
    // What is on the disk: a file with holes may claim any size.
    return (await lstat(path)).blocks * 512;
  } catch {
    return 0; // Removed in between.
  }
}

/** For what a tool has to tidy up after a call. */
const mostSeconds = 1;

/** Adds up the processor time that a worker uses between two calls. */
export class IdleCpu {
  #seconds = 0;
  #lastLook = 0;

  /**
   * Whether it is more than a worker may use. `used` are the seconds since the last look, which count only when it was
   * idle all the while; `idleSince` is nothing when it is not.
   */
  isTooMuch(used: number, idleSince: number | undefined): boolean {
    const wasIdle = idleSince !== undefined && idleSince < this.#lastLook;
    this.#lastLook = performance.now();
    this.#seconds = wasIdle ? this.#seconds + used : 0;
    return this.#seconds > mostSeconds;
  }
}
