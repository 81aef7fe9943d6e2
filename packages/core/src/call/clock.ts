/** Milliseconds between two looks at how the clocks stand to each other: looking costs more than adding. */
const LOOK_EVERY = 1_000;

/** Milliseconds that the clocks may differ by before it counts as a jump. */
const JUMP = 100;

let origin = performance.timeOrigin;

let lookedAt = 0;

/**
 * From the `performance` clock, which never jumps, to milliseconds since the epoch. The system's clock is followed within a
 * second when somebody sets it, or when the machine has slept, during which the `performance` clock stands still.
 */
export function toEpoch(time: number): number {
  if (time - lookedAt > LOOK_EVERY) {
    lookedAt = time;
    const now = Date.now() - performance.now();
    if (Math.abs(now - origin) > JUMP) origin = now;
  }
  return Math.round(origin + time);
}
