import { describe, expect, it } from "vitest";
import { compileSchema } from "./compile-schema.ts";

async function messages(properties: object, value: object): Promise<string[]> {
  const outcome = await compileSchema({ type: "object", properties }).validate(value);
  if (outcome.ok) throw new Error("the value was accepted");
  return outcome.issues.map((issue) => issue.message);
}

describe("the words of issues", () => {
  it.each([
    [{ type: "integer", minimum: 1, maximum: 5 }, 9, "Expected integer ≥ 1 and ≤ 5 at `x`, got number 9."],
    [
      { type: "number", exclusiveMinimum: 0, multipleOf: 5 },
      3,
      "Expected number > 0, a multiple of 5 at `x`, got number 3.",
    ],
    [{ enum: ["a", "b"] }, "c", 'Expected one of "a", "b" at `x`, got string "c".'],
    [{ const: "a" }, "c", 'Expected "a" at `x`, got string "c".'],
    [{ type: "string", pattern: "^a+$" }, "b", 'Expected string matching /^a+$/ at `x`, got string "b".'],
    [{ type: "string", format: "email" }, "b", 'Expected string in email format at `x`, got string "b".'],
    [
      { type: "string", minLength: 2, maxLength: 4 },
      "b",
      'Expected string of 2 to 4 characters at `x`, got string "b".',
    ],
    [{ type: ["string", "null"] }, 1, "Expected string or null at `x`, got number 1."],
    [
      { type: "array", items: { type: "string" }, minItems: 1 },
      [],
      "Expected array of at least 1 item, each string at `x`, got array of 0 items.",
    ],
    [
      { type: "array", uniqueItems: true },
      [1, 1],
      "`x`: Items 0 and 1 are equal; every item may appear only once.",
    ],
    [
      { anyOf: [{ type: "string" }, { type: "integer", minimum: 1 }] },
      true,
      "Expected string or integer ≥ 1 at `x`, got boolean true.",
    ],
    [{ not: { const: 1 } }, 1, "Expected anything but 1 at `x`, got number 1."],
    [{ contains: { const: 1 } }, [2], "Expected array with an item that is 1 at `x`, got array of 1 item."],
    [
      { type: "object", minProperties: 1 },
      {},
      "Expected object of at least 1 property at `x`, got empty object.",
    ],
    [false, 1, "Expected nothing at `x`, got number 1."],
  ])("%o", async (schema, value, message) => {
    expect(await messages({ x: schema }, { x: value })).toEqual([message]);
  });

  it.each([
    [
      "a limit beside a reference",
      { $ref: "#/$defs/text", maxLength: 3 },
      "abcdef",
      'Expected string of at most 3 characters at `x`, got string "abcdef".',
    ],
    [
      "a type beside a reference",
      { $ref: "#/$defs/any", type: "string" },
      4,
      "Expected string at `x`, got number 4.",
    ],
    [
      "a limit beside alternatives",
      { anyOf: [{ type: "string" }, { type: "number" }], maxLength: 3 },
      "abcdef",
      'Expected string of at most 3 characters at `x`, got string "abcdef".',
    ],
    [
      "a limit beside an enumeration",
      { enum: ["a", "abcdef"], maxLength: 3 },
      "abcdef",
      'Expected string of at most 3 characters at `x`, got string "abcdef".',
    ],
    [
      "a limit on numbers beside one on texts",
      { minLength: 2, minimum: 3 },
      1,
      "Expected number ≥ 3 at `x`, got number 1.",
    ],
    [
      "a format of numbers",
      { type: "integer", format: "int32" },
      1e12,
      "Expected integer in int32 format at `x`, got number 1000000000000.",
    ],
    [
      "a key that must not be there",
      { not: { required: ["a"] } },
      { a: 1 },
      "Expected anything but object with a at `x`, got object with a.",
    ],
    [
      "a form that must not be there",
      { not: { properties: { a: { type: "string" } } } },
      { a: "b" },
      'Expected anything but a value that fits {"properties":{"a":{"type":"string"}}} at `x`, got object with a.',
    ],
    ["everything forbidden", { not: {} }, 1, "Expected nothing at `x`, got number 1."],
  ])("name what failed: %s", async (_name, x, value, message) => {
    const $defs = { text: { type: "string" }, any: { type: ["string", "number"] } };
    const outcome = await compileSchema({ type: "object", properties: { x }, $defs }).validate({ x: value });
    expect(outcome.ok ? [] : outcome.issues.map((issue) => issue.message)).toEqual([message]);
  });

  it("shorten what came", async () => {
    const [message] = await messages({ x: { type: "number" } }, { x: "a".repeat(1000) });
    expect(message!.length).toBeLessThan(150);
  });

  it("write paths as people do", async () => {
    const schema = { list: { items: { properties: { "a b": { type: "string" }, c: { type: "string" } } } } };
    expect(await messages(schema, { list: [{}, { "a b": 1, c: 2 }] })).toEqual([
      'Expected string at `list[1]["a b"]`, got number 1.',
      "Expected string at `list[1].c`, got number 2.",
    ]);
  });
});

describe("alternatives", () => {
  const circle = {
    type: "object",
    properties: { kind: { const: "circle" }, radius: { type: "number" } },
    required: ["kind", "radius"],
  };
  const square = {
    type: "object",
    properties: { kind: { const: "square" }, side: { type: "number" } },
    required: ["kind", "side"],
  };

  it("are narrowed to the one that was meant", async () => {
    expect(
      await messages({ shape: { oneOf: [circle, square] } }, { shape: { kind: "square", side: "x" } }),
    ).toEqual(['Expected number at `shape.side`, got string "x".']);
  });

  it("are narrowed through references too", async () => {
    const schema = {
      type: "object",
      properties: {
        shapes: { type: "array", items: { anyOf: [{ $ref: "#/$defs/circle" }, { $ref: "#/$defs/square" }] } },
      },
      $defs: { circle, square },
    };
    const outcome = await compileSchema(schema).validate({ shapes: [{ kind: "circle" }] });
    expect(outcome).toMatchObject({ ok: false, issues: [{ path: "shapes[0].radius", received: "nothing" }] });
    if (!outcome.ok) expect(outcome.issues).toHaveLength(1);
  });

  it("are named when none was meant", async () => {
    expect(await messages({ shape: { anyOf: [circle, square] } }, { shape: { kind: "star" } })).toEqual([
      'Expected object with kind "circle" or object with kind "square" at `shape`, got object with kind.',
    ]);
  });

  it("do not hide other errors beside them", async () => {
    const schema = {
      a: { type: "string" },
      x: { anyOf: [{ type: "string" }, { type: "null" }] },
      z: { type: "string" },
    };
    expect(await messages(schema, { a: 1, x: 2, z: 3 })).toEqual([
      "Expected string at `a`, got number 1.",
      "Expected string or null at `x`, got number 2.",
      "Expected string at `z`, got number 3.",
    ]);
  });

  it("say when more than one fits", async () => {
    const schema = { x: { oneOf: [{ type: "integer" }, { type: "number", minimum: 0 }] } };
    expect(await messages(schema, { x: 1 })).toEqual([
      "Expected exactly one of 2 forms, not integer and number ≥ 0 at once at `x`, got number 1.",
    ]);
  });

  it("at the root keep their definitions apart from other errors", async () => {
    const schema = {
      type: "object",
      properties: { id: { type: "string" } },
      anyOf: [{ required: ["a"] }, { required: ["b"] }],
    };
    const outcome = await compileSchema(schema).validate({ id: 1 });
    expect(outcome.ok ? [] : outcome.issues.map((issue) => issue.message)).toEqual([
      "Expected object with a or object with b, got object with id.",
      "Expected string at `id`, got number 1.",
    ]);
  });
});
