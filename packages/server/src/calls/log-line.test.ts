import { expect, test } from "vitest";
import { isoTime } from "./log.ts";

test("a time is written as a date writes itself, whatever time was written before", () => {
  const times = [
    0, 999, 1_000, 1_763_222_400_000, 1_763_222_400_007, 1_763_222_399_999.9, 1_763_222_400_070, -1,
  ];
  for (const time of [...times, ...times.toReversed()]) {
    expect(isoTime(time)).toBe(new Date(time < 0 ? Math.floor(time) : time).toISOString());
  }
});
