import type { LoopEntry } from "./types.ts";

/**
 * Says what the entries of a memory surely do not have, so that looking for an identical call can end early: most calls have
 * none (predicting and comparing: 280 → 60 ns).
 */
export class EntryIndex {
  /** How many entries have arguments, and how many a result, whose marks have these 8 bits. */
  readonly #marks = new Uint8Array(256);
  readonly #results = new Uint8Array(256);
  #unmarked = 0;
  #stable = 0;

  constructor(entries: readonly LoopEntry[]) {
    for (const entry of entries) this.count(entry, 1);
  }

  count({ argsMark, exactMark, isStable }: LoopEntry, by: 1 | -1): void {
    if (argsMark) this.#marks[placeOf(argsMark)]! += by;
    else this.#unmarked += by;
    this.#results[placeOf(exactMark)]! += by;
    if (isStable) this.#stable += by;
  }

  /** False when no entry has the arguments with this mark. */
  mayHave(mark: number): boolean {
    return mark === 0 || this.#unmarked > 0 || this.#marks[placeOf(mark)]! > 0;
  }

  /** False when no entry has the result with this mark. */
  mayHaveResult(mark: number): boolean {
    return this.#results[placeOf(mark)]! > 0;
  }

  get hasStable(): boolean {
    return this.#stable > 0;
  }
}

/** 8 bits of a mark. The product mixes all of its bits into the highest. */
function placeOf(mark: number): number {
  return Math.imul(mark, 0x9e3779b1) >>> 24;
}
