import { expect, it } from "vitest";
import { codeFrame } from "./compile.ts";

const source = Array.from({ length: 12 }, (_, index) => `line ${index + 1}`).join("\n");

it("shows the lines around the place, and points at it", () => {
  expect(codeFrame(source, 10, 5)).toBe(
    [
      "   8 | line 8",
      "   9 | line 9",
      "> 10 | line 10",
      "     |      ^",
      "  11 | line 11",
      "  12 | line 12",
    ].join("\n"),
  );
});

it("stays within the text, and points at a line when no column is known", () => {
  expect(codeFrame(source, 1)).toBe("> 1 | line 1\n  2 | line 2\n  3 | line 3");
  expect(codeFrame("a\r\nb", 2, 1)).toBe("  1 | a\n> 2 | b\n    |  ^");
  expect(codeFrame(source, 13)).toBeUndefined();
  expect(codeFrame(source, 0)).toBeUndefined();
});

it("keeps tabs before the caret, and cuts long lines", () => {
  expect(codeFrame("\tx = ;", 1, 5)).toBe("> 1 | \tx = ;\n    | \t    ^");
  const frame = codeFrame(`${"y".repeat(5_000)};`, 1, 4_000)!;
  expect(frame.length).toBeLessThan(200);
  expect(frame).not.toContain("^");
});
