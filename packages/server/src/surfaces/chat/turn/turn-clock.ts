/** Measures how long a turn has worked, without the time in which it waits for a person. */
export class TurnClock {
  readonly #controller = new AbortController();
  #left: number;
  #since = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #pauses = 0;

  /** `limit` in milliseconds. */
  constructor(limit: number) {
    this.#left = limit;
    this.#start();
  }

  /** Aborts when the time is over. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** To be followed by one `resume`. */
  pause(): void {
    if (this.#pauses++ > 0) return;
    clearTimeout(this.#timer);
    this.#left -= performance.now() - this.#since;
  }

  resume(): void {
    if (this.#pauses === 0 || --this.#pauses > 0) return;
    this.#start();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #start(): void {
    this.#since = performance.now();
    // A timer holds no more than 24 days.
    const delay = Math.min(Math.max(0, this.#left), 2 ** 31 - 1);
    this.#timer = setTimeout(() => this.#controller.abort(new OutOfTime()), delay);
  }
}

/** The turn took as long as it may. */
export class OutOfTime extends Error {
  override readonly name = "OutOfTime";
}
