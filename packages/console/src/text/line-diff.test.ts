import fc from "fast-check";
import { expect, it } from "vitest";
import { lineDiff } from "./line-diff.ts";

it("shows what was added and removed between what stayed", () => {
  expect(lineDiff("a\nb\nc", "a\nx\nc").map(({ kind, text }) => `${kind} ${text}`)).toEqual([
    "same a",
    "removed b",
    "added x",
    "same c",
  ]);
});

it("holds both texts whole, whatever they are", () => {
  const text = fc
    .array(fc.constantFrom("a", "b", "c", ""), { maxLength: 12 })
    .map((lines) => lines.join("\n"));
  fc.assert(
    fc.property(text, text, (before, after) => {
      const lines = lineDiff(before, after);
      const side = (left: string) =>
        lines
          .filter(({ kind }) => kind === "same" || kind === left)
          .map((line) => line.text)
          .join("\n");
      expect([side("removed"), side("added")]).toEqual([before, after]);
    }),
  );
});
