import { describe, expect, it } from "vitest";
import { describeTiming, nextRunAt, parseTiming } from "./schedule-timing.ts";

const now = Date.UTC(2026, 2, 1, 12, 0, 0);
const first = (wish: Parameters<typeof parseTiming>[0]) => {
  const timing = parseTiming(wish, now);
  return new Date(nextRunAt(timing, timing.kind === "once" ? now - 1 : now, now)!).toISOString();
};

describe("the first run", () => {
  it.each<[Parameters<typeof parseTiming>[0], string]>([
    [{ delaySeconds: 90 }, "2026-03-01T12:01:30.000Z"],
    [{ delaySeconds: 0 }, "2026-03-01T12:00:00.000Z"],
    [{ delaySeconds: 40 * 86_400 }, "2026-04-10T12:00:00.000Z"],
    [{ time: "2026-03-15T09:30:00+08:00" }, "2026-03-15T01:30:00.000Z"],
    [{ time: "2026-03-15T09:30:00+0800" }, "2026-03-15T01:30:00.000Z"],
    [{ time: "2026-03-15 09:30:00", timeZone: "Asia/Shanghai" }, "2026-03-15T01:30:00.000Z"],
    [{ time: "2026/3/15 9:30", timeZone: "UTC" }, "2026-03-15T09:30:00.000Z"],
    [{ time: "2026-07-01", timeZone: "Europe/Berlin" }, "2026-06-30T22:00:00.000Z"],
    [{ time: "2026-03-15T09:30:00.250+08:00" }, "2026-03-15T01:30:00.250Z"],
    [{ time: "2026-03-15 09:30:00.7", timeZone: "Asia/Shanghai" }, "2026-03-15T01:30:00.700Z"],
    [{ time: "2026-03-01T12:00:00.001", timeZone: "UTC" }, "2026-03-01T12:00:00.001Z"],
    [{ interval: "every@5m" }, "2026-03-01T12:05:00.000Z"],
    [{ time: "every@30s" }, "2026-03-01T12:00:30.000Z"],
    [{ interval: "2d" }, "2026-03-03T12:00:00.000Z"],
    [{ cron: "0 9 * * 1", timeZone: "Asia/Tokyo" }, "2026-03-02T00:00:00.000Z"],
    [{ cron: "*/10 * * * * *", timeZone: "UTC" }, "2026-03-01T12:00:10.000Z"],
  ])("of %j is at %s", (wish, expected) => expect(first(wish)).toBe(expected));
});

describe("the run after", () => {
  it("of an interval keeps its beat, however late the last one was, and however many were missed", () => {
    const timing = parseTiming({ interval: "every@5m" }, now);
    const minute = 60_000;
    expect(nextRunAt(timing, now, now + 3_000)).toBe(now + 5 * minute);
    expect(nextRunAt(timing, now, now + 5 * minute)).toBe(now + 10 * minute);
    expect(nextRunAt(timing, now, now + 23 * minute)).toBe(now + 25 * minute);
  });

  it("of a cron expression follows the zone's clock over the change to summer time", () => {
    const timing = parseTiming({ cron: "0 9 * * *", timeZone: "Europe/Berlin" }, now);
    const before = Date.UTC(2026, 2, 28, 8);
    expect(new Date(nextRunAt(timing, before, before)!).toISOString()).toBe("2026-03-29T07:00:00.000Z");
  });

  it("of one that ran once is none", () => {
    const timing = parseTiming({ delaySeconds: 5 }, now);
    expect(nextRunAt(timing, now + 5_000, now + 5_001)).toBeUndefined();
  });
});

describe("what cannot be understood", () => {
  it.each<[Parameters<typeof parseTiming>[0], string]>([
    [{}, "exactly one of"],
    [{ delaySeconds: 1, cron: "* * * * *" }, "delaySeconds and cron"],
    [{ time: "tomorrow" }, "is no time"],
    [{ time: "2026-02-30 10:00:00" }, "is no time"],
    [{ time: "2026-13-01 10:00:00" }, "is no time"],
    [{ time: "2020-01-01 10:00:00" }, "is over"],
    [{ time: "2020-01-01T10:00:00Z" }, "is over"],
    [{ delaySeconds: 1e18 }, "after the year 9998"],
    [{ interval: "every@0s" }, "is no interval"],
    [{ interval: "every@1.5m" }, "is no interval"],
    [{ interval: "hourly" }, "is no interval"],
    [{ cron: "61 * * * *" }, "is no cron expression"],
    [{ cron: "0 0 30 2 *" }, "No time ever fits"],
    [{ cron: "0 9 * * *", timeZone: "Mars/Base" }, "is no time zone"],
  ])("%j is refused", (wish, message) => expect(() => parseTiming(wish, now)).toThrow(message));
});

it("is described as it can be given again", () => {
  const shown = (wish: Parameters<typeof parseTiming>[0]) => describeTiming(parseTiming(wish, now));
  expect(shown({ interval: "every@90s" })).toEqual({ interval: "every@90s" });
  expect(shown({ interval: "every@120m" })).toEqual({ interval: "every@2h" });
  expect(shown({ cron: "@daily", timeZone: "UTC" })).toEqual({ cron: "@daily", timeZone: "UTC" });
  expect(shown({ delaySeconds: 60 })).toEqual({ time: "2026-03-01T12:01:00.000Z" });
});
