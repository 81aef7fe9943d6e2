let clock = performance;
let date = Date;

/**
 * Milliseconds of the `performance` clock. The global is a getter in Node, which costs 30 ns, so it is read once. Whoever
 * replaces the clock in a test replaces `Date` too; comparing that costs nothing, because the engine knows its value.
 */
export function readClock(): number {
  if (date !== Date) {
    date = Date;
    clock = performance;
  }
  return clock.now();
}

/**
 * Milliseconds between comparisons of the `performance` clock with the system clock: comparing costs more
 * than adding.
 */
const COMPARE_EVERY = 1_000;

/** Milliseconds by which the clocks may differ. */
const LARGEST_DRIFT = 100;

let origin = performance.timeOrigin;

let comparedAt = 0;

/**
 * Converts a time of the `performance` clock to milliseconds since the epoch. Follows the system clock within a second
 * after it was set or the machine slept, during which the `performance` clock stands still.
 */
export function toEpoch(time: number): number {
  if (time - comparedAt > COMPARE_EVERY) {
    comparedAt = time;
    const now = Date.now() - readClock();
    if (Math.abs(now - origin) > LARGEST_DRIFT) origin = now;
  }
  return Math.round(origin + time);
}
