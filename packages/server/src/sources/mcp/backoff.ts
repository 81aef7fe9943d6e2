const FIRST_DELAY = 250;
const LONGEST_DELAY = 60_000;

/** How long to wait after so many failures in a row. Those who failed together do not try again together. */
export function pauseAfter(failures: number): number {
  const full = Math.min(LONGEST_DELAY, FIRST_DELAY * 2 ** Math.min(failures - 1, 20));
  return Math.round(full * (0.5 + Math.random() / 2));
}
