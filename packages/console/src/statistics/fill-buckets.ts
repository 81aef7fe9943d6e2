import type { Statistics } from "../api/types.ts";
import type { CallStatistics } from "./summarise-calls.ts";

/** All slices of the time that was asked about: the server leaves out those in which nothing happened. */
export function fillBuckets({
  since,
  until,
  interval,
  buckets,
}: Pick<Statistics, "since" | "until" | "interval" | "buckets">): CallStatistics["buckets"] {
  const known = new Map(buckets.map((bucket) => [bucket.at, bucket]));
  const first = Math.floor(since / interval) * interval;
  const count = Math.floor((until - first) / interval) + 1;
  return Array.from({ length: count }, (_, index) => {
    const at = first + index * interval;
    const { calls = 0, errors = 0, p50, p95 } = known.get(at) ?? {};
    return { at, calls, errors, p50, p95 };
  });
}
