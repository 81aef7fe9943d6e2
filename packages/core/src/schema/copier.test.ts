import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compileCopier, compileLooker, copyPlain, wasLarge, withoutPrototypeKeys } from "./copy.ts";
import { JsonSchemaValidator } from "./json-schema-validator.ts";

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

describe("a generated copier", () => {
  const copy = compileCopier(schema)!;

  it("gives what the general copy gives, or leaves the value to it", () => {
    let copied = 0;
    fc.assert(
      fc.property(value, (candidate) => {
        const made = copy(candidate);
        if (made === undefined) return;
        copied++;
        expect(made).toEqual(copyPlain(candidate));
        expect(Object.keys(made ?? {})).toHaveLength(Object.keys(candidate).length);
      }),
      { numRuns: 1_000 },
    );
    expect(copied).toBeGreaterThan(20);
  });

  it("leaves values with unlisted, missing or inherited keys, and what is no object, to the general copy", () => {
    const inheriting = Object.assign(Object.create({ id: "inherited" }), { open: 1 });
    class Instance {
      id = "p";
    }
    const others = [
      { id: "a", extra: 1 },
      { open: 1 },
      { id: undefined },
      inheriting,
      new Instance(),
      [1],
      "a",
      null,
    ];
    for (const other of others) expect(copy(other)).toBe(undefined);
    expect(copy({ id: "own", nested: Object.create({ b: "inherited" }) })).toEqual({ id: "own", nested: {} });
  });

  it("shares no object or array with the value", () => {
    const make = () => ({
      id: "a",
      nested: { b: "x", a: { deep: [1] } },
      list: [{ n: 1 }],
      open: { y: [1] },
      words: ["w"],
    });
    const original = make();
    const copied = copy(original) as typeof original;
    copied.nested.a.deep.push(2);
    copied.list[0]!.n = 2;
    copied.open.y.push(2);
    copied.words.push("v");
    expect(original).toEqual(make());
  });

  it("drops __proto__ keys and undefined members inside the value", () => {
    const hostile = JSON.parse(
      '{"id":"a","nested":{"b":"c","__proto__":{"x":1}},"open":{"__proto__":{"x":1}}}',
    );
    const copied = copy({ ...hostile, list: [{ n: undefined }] }) as object;
    expect(JSON.stringify(copied)).toBe('{"id":"a","nested":{"b":"c"},"list":[{}],"open":{}}');
    expect(copy(JSON.parse('{"id":"a","__proto__":{"x":1}}'))).toBe(undefined);
  });

  it("is not made for a schema that lists no keys, or keys that every object has", () => {
    expect(compileCopier({ type: "object" })).toBe(undefined);
    expect(compileCopier({ type: "object", properties: {} })).toBe(undefined);
    expect(compileCopier({ $ref: "#/$defs/a" })).toBe(undefined);
    expect(compileCopier({ properties: { toString: {} } })).toBe(undefined);
  });

  it("counts members, so that a part that is shared many times over is refused with its place", async () => {
    let items: Record<string, unknown> = { type: "string" };
    let shared: unknown[] = Array.from({ length: 100 }, () => "x");
    for (let level = 0; level < 6; level++) {
      items = { type: "array", items };
      shared = Array.from({ length: 100 }, () => shared);
    }
    const validator = new JsonSchemaValidator({ type: "object", properties: { items }, required: ["items"] });
    expect(await validator.validate({ items: shared })).toMatchObject({
      ok: false,
      issues: [{ expected: "at most 1,000,000 members in all" }],
    });
    const circular: unknown[] = [];
    circular.push(circular);
    expect(await validator.validate({ items: circular })).toMatchObject({
      ok: false,
      issues: [{ path: "items[0]", received: "a circular reference" }],
    });
  });

  it("tells whether the value is large, as the general copy does", () => {
    const isLarge = (given: object) => {
      copyPlain(given);
      const general = wasLarge();
      expect(copy(given)).toBeDefined();
      expect(wasLarge()).toBe(general);
      return general;
    };
    expect(isLarge({ id: "x".repeat(99_000), words: ["a"] })).toBe(false);
    expect(isLarge({ id: "x".repeat(99_000), words: ["x".repeat(2_000)] })).toBe(true);
    expect(isLarge({ id: "x", list: Array.from({ length: 600 }, (_, n) => ({ n })) })).toBe(true);
    expect(isLarge({ id: "x", open: { deep: { deeper: { deepest: "x".repeat(100_001) } } } })).toBe(true);
  });
});

describe("a generated looker", () => {
  const looker = compileLooker(schema)!;
  const look = (given: unknown) => looker(given) !== undefined;

  it("passes only values that the general look leaves as they are, and counts them alike", () => {
    let passed = 0;
    fc.assert(
      fc.property(value, (candidate) => {
        if (!look(candidate)) return;
        passed++;
        const isLarge = wasLarge();
        expect(withoutPrototypeKeys(candidate)).toBe(candidate);
        expect(wasLarge()).toBe(isLarge);
      }),
      { numRuns: 1_000 },
    );
    expect(passed).toBeGreaterThan(20);
  });

  it("passes no value with a __proto__ key, at any depth, or with an unlisted key", () => {
    for (const hostile of [
      '{"id":"a","__proto__":{"x":1}}',
      '{"id":"a","nested":{"b":"c","__proto__":{"x":1}}}',
      '{"id":"a","list":[{"n":1},{"n":{"__proto__":{"x":1}}}]}',
      '{"id":"a","open":[{"deep":{"__proto__":{"x":1}}}]}',
      '{"id":"a","extra":1}',
      "[1]",
      "null",
    ])
      expect([hostile, look(JSON.parse(hostile))]).toEqual([hostile, false]);
    const circular: Record<string, unknown> = { id: "a" };
    circular.open = circular;
    expect(look(circular)).toBe(false);
  });

  it("does not enter instances of classes, which a validator may want as they are", () => {
    class Secretive {
      get member(): never {
        throw new Error("read");
      }
    }
    expect(look({ id: "a", open: new Date(0), nested: new Secretive(), list: [new Map()] })).toBe(true);
    expect(look(new Secretive())).toBe(false);
  });

  it("tells whether a value is large", () => {
    expect(look({ id: "x".repeat(99_000), words: ["x".repeat(2_000)] }) && wasLarge()).toBe(true);
    expect(look({ id: "a", list: Array.from({ length: 600 }, (_, n) => ({ n })) }) && wasLarge()).toBe(true);
    expect(look({ id: "x", words: ["a"] }) && wasLarge()).toBe(false);
  });
});
