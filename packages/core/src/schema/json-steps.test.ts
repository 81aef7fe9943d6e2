import { describe, expect, it } from "vitest";
import { isLarge, safeJsonSteps } from "./json.ts";

function inSteps(value: unknown) {
  const steps = safeJsonSteps(value);
  for (let count = 1; ; count++) {
    const next = steps.next();
    if (next.done) return { count, ...next.value };
  }
}

const text = 'a "text" with \\ and \n and 南京 and 😀 and \ud800 alone. ';
const long = text.repeat(60_000);
const rows = Array.from({ length: 50_000 }, (_, n) => ({ n, text, nested: { list: [n, null, undefined] } }));

describe("JSON in steps", () => {
  it.each<[string, unknown]>([
    ["a list", rows],
    ["a list in an object", { before: 1, rows, nothing: undefined, after: () => 1, last: Number.NaN }],
    ["a text", long],
    ["texts in a list", ["a", long, "b", long]],
    ["many members", Object.fromEntries(rows.map((row) => [`key "${row.n}"`, row]))],
    ["a few large members among many", [...rows.slice(0, 9), rows, ...rows.slice(0, 9)]],
    ["a list with holes", Object.assign([...rows], { 60000: "far" })],
    ["members that say what their JSON is", [...rows, ...rows].map(({ n }) => new Date(n))],
    [
      "an instance of a class",
      new (class Rows {
        rows = rows;
        get not() {
          return 1;
        }
      })(),
    ],
    ["nested lists", [[[[rows]]], { a: { b: { c: rows } } }]],
  ])("of %s is what JSON.stringify makes, in many", (_, value) => {
    const made = inSteps(value);
    expect(made.text === JSON.stringify(value)).toBe(true);
    expect(made.value).toBe(value);
    expect(made.count).toBeGreaterThan(5);
  });

  it.each<[string, unknown]>([
    [
      "circular",
      (() => {
        const value = { rows, self: {} };
        value.self = value;
        return value;
      })(),
    ],
    ["too large a number", { rows, big: 1n }],
  ])("replaces what JSON cannot hold: %s", (_, value) => {
    const { text: made, value: plain } = inSteps(value);
    expect(JSON.stringify(plain) === made).toBe(true);
    expect(JSON.parse(made).rows).toHaveLength(50_000);
  });

  it("knows a large value by a few of its members", () => {
    const sizes = [
      ...[undefined, null, 5, "short", {}, [], { a: [1, 2, { b: text }] }].map((value) => [value, false]),
      ...[rows, { rows }, long, { a: { b: [long] } }, new Uint8Array(2_000_000), new Set(rows)].map(
        (value) => [value, true],
      ),
    ] as const;
    for (const [value, expected] of sizes) expect(isLarge(value)).toBe(expected);
    const unreadable = Object.defineProperty({}, "x", {
      enumerable: true,
      get: () => {
        throw new Error("no");
      },
    });
    expect(isLarge(unreadable)).toBe(false);
  });
});
