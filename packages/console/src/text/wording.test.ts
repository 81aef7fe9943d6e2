import fc from "fast-check";
import { expect, it } from "vitest";
import { lineDiff, localMoment, programLine, withOffset } from "./wording.ts";

it("starts the very program that serves the console, for its workspace", () => {
  const server = { program: ["/opt/my node", "main.ts"], workspace: "/home/ada/rack" };
  expect(programLine(server, "call", "NAME")).toBe("'/opt/my node' main.ts call NAME --dir /home/ada/rack");
  expect(programLine(undefined, "call", "NAME")).toBe("toolrack call NAME");
});

it("gives a date-time picker the local time, and takes the same moment back", () => {
  for (const moment of ["2026-03-15T09:30:00Z", "2026-07-15T23:59:59+08:00"]) {
    const local = localMoment(moment);
    expect(local).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/);
    expect(Date.parse(withOffset(local))).toBe(Date.parse(moment));
  }
  expect(withOffset("2026-03-15T09:30")).toMatch(/^2026-03-15T09:30:00(Z|[+-]\d\d:\d\d)$/);
  expect(localMoment("tomorrow")).toBe("");
});

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
