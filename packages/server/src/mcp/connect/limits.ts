import type { ServerLimits } from "./config/entry.ts";
import { UpstreamError } from "./failures.ts";

const defaults = {
  connect: 60_000,
  list: 30_000,
  concurrency: 16,
  queue: 256,
  question: 300_000,
  refresh: 600_000,
} as const satisfies ServerLimits;

/** The limits that every server has, and those that it may have. */
export type UpstreamLimits = Required<Pick<ServerLimits, keyof typeof defaults>> & ServerLimits;

export function limitsOf(given: ServerLimits | undefined): UpstreamLimits {
  return { ...defaults, ...given };
}

/** How many calls one server is given at a time. Further ones wait their turn, and only so many may wait. */
export class Bulkhead {
  readonly #server: string;
  #size: number;
  #queue: number;
  /** What lets each waiting call in. */
  readonly #waiting = new Set<() => void>();
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

  /** Undefined when there is room at once. Each call that came in must `leave`. Rejects with the signal's reason. */
  enter(call: { readonly signal: AbortSignal }): Promise<void> | undefined {
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
    const { signal } = call;
    return new Promise((resolve, reject) => {
      const admit = () => {
        signal.removeEventListener("abort", giveUp);
        this.#inside++;
        resolve();
      };
      const giveUp = () => {
        this.#waiting.delete(admit);
        reject(signal.reason);
      };
      this.#waiting.add(admit);
      signal.addEventListener("abort", giveUp, { once: true });
    });
  }

  leave(): void {
    this.#inside--;
    this.#admitWaiting();
  }

  /** Calls that are inside or wait already stay, also where that is more than there may be from now on. */
  resize(size: number, queue: number): void {
    this.#size = size;
    this.#queue = queue;
    this.#admitWaiting();
  }

  #admitWaiting(): void {
    for (const admit of this.#waiting) {
      if (!this.hasRoom) return;
      this.#waiting.delete(admit);
      admit();
    }
  }
}

const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 60_000;

/** How long to wait after so many failures in a row. Servers that failed together are not tried again together. */
export function pauseAfter(failures: number): number {
  const full = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** Math.min(failures - 1, 20));
  return Math.round(full * (0.5 + Math.random() / 2));
}

/** Node's timers cannot wait any longer. */
const LONGEST_DELAY = 2 ** 31 - 1;

/** One thing that is done later. Setting it again puts it off. It does not keep the process running. */
export class Timer {
  #timer: NodeJS.Timeout | undefined;

  set(delay: number, act: () => void): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(act, Math.min(delay, LONGEST_DELAY));
    this.#timer.unref();
  }

  clear(): void {
    clearTimeout(this.#timer);
  }
}

/** Several changes at once are one change. */
const SHORTEST_REREAD = 50;
const LONGEST_REREAD = 60_000;
/** A server that was quiet for so many pauses is read without a longer pause again. */
const CALM = 10;

/**
 * When the lists of a server are read again. A change that it tells of is followed soon, never put off by the next one;
 * a server that tells of changes all the time is read with pauses that grow.
 */
export class RereadTimer {
  readonly #interval: number;
  readonly #read: () => Promise<void>;
  readonly #isTold: () => boolean;
  readonly #timer = new Timer();
  #pause = SHORTEST_REREAD;
  #lastAt = Number.NEGATIVE_INFINITY;
  #isSoon = false;
  #reading: Promise<void> | undefined;
  #isWantedAgain = false;

  /**
   * `interval` is that of `later`, in milliseconds; 0 is never. `read` must not reject. `isTold`: the server tells of
   * changes by itself, so that `later` need not read. It may say so of itself and be heard only later, or no longer.
   */
  constructor(interval: number, read: () => Promise<void>, isTold: () => boolean = () => false) {
    this.#interval = interval;
    this.#read = read;
    this.#isTold = isTold;
  }

  soon(): void {
    if (this.#isSoon) return;
    if (this.#reading !== undefined) {
      this.#isWantedAgain = true;
      return;
    }
    const isCalm = performance.now() - this.#lastAt > this.#pause * CALM;
    this.#pause = isCalm ? SHORTEST_REREAD : Math.min(LONGEST_REREAD, this.#pause * 2);
    this.#isSoon = true;
    this.#timer.set(this.#pause, () => void this.now());
  }

  /** Reads without a pause, for a call that waits for it; resolves when it is read. One that is under way is joined. */
  now(): Promise<void> {
    this.#timer.clear();
    this.#isSoon = false;
    this.#reading ??= this.#readOnce();
    return this.#reading;
  }

  later(): void {
    if (this.#isSoon || this.#interval === 0) return;
    this.#timer.set(this.#interval, () => (this.#isTold() ? this.later() : void this.now()));
  }

  end(): void {
    this.#timer.clear();
    this.#isSoon = false;
    this.#isWantedAgain = false;
  }

  async #readOnce(): Promise<void> {
    await this.#read();
    this.#reading = undefined;
    this.#lastAt = performance.now();
    if (!this.#isWantedAgain) return;
    this.#isWantedAgain = false;
    this.soon();
  }
}
