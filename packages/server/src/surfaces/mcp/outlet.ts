/**
 * The way out to a client. Who has something to say that can wait, or be left out, looks here first: a client that does
 * not read would have all of it kept for it.
 */
export class Outlet {
  readonly #isFull: () => boolean;
  readonly #waiting = new Set<() => void>();

  constructor(isFull: () => boolean) {
    this.#isFull = isFull;
  }

  /** More has been said than the client has taken in. */
  get isFull(): boolean {
    return this.#isFull();
  }

  /** Acts once, when there may be room again or nobody is left. Answers how to stop waiting for it. */
  whenFreed(act: () => void): () => void {
    this.#waiting.add(act);
    return () => this.#waiting.delete(act);
  }

  /** Resolves when there is room. */
  async room(): Promise<void> {
    while (this.isFull) {
      await new Promise<void>((resolve) => {
        this.whenFreed(resolve);
      });
    }
  }

  /** To be called when the client has taken in what it was told, or has gone. */
  freed(): void {
    if (this.#waiting.size === 0) return;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const act of waiting) act();
  }
}
