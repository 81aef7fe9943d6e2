import type { Launched } from "./confinement/confinement.ts";
import { cpuSecondsOf, memoryMbOf, treeOf } from "./confinement/process-tree.ts";
import { folderBytes } from "./folder-bytes.ts";
import type { WorkerLimits } from "./types.ts";

/** Node itself, our own process that starts a program, and the allocator's pieces. */
const overheadMb = 128;
const megabyte = 1024 * 1024;

/** What went over its limit, as the end of the sentence "… was ended: ". */
export type OnExceeded = (limit: "memory" | "scratch", what: string) => void;

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
