import { expect, it } from "vitest";
import { fillBuckets } from "./fill-buckets.ts";

it("puts slices without a call between those that the server counted", () => {
  const buckets = [{ at: 20, calls: 3, errors: 1, p50: 5, p95: 9 }];
  const filled = fillBuckets({ since: 14, until: 39, interval: 10, buckets });
  expect(filled).toEqual([
    { at: 10, calls: 0, errors: 0, p50: undefined, p95: undefined },
    { at: 20, calls: 3, errors: 1, p50: 5, p95: 9 },
    { at: 30, calls: 0, errors: 0, p50: undefined, p95: undefined },
  ]);
});
