/**
 * Who may work on something at a time: any number of those who share it, or one alone. Everybody waits for those who
 * came before, so nobody waits for ever.
 */
export class Turns {
  readonly #sharing = new Set<Promise<void>>();
  #alone: Promise<unknown> = Promise.resolve();

  async take<Result>(isAlone: boolean, work: () => Promise<Result>): Promise<Result> {
    const before = isAlone ? Promise.all([this.#alone, ...this.#sharing]) : this.#alone;
    const { promise, resolve } = Promise.withResolvers<void>();
    if (isAlone) this.#alone = before.then(() => promise);
    else this.#sharing.add(promise);
    await before;
    try {
      return await work();
    } finally {
      resolve();
      this.#sharing.delete(promise);
    }
  }
}
