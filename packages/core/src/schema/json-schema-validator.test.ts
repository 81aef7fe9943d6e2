import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { compileSchema } from "./compile-schema.ts";
import type { SchemaIssue } from "./issue.ts";
import { loadEngine } from "./json-schema-validator.ts";
import type { ValidateOptions } from "./types.ts";

const weather = {
  type: "object",
  properties: {
    city: { type: "string", minLength: 1 },
    days: { type: "integer", minimum: 1, default: 3 },
    options: { type: "object", properties: { unit: { enum: ["C", "F"], default: "C" } } },
  },
  required: ["city"],
};

async function validate(schema: object, value: unknown, options?: ValidateOptions) {
  return compileSchema(schema).validate(value, options);
}

async function issuesOf(
  schema: object,
  value: unknown,
  options?: ValidateOptions,
): Promise<readonly SchemaIssue[]> {
  const outcome = await validate(schema, value, options);
  if (outcome.ok) throw new Error("the value was accepted");
  return outcome.issues;
}

describe("lengths of texts", () => {
  it.each([
    [{ minLength: 2 }, "😀", "😀😀"],
    [{ minLength: 10 }, "😀".repeat(9), "😀".repeat(10)],
    [{ maxLength: 1 }, "😀😀", "😀"],
    [{ minLength: 1, maxLength: 2 }, "😀😀😀", "😀😀"],
    [{ minLength: 1 }, "", "😀"],
    [{ minLength: 1, description: 'a "maxLength"' }, "", "😀"],
  ])("are counted in characters by %j", async (limits, bad, good) => {
    const schema = { type: "object", properties: { text: { type: "string", ...limits } } };
    expect((await validate(schema, { text: bad })).ok).toBe(false);
    expect((await validate(schema, { text: good })).ok).toBe(true);
  });
});

describe("before the engine is loaded", () => {
  it("answers the first value with a promise and later ones at once", async () => {
    const compiled = compileSchema({ ...weather, $schema: "https://json-schema.org/draft/2019-09/schema" });
    const first = compiled.validate({ city: "Oslo" });
    expect(first).toBeInstanceOf(Promise);
    expect(await first).toEqual({ ok: true, value: { city: "Oslo", days: 3 } });
    expect(compiled.validate({ city: "Rome" })).toEqual({ ok: true, value: { city: "Rome", days: 3 } });
  });
});

describe("a JSON Schema", () => {
  beforeAll(async () => {
    await loadEngine();
  });

  it("fills in defaults without touching the value", async () => {
    const value = Object.freeze({ city: "Oslo", options: Object.freeze({}) });
    expect(await validate(weather, value)).toEqual({
      ok: true,
      value: { city: "Oslo", days: 3, options: { unit: "C" } },
    });
    expect(value).toEqual({ city: "Oslo", options: {} });
  });

  it("leaves out a default that its own schema forbids", async () => {
    const properties = {
      a: { type: "string", default: null },
      b: { enum: ["x"], default: "y" },
      c: { type: "string", minLength: 4, default: "bad" },
      d: { type: "number", maximum: 3, default: 4 },
      e: { type: ["string", "null"], default: null },
      f: { type: "number", default: 1 },
    };
    expect(await validate({ type: "object", properties }, {})).toEqual({
      ok: true,
      value: { e: null, f: 1 },
    });
  });

  it("drops unknown keys at the top only, and names them", async () => {
    const value = { city: "Oslo", days: 1, mood: "fine", options: { unit: "F", extra: 1 } };
    expect(await validate(weather, value)).toEqual({
      ok: true,
      value: { city: "Oslo", days: 1, options: { unit: "F", extra: 1 } },
      dropped: ["mood"],
    });
  });

  it("keeps unknown keys when the schema lists none or allows more", async () => {
    expect(await validate({ type: "object" }, { a: 1 })).toEqual({ ok: true, value: { a: 1 } });
    const open = { type: "object", properties: { a: {} }, additionalProperties: true };
    expect(await validate(open, { a: 1, b: 2 })).toEqual({ ok: true, value: { a: 1, b: 2 } });
  });

  it("refuses unknown keys in strict mode, together with everything else that is wrong", async () => {
    const issues = await issuesOf(weather, { ctiy: "Oslo", days: 0 }, { strict: true });
    expect(issues.map((issue) => issue.message)).toEqual([
      "`ctiy` is not a known key; did you mean `city`?",
      "`city` is missing: expected string of at least 1 character.",
      "Expected integer ≥ 1 at `days`, got number 0.",
    ]);
  });

  it("refuses keys that additionalProperties: false forbids, and suggests the nearest", async () => {
    const closed = { type: "object", properties: { file_path: {}, limit: {} }, additionalProperties: false };
    const issues = await issuesOf(closed, { filePath: "x", zzz: 1 });
    expect(issues.map((issue) => issue.message)).toEqual([
      "`filePath` is not a known key; did you mean `file_path`?",
      "`zzz` is not a known key; the keys are `file_path`, `limit`.",
    ]);
  });

  it("drops own __proto__ keys", async () => {
    const outcome = await validate(
      { type: "object" },
      JSON.parse('{"a":{"__proto__":{"x":1}},"__proto__":{"y":1}}'),
    );
    expect(JSON.stringify(outcome)).toBe('{"ok":true,"value":{"a":{}}}');
  });

  it("does not take inherited members for properties", async () => {
    const schema = {
      type: "object",
      properties: { constructor: { type: "number" } },
      required: ["toString"],
    };
    expect((await issuesOf(schema, {})).map((issue) => issue.path)).toEqual(["toString"]);
    expect(await validate(schema, { toString: "x" })).toMatchObject({ ok: true });
  });

  it.each([
    ["a string", "x"],
    ["nothing", undefined],
    ["null", null],
    ["a list", []],
    ["a number", 4],
    ["a BigInt", 4n],
    ["a function", () => 1],
    ["a symbol", Symbol("x")],
  ])("answers %s with an issue", async (_name, value) => {
    const [issue] = await issuesOf(weather, value);
    expect(issue).toMatchObject({ path: "", expected: "object" });
  });

  it("answers circular, endless and unreadable values with an issue", async () => {
    const circular: Record<string, unknown> = { city: "Oslo" };
    circular.options = { self: circular };
    expect((await issuesOf(weather, circular))[0]?.path).toBe("options.self");

    let deep: unknown = {};
    for (let level = 0; level < 100_000; level++) deep = { child: deep };
    expect((await issuesOf({ type: "object" }, deep))[0]?.message).toContain("500 levels");

    const hostile = new Proxy(
      {},
      {
        ownKeys: () => {
          throw new Error("keep out");
        },
      },
    );
    expect((await issuesOf(weather, hostile))[0]?.message).toContain("keep out");
    expect((await issuesOf(weather, { city: 5n, days: () => 1 })).map((issue) => issue.received)).toEqual([
      "bigint 5",
      "function",
    ]);
  });

  it("follows recursion", async () => {
    const tree = {
      type: "object",
      properties: { name: { type: "string" }, children: { type: "array", items: { $ref: "#" } } },
      required: ["name"],
    };
    expect(await validate(tree, { name: "a", children: [{ name: "b" }] })).toMatchObject({ ok: true });
    expect((await issuesOf(tree, { name: "a", children: [{ children: [] }] }))[0]?.path).toBe(
      "children[0].name",
    );
    const chain = {
      $ref: "#/$defs/node",
      $defs: { node: { properties: { next: { $ref: "#/$defs/node" } }, type: "object" } },
    };
    expect((await issuesOf(chain, { next: { next: 1 } }))[0]?.path).toBe("next.next");
  });

  it("lets two schemas have the same $id", async () => {
    const one = { $id: "https://example.com/a", type: "object", properties: { a: { type: "string" } } };
    const two = { $id: "https://example.com/a", type: "object", properties: { a: { type: "number" } } };
    expect(await validate(one, { a: "x" })).toMatchObject({ ok: true });
    expect(await validate(two, { a: 1 })).toMatchObject({ ok: true });
    expect(await validate(two, { a: "x" })).toMatchObject({ ok: false });
  });

  it("reads draft 7, draft 4 and OpenAPI habits", async () => {
    const draft7 = {
      $schema: "http://json-schema.org/draft-07/schema#",
      type: "object",
      properties: { pair: { items: [{ type: "string" }, { type: "number" }], additionalItems: false } },
    };
    expect((await issuesOf(draft7, { pair: ["a", "b"] }))[0]?.path).toBe("pair[1]");
    const mixed = {
      id: "old",
      type: "object",
      properties: {
        pair: { items: [{ type: "string" }], additionalItems: false },
        positive: { type: "number", minimum: 0, exclusiveMinimum: true },
        maybe: { type: "string", nullable: true },
        loose: { nullable: true },
      },
    };
    expect(await validate(mixed, { pair: ["a"], positive: 1, maybe: null, loose: 1 })).toMatchObject({
      ok: true,
    });
    expect((await issuesOf(mixed, { pair: ["a", 1], positive: 0 })).map((issue) => issue.path)).toEqual([
      "pair",
      "positive",
    ]);
  });

  it("checks formats and ignores those it does not know", async () => {
    const format = (name: string) => ({
      type: "object",
      properties: { x: { type: "string", format: name } },
    });
    const wrong: [string, string][] = [
      ["email", "a"],
      ["date-time", "yesterday"],
      ["uri", "no uri"],
      ["uuid", "1"],
      ["ipv4", "1.2"],
    ];
    for (const [name, text] of wrong) {
      expect((await issuesOf(format(name), { x: text }))[0]?.expected).toBe(`string in ${name} format`);
    }
    expect(await validate(format("shoe-size"), { x: "46" })).toMatchObject({ ok: true });
  });

  it("is not fooled by a schema that asks for an asynchronous check", async () => {
    const schema = { $async: true, type: "object", properties: { a: { type: "string" } } };
    expect(await validate(schema, { a: 1 })).toMatchObject({ ok: false });
  });

  it("throws SchemaError on first use, and again, when the schema turns out to be broken", () => {
    const compiled = compileSchema({
      $id: "https://a.com/s",
      properties: { x: { $id: "t", $ref: "nowhere.json" } },
    });
    expect(() => compiled.validate({})).toThrow(/Invalid JSON Schema.*nowhere/);
    expect(() => compiled.validate({})).toThrow(/Invalid JSON Schema/);
  });

  it("gives at most 20 issues, and only the first for a very large value", async () => {
    const list = { type: "object", properties: { list: { type: "array", items: { type: "number" } } } };
    expect(await issuesOf(list, { list: Array(100).fill("x") })).toHaveLength(20);
    expect(await issuesOf(list, { list: Array(100_000).fill("x") })).toHaveLength(1);
  });

  it("accepts again what it produced", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record(
          { city: fc.string({ minLength: 1 }), days: fc.nat(), extra: fc.jsonValue() },
          { requiredKeys: [] },
        ),
        async (value) => {
          const outcome = await validate(weather, value);
          if (outcome.ok)
            expect(await validate(weather, outcome.value)).toEqual({ ok: true, value: outcome.value });
        },
      ),
    );
  });

  it("is its own JSON Schema, with the type of the root filled in", () => {
    expect(compileSchema(weather).jsonSchema()).toBe(weather);
    expect(compileSchema({}).jsonSchema()).toEqual({ type: "object" });
    const odd = { properties: { a: { type: "string", default: undefined, "x-check": () => true } } };
    expect(compileSchema(odd).jsonSchema()).toStrictEqual({
      type: "object",
      properties: { a: { type: "string" } },
    });
    const cyclic: Record<string, unknown> = { a: 1 };
    cyclic.self = cyclic;
    expect(() => compileSchema({ properties: { a: { default: cyclic } } }).jsonSchema()).toThrow(
      /JSON cannot express/,
    );
  });

  it("refuses a value that references would have it check more often than can be done", async () => {
    const node = { $ref: "#/$defs/node" };
    const schema = compileSchema({
      type: "object",
      properties: { next: { anyOf: [node, node, { type: "number" }] } },
      $defs: { node: { type: "object", properties: { next: { anyOf: [node, node, { type: "number" }] } } } },
    });
    const nested = (depth: number, inner: unknown): unknown =>
      depth === 0 ? inner : { next: nested(depth - 1, inner) };
    expect(await schema.validate(nested(8, 1))).toMatchObject({ ok: true });
    expect(await schema.validate(nested(60, "x"))).toMatchObject({
      ok: false,
      issues: [{ message: expect.stringContaining("more checks than can be made") }],
    });
    const list = compileSchema({ type: "array", items: node, $defs: { node: { type: "object" } } });
    expect(await list.validate(Array.from({ length: 300_000 }, () => ({})))).toMatchObject({ ok: true });
  });

  it("checks the format of a long text without delay", async () => {
    const schema = compileSchema({ type: "string", format: "url" });
    expect(await schema.validate("https://example.org/a?b=c")).toMatchObject({ ok: true });
    expect(await schema.validate("not a url")).toMatchObject({ ok: false });
    expect(await schema.validate(`http://${":".repeat(3_000_000)}`)).toMatchObject({ ok: false });
  });

  it("looks for repeated items and drops unknown keys in one pass", async () => {
    const items = Array.from({ length: 100_000 }, (_, index) => ({ index }));
    const unique = compileSchema({ type: "array", uniqueItems: true });
    expect(await unique.validate(items)).toMatchObject({ ok: true });
    expect(await unique.validate([...items, { index: 7 }])).toMatchObject({ ok: false });
    expect(await unique.validate([1, "1", true, null, [1], { a: 1, b: 2 }])).toMatchObject({ ok: true });
    expect(
      await unique.validate([
        { a: 1, b: 2 },
        { b: 2, a: 1 },
      ]),
    ).toMatchObject({ ok: false });
    const unknown = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`key${index}`, index]));
    expect(await validate(weather, { ...unknown, city: "Riga" })).toMatchObject({ ok: true });
  });
});
