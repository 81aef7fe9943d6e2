import { expect, it } from "vitest";
import { shellQuote } from "../../helpers/values.ts";
import { formatDuration, parseDuration } from "./duration.ts";
import { oneLine, printable } from "./printable.ts";

it("shows what a terminal would obey, and leaves lines and tabs", () => {
  expect(printable("a\u001b[2Jb\tc\r\nd\u202ee\u009b1m")).toBe("a\\u001b[2Jb\tc\nd\\u202ee\\u009b1m");
  expect(oneLine("  two\n lines\t")).toBe("two lines");
});

it("quotes words for a shell only where they need it", () => {
  expect(shellQuote("path=src/a.ts")).toBe("path=src/a.ts");
  expect(shellQuote("it's $HOME")).toBe("'it'\\''s $HOME'");
});

it("reads durations with a unit and refuses those without", () => {
  expect(["500ms", "30s", "1.5m", "2h", "7d"].map((text) => parseDuration(text, "--timeout"))).toEqual([
    500, 30_000, 90_000, 7_200_000, 604_800_000,
  ]);
  expect(() => parseDuration("30", "--timeout")).toThrow('--timeout "30" is no duration');
  expect([3.15159, 250.4, 1500, 61_000].map(formatDuration)).toEqual([
    "3.2 ms",
    "250 ms",
    "1.5 s",
    "1 min 1 s",
  ]);
});
