import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalJson } from "./hash.ts";

describe("canonicalJson", () => {
  it("is JSON of the same value", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
        expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  it("does not depend on the order of keys, at any depth", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
        expect(canonicalJson(reversed(value))).toBe(canonicalJson(value));
      }),
    );
  });

  it("differs where values differ", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (left, right) => {
        const areEqual = JSON.stringify(sorted(left)) === JSON.stringify(sorted(right));
        expect(canonicalJson(left) === canonicalJson(right)).toBe(areEqual);
      }),
    );
  });

  it("orders keys by UTF-16 code units and writes numbers as RFC 8785 does", () => {
    const value = { "\u20ac": 1, "\r": 2, "\u{1f600}": 3, "\ufb33": 4, 1: 5, "10": 6, "2": 7 };
    expect(canonicalJson(value)).toBe('{"\\r":2,"1":5,"10":6,"2":7,"€":1,"😀":3,"\ufb33":4}');
    expect(canonicalJson([333333333.3333333, 1e30, 4.5, 2e-3, 1e-27, -0])).toBe(
      "[333333333.3333333,1e+30,4.5,0.002,1e-27,0]",
    );
    const many = Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`k${39 - index}`, index]));
    expect(Object.keys(JSON.parse(canonicalJson(many)))).toEqual(Object.keys(many).sort());
  });

  it("leaves out what JSON leaves out, and writes a BigInt as its digits", () => {
    expect(
      canonicalJson({ b: undefined, a: 1n, c: () => 1, d: [undefined, Symbol("x")], e: Number.NaN }),
    ).toBe('{"a":"1","d":[null,null],"e":null}');
    expect(canonicalJson(undefined)).toBe("null");
    expect(canonicalJson(new Date(0))).toBe('"1970-01-01T00:00:00.000Z"');
  });

  it("marks circular, too deep and unreadable parts instead of throwing", () => {
    const circular: Record<string, unknown> = { b: 1 };
    circular.a = { again: circular };
    expect(canonicalJson(circular)).toBe('{"a":{"again":"[circular]"},"b":1}');

    let deep: unknown = 1;
    for (let level = 0; level < 100_000; level++) deep = [deep];
    expect(canonicalJson(deep)).toContain('"[too deep]"');

    const throwing = {
      fine: 1,
      bad: {
        get x() {
          throw new Error("no");
        },
      },
      last: { y: 2 },
    };
    expect(canonicalJson(throwing)).toBe('{"bad":"[unreadable]","fine":1,"last":{"y":2}}');
  });

  it("writes a part that appears twice both times", () => {
    const shared = { x: 1 };
    expect(canonicalJson([shared, shared])).toBe('[{"x":1},{"x":1}]');
  });
});

function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed);
  if (typeof value !== "object" || value === null) return value;
  return fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, member]) => [key, reversed(member)]),
  );
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1));
  return fromEntries(entries.map(([key, member]) => [key, sorted(member)]));
}

/** Keeps a key named `__proto__`, as `JSON.parse` does. */
function fromEntries(entries: [string, unknown][]): unknown {
  return Object.fromEntries(entries);
}
