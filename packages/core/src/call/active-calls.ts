import type { CallFrame } from "./frame.ts";

/** The calls under way, as a list through the frames themselves: joining and leaving it allocates nothing. */
export class ActiveCalls {
  #newest: CallFrame | undefined;

  get newest(): CallFrame | undefined {
    return this.#newest;
  }

  add(frame: CallFrame): void {
    frame.older = this.#newest;
    if (this.#newest !== undefined) this.#newest.newer = frame;
    this.#newest = frame;
  }

  remove(frame: CallFrame): void {
    const { older, newer } = frame;
    if (newer === undefined) this.#newest = older;
    else newer.older = older;
    if (older !== undefined) older.newer = newer;
    frame.older = undefined;
    frame.newer = undefined;
  }

  *[Symbol.iterator](): Generator<CallFrame> {
    for (let frame = this.#newest; frame !== undefined; ) {
      const next: CallFrame | undefined = frame.older;
      yield frame;
      frame = next;
    }
  }
}
