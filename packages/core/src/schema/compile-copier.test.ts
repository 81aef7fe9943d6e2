import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compileCopier, copyPlain } from "./copy.ts";

const schema = {
  type: "object",
  properties: {
    id: { type: "string" },
    'odd "key"': { type: "number" },
    nested: { type: "object", properties: { a: {}, b: { type: "string" } }, required: ["b"] },
    list: {
      type: "array",
      items: { type: "object", properties: { n: { type: "number" } }, required: ["n"] },
    },
    words: { type: "array", items: { type: "string" } },
    open: {},
  },
  required: ["id"],
};

const value = fc.record(
  {
    id: fc.option(fc.string(), { nil: undefined }),
    'odd "key"': fc.integer(),
    nested: fc.oneof(fc.record({ a: fc.jsonValue(), b: fc.string() }, { requiredKeys: [] }), fc.jsonValue()),
    list: fc.oneof(fc.array(fc.oneof(fc.record({ n: fc.integer() }), fc.jsonValue())), fc.jsonValue()),
    words: fc.oneof(fc.array(fc.oneof(fc.string(), fc.constant({ not: "a word" }))), fc.constant(null)),
    open: fc.jsonValue(),
    extra: fc.jsonValue(),
  },
  { requiredKeys: [] },
);

describe("compileCopier", () => {
  const copy = compileCopier(schema);

  it("gives what the general copy gives, for values that fit and values that do not", () => {
    fc.assert(
      fc.property(value, (candidate) => {
        expect(copy(candidate)).toEqual(copyPlain(candidate));
      }),
      { numRuns: 1_000 },
    );
  });

  it("takes no member from an object that the value inherits from", () => {
    const inheriting = Object.assign(Object.create({ id: "inherited", nested: { b: "x" } }), { open: 1 });
    expect(copy(inheriting)).toEqual({ open: 1 });
    expect(copy({ id: "own", nested: Object.create({ b: "inherited" }) })).toEqual({ id: "own", nested: {} });
  });

  it("shares no object or array with the value", () => {
    const original = {
      id: "a",
      nested: { b: "x", a: { deep: [1] } },
      list: [{ n: 1 }],
      open: { y: [1] },
      words: ["w"],
    };
    const copied = copy(original) as typeof original;
    copied.nested.a.deep.push(2);
    copied.list[0]!.n = 2;
    copied.open.y.push(2);
    copied.words.push("v");
    expect(original).toEqual({
      id: "a",
      nested: { b: "x", a: { deep: [1] } },
      list: [{ n: 1 }],
      open: { y: [1] },
      words: ["w"],
    });
  });

  it("drops __proto__ keys at every depth", () => {
    const hostile = JSON.parse(
      '{"id":"a","__proto__":{"x":1},"nested":{"b":"c","__proto__":{"x":1}},"open":{"__proto__":{"x":1}}}',
    );
    const copied = copy(hostile) as Record<string, object>;
    expect(JSON.stringify(copied)).toBe('{"id":"a","nested":{"b":"c"},"open":{}}');
    expect(Object.getPrototypeOf(copied)).toBe(Object.prototype);
  });

  it("takes class instances, other prototypes and what is no object", () => {
    class Point {
      id = "p";
    }
    expect(copy(new Point())).toEqual({ id: "p" });
    expect(copy(Object.assign(Object.create(null), { id: "n" }))).toEqual({ id: "n" });
    expect(copy("text")).toBe("text");
    expect(copy(null)).toBe(null);
    expect(copy([1])).toEqual([1]);
  });

  it("leaves a schema that spells nothing out to the general copy", () => {
    expect(compileCopier({ type: "object" })).toBe(copyPlain);
    expect(compileCopier({ type: "object", properties: {} })).toBe(copyPlain);
    expect(compileCopier({ $ref: "#/$defs/a" })).toBe(copyPlain);
    expect(compileCopier({ properties: { toString: {} } })).toBe(copyPlain);
  });
});
