import { afterEach, expect, it, vi } from "vitest";

afterEach(() => {
  vi.useRealTimers();
});

it("the times of calls follow the system's clock when it is set, and keep their distances", async () => {
  vi.useFakeTimers({ toFake: ["Date", "performance"] });
  // Loaded anew: other tests of this worker have used it with the real clock.
  vi.resetModules();
  const { toEpoch } = await import("./time.ts");
  const now = () => toEpoch(performance.now());
  vi.advanceTimersByTime(5_000);
  expect(Math.abs(now() - Date.now())).toBeLessThanOrEqual(100);
  for (const jump of [3_600_000, -3_600_000]) {
    const begun = performance.now();
    vi.setSystemTime(Date.now() + jump);
    vi.advanceTimersByTime(2_000);
    expect(Math.abs(now() - Date.now())).toBeLessThanOrEqual(100);
    expect(now() - toEpoch(begun)).toBe(2_000);
  }
});
