// @vitest-environment happy-dom
import { expect, it } from "vitest";
import { formatCost, formatDuration, momentLabels } from "./format.ts";
import { setLanguage } from "./i18n.ts";

it.each([
  [0, "<0.1 ms"],
  [0.04, "<0.1 ms"],
  [0.06, "0.1 ms"],
  [12.4, "12 ms"],
  [3_400, "3.4 sec"],
])("says how long %d milliseconds are", async (milliseconds, text) => {
  await setLanguage("en", { remember: false });
  expect(formatDuration(milliseconds)).toBe(text);
});

it("says what models cost, also where it is a fraction of a cent", async () => {
  await setLanguage("en", { remember: false });
  expect([0, 0.015644, 0.18, 12.3].map(formatCost)).toEqual(["0", "0.0156", "0.18", "12.30"]);
});

const midnight = Date.UTC(2026, 10, 15) / 1_000;

it("labels hours in the language of the page, and midnight with the day", async () => {
  const moments = [midnight - 3_600, midnight, midnight + 57_600];
  await setLanguage("en", { remember: false });
  expect(momentLabels(moments, "UTC")).toEqual(["23:00", "Nov 15", "16:00"]);
  await setLanguage("zh-CN", { remember: false });
  expect(momentLabels(moments, "UTC")).toEqual(["23:00", "11月15日", "16:00"]);
});

it("labels days where they are days apart", async () => {
  await setLanguage("zh-CN", { remember: false });
  expect(momentLabels([midnight + 60, midnight + 86_460], "UTC")).toEqual(["11月15日", "11月16日"]);
});
