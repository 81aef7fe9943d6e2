// @vitest-environment happy-dom
import { beforeAll, expect, it } from "vitest";
import type { Schedule } from "../../api/index.ts";
import { setLanguage } from "../../text/index.ts";
import { describeTiming, timingOf } from "./timing.ts";

beforeAll(() => setLanguage("en", { remember: false }));

const draft = { at: "", amount: "5", unit: "m", cron: " 0 9 * * 1-5 ", zone: "Asia/Tokyo" } as const;

it("sends only what the chosen kind of time needs", () => {
  expect(timingOf({ ...draft, kind: "delay" })).toEqual({ delaySeconds: 300 });
  expect(timingOf({ ...draft, kind: "interval" })).toEqual({ interval: "every@5m" });
  expect(timingOf({ ...draft, kind: "cron" })).toEqual({ cron: "0 9 * * 1-5", timeZone: "Asia/Tokyo" });
  const once = timingOf({ ...draft, kind: "once", at: "2026-05-01T08:00" });
  expect(Date.parse(once?.time ?? "")).toBe(new Date("2026-05-01T08:00").getTime());
});

it("asks nothing of the server while something is missing", () => {
  expect(timingOf({ ...draft, kind: "once" })).toBeUndefined();
  expect(timingOf({ ...draft, kind: "delay", amount: "" })).toBeUndefined();
  expect(timingOf({ ...draft, kind: "interval", amount: "0" })).toBeUndefined();
  expect(timingOf({ ...draft, kind: "cron", cron: " " })).toBeUndefined();
});

it("says when a schedule runs", () => {
  const schedule: Schedule = {
    id: "1",
    toolName: "t",
    toolArgs: {},
    state: "active",
    runs: 0,
    missed: "skip",
  };
  expect(describeTiming({ ...schedule, interval: "every@2h" })).toBe("Every 2 hours");
  expect(describeTiming({ ...schedule, cron: "0 9 * * *", timeZone: "UTC" })).toBe("0 9 * * * (UTC)");
  expect(describeTiming({ ...schedule, time: "2026-05-01T08:00:00Z" })).toMatch(/^Once, May 1, 2026/);
});
