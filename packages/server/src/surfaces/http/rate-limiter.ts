interface Bucket {
  tokens: number;
  filledAt: number;
}

export interface RateLimit {
  /** How many a second in the long run. */
  readonly perSecond: number;
  /** How many at once. */
  readonly burst: number;
}

/** A token bucket for each key. */
export class RateLimiter {
  readonly #limit: RateLimit;
  readonly #now: () => number;
  readonly #buckets = new Map<string, Bucket>();

  constructor(limit: RateLimit, now: () => number = () => performance.now()) {
    this.#limit = limit;
    this.#now = now;
  }

  /** Takes as many, all or none. Answers 0, or after how many seconds there will be enough. */
  take(key: string, count = 1): number {
    const { perSecond, burst } = this.#limit;
    const now = this.#now();
    let bucket = this.#buckets.get(key);
    if (bucket === undefined) {
      bucket = { tokens: burst, filledAt: now };
      this.#buckets.set(key, bucket);
    }
    bucket.tokens = Math.min(burst, bucket.tokens + ((now - bucket.filledAt) / 1000) * perSecond);
    bucket.filledAt = now;
    // More than fit into the bucket at once are let through when it is full.
    const wanted = Math.min(count, burst);
    if (bucket.tokens < wanted) return (wanted - bucket.tokens) / perSecond;
    bucket.tokens -= wanted;
    return 0;
  }
}
