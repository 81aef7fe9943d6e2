import { type Mask, REDACTED, SHORTEST, SHORTEST_BEGUN } from "./mask.ts";

/**
 * Masks a text that comes in pieces, also where a value is spread over several of them. What may be the beginning of a
 * value is held back until more is known: less than the longest value has characters, and mostly nothing. The pieces
 * that are given out make up the same text as if the whole had been masked as plain text; only of a long value
 * that stands in the middle of a word, the first two characters may be given out.
 */
export class MaskStream {
  readonly #mask: Mask;
  /** The last characters that were given out, which may belong to a value; none where a value was masked. */
  #shown = "";
  #held = "";
  /** How many characters at the beginning of `#held` belong to a value that began before them. */
  #hidden = 0;
  /** Whether what was given out last stands for a value, which the next characters may continue. */
  #isHiding = false;

  constructor(mask: Mask) {
    this.#mask = mask;
  }

  get isHolding(): boolean {
    return this.#held !== "";
  }

  /** Returns what can be shown by now. */
  add(text: string): string {
    if (this.#mask.isEmpty || text === "") return text;
    const whole = this.#shown + this.#held + text;
    return this.#show(whole, Math.max(this.#shown.length, this.#mask.openEnd(whole)));
  }

  /**
   * Returns what was held back. The next piece begins a new text. `isCut`: the text did not end by itself, so that a
   * value may have been cut off; more than a few characters of one are not returned.
   */
  rest(isCut = false): string {
    const isLost = isCut && this.#held.length >= SHORTEST;
    const whole = this.#shown + this.#held;
    const shown = this.#held === "" || isLost ? "" : this.#show(whole, whole.length);
    this.#shown = "";
    this.#held = "";
    this.#hidden = 0;
    this.#isHiding = false;
    return shown;
  }

  /** Gives out the text up to `end` and holds the rest back: every value that begins before `end` is complete. */
  #show(text: string, end: number): string {
    const begin = this.#shown.length;
    const hidden = this.#hidden;
    this.#held = text.slice(end);
    this.#hidden = 0;
    if (hidden === 0 && !this.#mask.finds(text)) {
      if (end > begin) this.#isHiding = false;
      this.#shown = this.#isHiding ? "" : text.slice(Math.max(0, end - SHORTEST_BEGUN + 1), end);
      return text.slice(begin, end);
    }
    const covered = this.#mask.covered(text).fill(1, begin, begin + hidden);
    let shown = "";
    for (let at = begin; at < end; ) {
      const isHidden = covered[at] === 1;
      const next = covered.indexOf(isHidden ? 0 : 1, at);
      const until = next === -1 ? end : Math.min(next, end);
      if (!isHidden) shown += text.slice(at, until);
      else if (!this.#isHiding) shown += REDACTED;
      this.#isHiding = isHidden;
      at = until;
    }
    const open = covered.indexOf(0, end);
    this.#hidden = (open === -1 ? text.length : open) - end;
    this.#shown = this.#isHiding ? "" : text.slice(Math.max(0, end - SHORTEST_BEGUN + 1), end);
    return shown;
  }
}
