import { expect, it } from "vitest";
import { RateLimiter } from "./request-guard.ts";

it("lets a burst through, then as many as come in by the second, each key for itself", () => {
  let now = 0;
  const limiter = new RateLimiter({ perSecond: 10, burst: 3 }, () => now);
  expect([limiter.take("a"), limiter.take("a"), limiter.take("a")]).toEqual([0, 0, 0]);
  expect(limiter.take("a")).toBeCloseTo(0.1);
  expect(limiter.take("b")).toBe(0);
  now = 100;
  expect(limiter.take("a")).toBe(0);
  expect(limiter.take("a")).toBeGreaterThan(0);
  now = 60_000;
  expect([limiter.take("a"), limiter.take("a"), limiter.take("a")]).toEqual([0, 0, 0]);
  expect(limiter.take("a")).toBeGreaterThan(0);
});

it("counts a request that does the work of several as several", () => {
  let now = 0;
  const limiter = new RateLimiter({ perSecond: 10, burst: 5 }, () => now);
  expect(limiter.take("a", 4)).toBe(0);
  expect(limiter.take("a", 3)).toBeCloseTo(0.2);
  now = 1_000;
  expect(limiter.take("a", 100)).toBe(0);
  expect(limiter.take("a")).toBeGreaterThan(0);
});
