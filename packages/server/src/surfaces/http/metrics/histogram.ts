/** Seconds. From a tool that answers from memory to one that waits for its limit. */
export const durationBuckets = [
  0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120,
] as const;

/** How many observations fell under each bound, as Prometheus counts them. */
export class Histogram {
  readonly counts = new Array<number>(durationBuckets.length).fill(0);
  sum = 0;
  count = 0;

  observe(seconds: number): void {
    this.sum += seconds;
    this.count++;
    const bucket = durationBuckets.findIndex((bound) => seconds <= bound);
    if (bucket !== -1) this.counts[bucket]!++;
  }
}
