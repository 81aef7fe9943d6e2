import { expect, it } from "vitest";
import type { CallLine } from "../api/types.ts";
import { foldLines, logAsText } from "./call-log.ts";

const lines = (count: number): CallLine[] =>
  Array.from({ length: count }, (_, at) => ({ at, level: "info", text: `line ${at}` }));

it("shows the beginning and the end of a long log, and all of it to whoever asks", () => {
  const { lines: shown, at, hidden } = foldLines(lines(100), false);
  expect([shown.length, at, hidden]).toEqual([40, 20, 60]);
  expect([shown[19]?.text, shown[20]?.text, shown[39]?.text]).toEqual(["line 19", "line 80", "line 99"]);
  expect(foldLines(lines(100), true)).toEqual({ lines: lines(100), at: -1, hidden: 0 });
});

it("does not fold what is hardly longer", () => {
  expect(foldLines(lines(44), false)).toMatchObject({ at: -1, hidden: 0 });
  expect(foldLines(lines(45), false)).toMatchObject({ at: 20, hidden: 5 });
});

it("is copied whole, a line each", () => {
  expect(logAsText(lines(2))).toBe(
    "1970-01-01T00:00:00.000Z info line 0\n1970-01-01T00:00:00.001Z info line 1",
  );
});
