import { whenAborted } from "../../helpers/index.ts";
import type { ServerLimits } from "./config/entry.ts";
import { UpstreamError } from "./failures.ts";

const defaults = {
  connect: 60_000,
  list: 30_000,
  concurrency: 16,
  queue: 256,
  question: 300_000,
  refresh: 600_000,
  connections: 16,
} as const satisfies ServerLimits;

/** The limits with a default are always set, the others only when the entry sets them. */
export type UpstreamLimits = Required<Pick<ServerLimits, keyof typeof defaults>> & ServerLimits;

export function limitsOf(given: ServerLimits | undefined): UpstreamLimits {
  return { ...defaults, ...given };
}

/** Limits how many calls a server works on at a time, and how many may wait. */
export class Bulkhead {
  inside = 0;
  readonly #server: string;
  #limits: Pick<UpstreamLimits, "concurrency" | "queue">;
  /** One function per waiting call, which lets the call in. */
  readonly #waiting = new Set<() => void>();

  /** `server`: how error messages name the server. */
  constructor(server: string, limits: Pick<UpstreamLimits, "concurrency" | "queue">) {
    this.#server = server;
    this.#limits = limits;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  get hasRoom(): boolean {
    return this.inside < this.#limits.concurrency;
  }

  /**
   * Lets a call in. Returns undefined if there is room at once; otherwise a promise that resolves when there is
   * room, and rejects with the signal's reason. Throws when too many calls wait. Every call that was let in
   * must call `leave`.
   */
  enter(call: { readonly signal: AbortSignal }): Promise<void> | undefined {
    if (this.hasRoom) {
      this.inside++;
      return undefined;
    }
    if (this.#waiting.size >= this.#limits.queue) {
      throw new UpstreamError(
        "busy",
        `${this.#server} already works on ${this.inside} ${this.inside === 1 ? "call" : "calls"}, and ${this.#waiting.size} more wait for it. Make fewer calls at one time.`,
      );
    }
    const { signal } = call;
    return new Promise((resolve, reject) => {
      const admit = () => {
        unfollow();
        this.inside++;
        resolve();
      };
      this.#waiting.add(admit);
      const unfollow = whenAborted(signal, () => {
        this.#waiting.delete(admit);
        reject(signal.reason);
      });
    });
  }

  leave(): void {
    this.inside--;
    this.#admitWaiting();
  }

  /** Calls that are inside or waiting stay, even if they are more than the new limits allow. */
  resize(limits: Pick<UpstreamLimits, "concurrency" | "queue">): void {
    this.#limits = limits;
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

/**
 * How long to wait after this many failures in a row, in milliseconds. Random, so that servers that failed
 * together are not retried together.
 */
export function pauseAfter(failures: number): number {
  const full = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** Math.min(failures - 1, 20));
  return Math.round(full * (0.5 + Math.random() / 2));
}

/** The longest delay of Node's timers. */
const LONGEST_DELAY = 2 ** 31 - 1;

/**
 * Runs one function later. Setting the timer again replaces the earlier function. Does not keep the process running.
 */
export class Timer {
  /** When the function will run, in milliseconds since the epoch; undefined while none is set. */
  at: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  set(delay: number, act: () => void): void {
    this.clear();
    this.at = Date.now() + delay;
    const run = () => {
      this.at = undefined;
      act();
    };
    this.#timer = setTimeout(run, Math.min(delay, LONGEST_DELAY)).unref();
  }

  clear(): void {
    clearTimeout(this.#timer);
    this.at = undefined;
  }
}

/** The shortest pause before the lists are read again, in milliseconds. All changes within it are read together. */
const SHORTEST_REREAD = 50;
const LONGEST_REREAD = 60_000;
/** When the last read is more than this many pauses ago, the next pause is the shortest again. */
const CALM = 10;

/**
 * Decides when the lists of a server are read again. They are read soon after the server announces a change, and a
 * further announcement does not delay that. For a server that announces changes all the time the pauses grow.
 */
export class RereadTimer {
  readonly #interval: () => number;
  readonly #read: () => Promise<void>;
  readonly #isTold: () => boolean;
  readonly #timer = new Timer();
  #pause = SHORTEST_REREAD;
  #lastAt = Number.NEGATIVE_INFINITY;
  #isSoon = false;
  #reading: Promise<void> | undefined;
  #isWantedAgain = false;

  /**
   * `interval`: the delay of `later` in milliseconds; 0 means never. `read` must not reject. `isTold`: whether
   * the server announces changes itself, so that `later` need not read. Both functions are asked each time,
   * because their answers may change.
   */
  constructor(interval: () => number, read: () => Promise<void>, isTold: () => boolean = () => false) {
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

  /** Reads without a pause, for a call that waits. Joins a read that is running. Resolves when the read is done. */
  now(): Promise<void> {
    this.#timer.clear();
    this.#isSoon = false;
    this.#reading ??= this.#readOnce();
    return this.#reading;
  }

  later(): void {
    const interval = this.#interval();
    if (this.#isSoon || interval === 0) return;
    this.#timer.set(interval, () => (this.#isTold() ? this.later() : void this.now()));
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
