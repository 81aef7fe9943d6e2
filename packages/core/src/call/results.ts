import type { Mask } from "./mask.ts";

/** One page of a kept result. */
export interface ResultPage {
  readonly text: string;
  readonly offset: number;
  /** Where the next page starts; absent on the last one. */
  readonly nextOffset?: number;
  /** Characters of the whole result. */
  readonly total: number;
}

export interface PageOptions {
  readonly offset?: number;
  /** Characters per page; default 20,000. */
  readonly limit?: number;
}

interface KeptText {
  readonly text: string;
  /** The mask whose values are hidden in the text. */
  readonly masked: Mask;
}

/** The whole texts of results that were cut for the model. The oldest are dropped when the room is used up. */
export class KeptResults {
  readonly #room: number;
  readonly #texts = new Map<string, KeptText>();
  #used = 0;

  constructor(room: number) {
    this.#room = room;
  }

  /** Returns false, and keeps nothing, for a text that is larger than the whole room. */
  keep(callId: string, text: string, masked: Mask): boolean {
    if (text.length > this.#room) return false;
    const before = this.#texts.get(callId);
    if (before !== undefined) {
      this.#texts.delete(callId);
      this.#used -= before.text.length;
    }
    this.#texts.set(callId, { text, masked });
    this.#used += text.length;
    for (const [oldest, old] of this.#texts) {
      if (this.#used <= this.#room) break;
      this.#texts.delete(oldest);
      this.#used -= old.text.length;
    }
    return true;
  }

  get(callId: string): KeptText | undefined {
    return this.#texts.get(callId);
  }
}

export function pageOf(text: string, { offset = 0, limit = 20_000 }: PageOptions): ResultPage {
  const start = Math.min(Math.max(0, Math.trunc(offset)), text.length);
  const end = Math.min(start + Math.max(1, Math.trunc(limit)), text.length);
  const page = { text: text.slice(start, end), offset: start, total: text.length };
  return end < text.length ? { ...page, nextOffset: end } : page;
}
