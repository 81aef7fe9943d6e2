/**
 * Who may work on something at a time: any number of those who share it, or one alone. Everybody waits for those who
 * came before, but only so long: then they go ahead beside them.
 */
export class Turns {
  readonly #patience: number;
  readonly #sharing = new Set<Promise<void>>();
  #alone: Promise<unknown> = Promise.resolve();

  /** `patience` is the longest wait, in milliseconds. */
  constructor(patience: number) {
    this.#patience = patience;
  }

  /** Whoever's signal aborts while they wait gives up their place. Rejects with the signal's reason then. */
  async take<Result>(
    isAlone: boolean,
    work: () => Promise<Result>,
    signal: AbortSignal | undefined,
  ): Promise<Result> {
    const before = isAlone ? Promise.all([this.#alone, ...this.#sharing]) : this.#alone;
    const { promise, resolve } = Promise.withResolvers<void>();
    if (isAlone) this.#alone = before.then(() => promise);
    else this.#sharing.add(promise);
    try {
      await this.#wait(before, signal);
      return await work();
    } finally {
      resolve();
      this.#sharing.delete(promise);
    }
  }

  async #wait(before: Promise<unknown>, signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const giveUp = () => reject(signal?.reason);
    const timer = setTimeout(resolve, this.#patience);
    signal?.addEventListener("abort", giveUp, { once: true });
    if (signal?.aborted) giveUp();
    void before.then(() => resolve());
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", giveUp);
    }
  }
}
