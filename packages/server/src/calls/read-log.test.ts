import { describe, expect, it } from "vitest";
import type { LogLine } from "./log.ts";
import { matcher } from "./log-reader.ts";

const line = (tool: string) =>
  ({ ts: "2026-03-15T02:29:40.000Z", tool, caller: "cli", args: {}, stat: "success", cost: 1 }) as LogLine; // The code under test reads only these members.

describe("looking for tools in the log", () => {
  it.each([
    ["weather", "Weather", true],
    ["internal_file_*", "internal_file_read", true],
    ["internal_file_*", "internal_code_search", false],
    ["/^internal_(file|code)_/", "internal_code_search", true],
    ["/FILE/i", "internal_file_read", true],
    ["/FILE/", "internal_file_read", false],
    ["/", "weather", false],
  ])("%s and %s: %s", async (tool, name, fits) => {
    expect((await matcher({ tool }))(line(name))).toBe(fits);
  });

  it("says what is no regular expression", async () => {
    await expect(matcher({ tool: "/(/" })).rejects.toThrow("The pattern /(/ is not a regular expression");
  });

  it.each(["/^((\\w|\\w)+)+!/", "/^(\\w|\\w|\\w|\\w|\\w|\\w)+!/", "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b"])(
    "with %s holds nobody up",
    async (tool) => {
      const fits = await matcher({ tool });
      for (const length of [16, 24, 64, 2_000]) expect(fits(line("a".repeat(length)))).toBe(false);
    },
  );
});
