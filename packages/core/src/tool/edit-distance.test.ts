import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { editDistance } from "./name.ts";

describe("editDistance", () => {
  it("agrees with the plain distance up to the limit, and only exceeds it beyond", () => {
    const word = fc.string({ unit: fc.constantFrom("a", "b", "c", "_"), maxLength: 14 });
    fc.assert(
      fc.property(word, word, fc.integer({ min: 0, max: 6 }), (a, b, allowed) => {
        expect(editDistance(a, b, allowed)).toBe(Math.min(levenshtein(a, b), allowed + 1));
      }),
    );
  });

  it("does little work for long names that differ in few places", () => {
    const tally = { cells: 0 };
    const stem = "mcp_server_with_a_long_key_search_documents_";
    for (let index = 0; index < 1000; index++) editDistance(`${stem}4711x`, `${stem}${index}`, 4, tally);
    expect(tally.cells / 1000).toBeLessThan(20);
  });

  it("does no more work than its band for names that differ everywhere", () => {
    const tally = { cells: 0 };
    editDistance("ab".repeat(64), "ba".repeat(64), 4, tally);
    expect(tally.cells).toBeLessThanOrEqual(128 * 9);
    const hopeless = { cells: 0 };
    editDistance("a".repeat(128), "b".repeat(128), 4, hopeless);
    expect(hopeless.cells).toBeLessThanOrEqual(9 * 9);
  });
});

function levenshtein(a: string, b: string): number {
  let rowBefore: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swap = isSwapped ? [rowBefore[j - 2]! + 1] : [];
      const replace = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, replace, ...swap));
    }
    rowBefore = row;
    row = next;
  }
  return row[b.length]!;
}
