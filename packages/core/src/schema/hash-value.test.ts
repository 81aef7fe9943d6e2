import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { testDepth } from "../../../../scripts/test-depth.ts";
import { hashValue } from "./hash.ts";

function shuffled(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shuffled);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, member]) => [key, shuffled(member)]),
  );
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1));
  return Object.fromEntries(entries.map(([key, member]) => [key, sorted(member)]));
}

describe("hashValue", () => {
  it("is the same for the same value in any order of keys", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(hashValue(shuffled(value))).toBe(hashValue(value));
        expect(hashValue(JSON.parse(JSON.stringify(value)))).toBe(hashValue(value));
      }),
    );
  });

  it("differs where values differ", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (one, other) => {
        const areEqual = JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
        expect(hashValue(one) === hashValue(other)).toBe(areEqual);
      }),
      { numRuns: 2_000 },
    );
  });

  it("tells near values apart", () => {
    const values = [
      {},
      [],
      null,
      "",
      0,
      false,
      { a: {} },
      { a: [] },
      { a: null },
      { a: 1, b: 2 },
      { a: 2, b: 1 },
      { ab: 1 },
      { a: { b: 1 } },
      { b: { a: 1 } },
      [1, 2],
      [2, 1],
      [[1], 2],
      [[1, 2]],
      ["1", 2],
      "12",
      12,
      { a: "1" },
      { a: 1 },
      [{ a: 1 }, { b: 1 }],
      [{ a: 1, b: 1 }],
      "null",
      "true",
      true,
      1.5,
      -1.5,
      1e300,
      [null],
      [[]],
    ];
    expect(new Set(values.map(hashValue)).size).toBe(values.length);
  });

  it("reads sets and maps, which arguments may hold once they are parsed, by their members", () => {
    const values = [new Set([1]), new Set([2]), new Set(), new Map([["a", 1]]), new Map([["a", 2]])];
    expect(new Set(values.map((value) => hashValue({ value }))).size).toBe(values.length);
    expect(hashValue(new Map([["a", 1]]))).toBe(hashValue([["a", 1]]));
    expect(hashValue(new Map([["a", new Set([1])]]))).toBe(hashValue([["a", [1]]]));
  });

  it("has no collision among a million small differences", () => {
    const count = testDepth(1_000_000, 50_000);
    const seen = new Set<string>();
    for (let index = 0; index < count; index++) seen.add(hashValue({ page: index, query: "same" }));
    expect(seen.size).toBe(count);
  });

  it("takes what JSON cannot hold, circular and deep values included", () => {
    const circular: { self?: unknown } = {};
    circular.self = circular;
    expect(hashValue(circular)).toHaveLength(16);
    let deep: unknown = 1;
    for (let level = 0; level < 100_000; level++) deep = [deep];
    expect(hashValue(deep)).toHaveLength(16);
    expect(hashValue({ a: undefined, b: () => 1 })).toBe(hashValue({}));
    expect(hashValue(12n)).toHaveLength(16);
    expect(hashValue(new Date(0))).toBe(hashValue("1970-01-01T00:00:00.000Z"));
    expect(hashValue(Number.NaN)).toBe(hashValue(null));
  });

  it("reads a circular, too deep or unreadable part as a word that says so, and the rest as it is", () => {
    const circular = (rest: unknown) => {
      const value: Record<string, unknown> = { rest };
      value.a = { again: value, more: value };
      return value;
    };
    expect(hashValue(circular(1))).toBe(hashValue(circular(1)));
    expect(hashValue(circular(1))).not.toBe(hashValue(circular(2)));
    const throwing = (fine: number) => ({
      fine,
      bad: {
        get x() {
          throw new Error("no");
        },
      },
      last: { y: 2 },
    });
    expect(hashValue(throwing(1))).toBe(hashValue({ last: { y: 2 }, fine: 1, bad: "[unreadable]" }));
    expect(hashValue(throwing(1))).not.toBe(hashValue(throwing(2)));
    const shared = { x: 1 };
    expect(hashValue([shared, shared, throwing(1)])).toBe(hashValue([{ x: 1 }, { x: 1 }, throwing(1)]));
  });
});
