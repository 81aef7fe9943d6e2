import { UpstreamError } from "./protocol/upstream-error.ts";

interface Waiting {
  readonly enter: () => void;
  readonly leave: (reason: unknown) => void;
}

/** How many calls one server is given at a time. Further ones wait their turn, and only so many may wait. */
export class Bulkhead {
  readonly #server: string;
  #size: number;
  #queue: number;
  readonly #waiting = new Set<Waiting>();
  #inside = 0;

  /** `server` is how messages call it. */
  constructor(server: string, size: number, queue: number) {
    this.#server = server;
    this.#size = size;
    this.#queue = queue;
  }

  get inside(): number {
    return this.#inside;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  get hasRoom(): boolean {
    return this.#inside < this.#size;
  }

  /** Undefined when there is room at once. Whoever came in must `leave`. Rejects with the signal's reason. */
  enter(of: { readonly signal: AbortSignal }): Promise<void> | undefined {
    if (this.hasRoom) {
      this.#inside++;
      return undefined;
    }
    if (this.#waiting.size >= this.#queue) {
      throw new UpstreamError(
        "busy",
        `${this.#server} already works on ${this.#inside} ${this.#inside === 1 ? "call" : "calls"}, and ${this.#waiting.size} more wait for it. Make fewer calls at one time.`,
      );
    }
    const { signal } = of;
    return new Promise((resolve, reject) => {
      const onAbort = () => waiting.leave(signal.reason);
      const waiting: Waiting = {
        enter: () => {
          signal.removeEventListener("abort", onAbort);
          this.#inside++;
          resolve();
        },
        leave: (reason) => {
          this.#waiting.delete(waiting);
          reject(reason);
        },
      };
      this.#waiting.add(waiting);
      signal.addEventListener("abort", onAbort, { once: true });
    });
  }

  leave(): void {
    this.#inside--;
    this.#admit();
  }

  /** Those who are inside or wait already stay, also where that is more than there may be from now on. */
  resize(size: number, queue: number): void {
    this.#size = size;
    this.#queue = queue;
    while (this.hasRoom && this.#waiting.size > 0) this.#admit();
  }

  #admit(): void {
    if (!this.hasRoom) return;
    const [next] = this.#waiting;
    if (next === undefined) return;
    this.#waiting.delete(next);
    next.enter();
  }
}
