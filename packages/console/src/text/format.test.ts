import { expect, it } from "vitest";
import { formatDuration } from "./format.ts";

it.each([
  [0, "<0.1 ms"],
  [0.04, "<0.1 ms"],
  [0.06, "0.1 ms"],
  [12.4, "12 ms"],
  [3_400, "3.4 sec"],
])("says how long %d milliseconds are", (milliseconds, text) => {
  expect(formatDuration(milliseconds, "en")).toBe(text);
});
