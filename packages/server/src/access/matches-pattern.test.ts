import { expect, it } from "vitest";
import { cpuTime } from "../../../../scripts/cpu-time.ts";
import { matchesPattern } from "../config/tool-patterns.ts";

it.each([
  ["*", "anything", true],
  ["*", "", true],
  ["add", "add", true],
  ["ADD", "add", true],
  ["add", "address", false],
  ["file_*", "file_read", true],
  ["file_*", "file_", true],
  ["file_*", "profile_read", false],
  ["*_read", "internal_file_read", true],
  ["a*b*c", "a-b-b-c", true],
  ["a*b*c", "a-c-b", false],
  ["fil?", "file", true],
  ["fil?", "fil", false],
  ["", "x", false],
  ["a.c", "abc", false],
  ["[a-z]", "b", false],
])("%s fits %s: %s", (pattern, name, fits) => {
  expect(matchesPattern(pattern, name)).toBe(fits);
});

it("takes no time over patterns that are made to take long", () => {
  const took = cpuTime(() => {
    expect(matchesPattern("*a".repeat(30), `${"a".repeat(5_000)}b`)).toBe(false);
  });
  expect(took).toBeLessThan(500);
});
