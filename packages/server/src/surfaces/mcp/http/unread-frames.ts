/** The longest that is looked at: news are short, and an answer is never the same as another. */
const LONGEST_NEWS = 4096;

/**
 * What a client that does not read just now is to be told when it does. News that are told again meanwhile, as that a
 * list has changed, are told once, in the place of the last.
 */
export class UnreadFrames {
  readonly #frames = new Map<unknown, Uint8Array>();
  #size = 0;

  /** In bytes. */
  get size(): number {
    return this.#size;
  }

  add(frame: Uint8Array): void {
    const key = frame.length > LONGEST_NEWS ? frame : Buffer.from(frame).toString("latin1");
    if (this.#frames.delete(key)) this.#size -= frame.length;
    this.#frames.set(key, frame);
    this.#size += frame.length;
  }

  /** All of it, which is then no longer here. */
  take(): Uint8Array[] {
    const frames = [...this.#frames.values()];
    this.#frames.clear();
    this.#size = 0;
    return frames;
  }
}
