/**
 * How fast a client takes in what is written to it. Whatever can wait, or be left out, looks here first: for a client
 * that does not read, all of it would have to be kept.
 */
export class WriteFlow {
  readonly #isFull: () => boolean;
  readonly #waiting = new Set<() => void>();
  #turn: Promise<void> | undefined;

  constructor(isFull: () => boolean) {
    this.#isFull = isFull;
  }

  /** More has been written than the client has taken in. */
  get isFull(): boolean {
    return this.#isFull();
  }

  /** Acts once, when there may be room again or nobody is left. Returns a function that stops waiting. */
  whenFreed(act: () => void): () => void {
    this.#waiting.add(act);
    return () => this.#waiting.delete(act);
  }

  /** To be called when the client has taken in what was written, or has gone. */
  freed(): void {
    if (this.#waiting.size === 0) return;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const act of waiting) act();
  }

  /** Resolves when there is room, for one after the other in the order in which they asked. Undefined: there is room now. */
  turn(): Promise<void> | undefined {
    if (this.#turn === undefined && !this.isFull) return undefined;
    const turn = (this.#turn ?? Promise.resolve()).then(() => this.#room());
    this.#turn = turn;
    void turn.then(() => {
      if (this.#turn === turn) this.#turn = undefined;
    });
    return turn;
  }

  async #room(): Promise<void> {
    while (this.isFull) {
      await new Promise<void>((resolve) => {
        this.whenFreed(resolve);
      });
    }
  }
}
