/** A token that has ended when it is given must not keep the rack busy. */
const SHORTEST = 1_000;
/** Timers cannot wait any longer. */
const LONGEST = 2 ** 31 - 1;
const AGAIN = 10_000;

/** When the tokens of a session are renewed. */
export class RenewalTimer {
  readonly #renew: () => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(renew: () => void) {
    this.#renew = renew;
  }

  /** Milliseconds since the epoch; undefined is never. */
  at(time: number | undefined): void {
    clearTimeout(this.#timer);
    if (time === undefined) return;
    const pause = Math.min(Math.max(time - Date.now(), SHORTEST), LONGEST);
    this.#timer = setTimeout(this.#renew, pause);
    this.#timer.unref();
  }

  /** It came to nothing this time. */
  again(): void {
    this.at(Date.now() + AGAIN);
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}
