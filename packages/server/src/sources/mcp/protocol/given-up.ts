/** How long a server is thought to be at a request after it was told to stop. Many never answer such a request. */
const GRACE = 30_000;

/** The requests that were given up here and that the server has not answered yet. */
export class GivenUp {
  readonly #until = new Map<number, number>();

  get isEmpty(): boolean {
    if (this.#until.size === 0) return true;
    const now = performance.now();
    // Those that were given up first come first.
    for (const [id, until] of this.#until) {
      if (until > now) return false;
      this.#until.delete(id);
    }
    return true;
  }

  add(id: number): void {
    this.#until.set(id, performance.now() + GRACE);
  }

  delete(id: number): void {
    if (this.#until.size > 0) this.#until.delete(id);
  }

  clear(): void {
    this.#until.clear();
  }
}
