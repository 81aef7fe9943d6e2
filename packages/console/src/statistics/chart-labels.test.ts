import { expect, it } from "vitest";
import { momentLabels } from "./chart-labels.ts";

const midnight = Date.UTC(2026, 10, 15) / 1_000;

it("labels hours in the language of the page, and midnight with the day", () => {
  const moments = [midnight - 3_600, midnight, midnight + 57_600];
  expect(momentLabels(moments, "en", "UTC")).toEqual(["23:00", "Nov 15", "16:00"]);
  expect(momentLabels(moments, "zh-CN", "UTC")).toEqual(["23:00", "11月15日", "16:00"]);
});

it("labels days where they are days apart", () => {
  expect(momentLabels([midnight + 60, midnight + 86_460], "zh-CN", "UTC")).toEqual(["11月15日", "11月16日"]);
});
