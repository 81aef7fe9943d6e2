import { IdTable } from "@toolrack/core";
import type { CallRow } from "../database/schema.ts";

interface Start {
  readonly callId: string;
  /** Undefined when the call has ended. */
  makeRow: (() => CallRow) | undefined;
  /** Milliseconds on the `performance` clock. */
  readonly due: number;
}

/** How many places of the queue may be empty before they are given back. */
const MOST_EMPTY = 1024;

/** Calls that have begun and whose rows are held back for a moment, in the order in which they began. */
export class StartQueue {
  readonly #byId = new IdTable<Start>();
  #queue: Start[] = [];
  #first = 0;

  /** How many have not ended. */
  get size(): number {
    return this.#byId.size;
  }

  add(callId: string, due: number, makeRow: () => CallRow): void {
    const start = { callId, makeRow, due };
    this.#byId.set(callId, start);
    this.#queue.push(start);
  }

  /** The call has ended: its beginning need not be written any more. */
  end(callId: string): void {
    const start = this.#byId.get(callId);
    if (start === undefined) return;
    start.makeRow = undefined;
    this.#byId.delete(callId);
  }

  /** Whether there is one whose row has been held back long enough. */
  isDue(now: number): boolean {
    if (this.#byId.size === 0) return false;
    while (this.#queue[this.#first]?.makeRow === undefined) this.#first++;
    return this.#queue[this.#first]!.due <= now;
  }

  /** The rows of those that are due, no more than `most`. */
  take(now: number, most: number): CallRow[] {
    const rows: CallRow[] = [];
    for (; this.#first < this.#queue.length; this.#first++) {
      const { callId, makeRow, due } = this.#queue[this.#first]!;
      if (makeRow === undefined) continue;
      if (due > now || rows.length === most) break;
      this.#byId.delete(callId);
      rows.push(makeRow());
    }
    if (this.#first > MOST_EMPTY || this.#first === this.#queue.length) {
      this.#queue = this.#queue.slice(this.#first);
      this.#first = 0;
    }
    return rows;
  }
}
