/** The lowest and the highest share, from 0 to 1. */
export type Interval = readonly [low: number, high: number];

/** For intervals that hold the truth in 95 of 100 cases. */
const Z = 1.959964;

/** Wilson's interval for the share that so many hits of so many runs show. It holds for few runs too, and for all or none. */
export function wilson(hits: number, runs: number): Interval {
  if (runs === 0) return [0, 1];
  const share = hits / runs;
  const square = Z ** 2;
  const middle = share + square / (2 * runs);
  const reach = Z * Math.sqrt((share * (1 - share)) / runs + square / (4 * runs ** 2));
  const whole = 1 + square / runs;
  return [Math.max(0, (middle - reach) / whole), Math.min(1, (middle + reach) / whole)];
}

/** Newcombe's interval for the difference of two shares, the other minus the one, from -1 to 1. */
export function difference(
  one: { readonly hits: number; readonly runs: number },
  other: { readonly hits: number; readonly runs: number },
): Interval {
  if (one.runs === 0 || other.runs === 0) return [-1, 1];
  const [low1, high1] = wilson(one.hits, one.runs);
  const [low2, high2] = wilson(other.hits, other.runs);
  const [share1, share2] = [one.hits / one.runs, other.hits / other.runs];
  const change = share2 - share1;
  return [
    change - Math.hypot(share2 - low2, high1 - share1),
    change + Math.hypot(high2 - share2, share1 - low1),
  ];
}
