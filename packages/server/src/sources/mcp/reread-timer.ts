/** Several changes at once are one change. */
const SHORTEST = 50;
const LONGEST = 60_000;
/** Timers cannot wait any longer. */
const MOST = 2 ** 31 - 1;
/** Who was quiet for so many pauses is answered at once again. */
const CALM = 10;

/**
 * When the lists of a server are read again. A change that it tells of is followed soon, never put off by the next one;
 * who tells of changes all the time is read with pauses that grow.
 */
export class RereadTimer {
  readonly #interval: number;
  readonly #read: () => Promise<void>;
  readonly #isTold: () => boolean;
  #pause = SHORTEST;
  #lastAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #isSoon = false;
  #isReading = false;
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
    if (this.#isReading) {
      this.#isWantedAgain = true;
      return;
    }
    const isCalm = performance.now() - this.#lastAt > this.#pause * CALM;
    this.#pause = isCalm ? SHORTEST : Math.min(LONGEST, this.#pause * 2);
    this.#isSoon = true;
    this.#set(this.#pause);
  }

  later(): void {
    if (!this.#isSoon && this.#interval > 0) this.#set(this.#interval);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#isSoon = false;
    this.#isWantedAgain = false;
  }

  #set(delay: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#run(), Math.min(delay, MOST));
    this.#timer.unref();
  }

  async #run(): Promise<void> {
    if (!this.#isSoon && this.#isTold()) return this.later();
    this.#isSoon = false;
    this.#isReading = true;
    await this.#read();
    this.#isReading = false;
    this.#lastAt = performance.now();
    if (!this.#isWantedAgain) return;
    this.#isWantedAgain = false;
    this.soon();
  }
}
