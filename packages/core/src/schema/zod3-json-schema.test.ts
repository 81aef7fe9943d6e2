import { describe, expect, it } from "vitest";
import * as z from "zod3";
import { compileSchema } from "./compile-schema.ts";

const json = (schema: unknown) => compileSchema(schema).jsonSchema();

describe("the JSON Schema of Zod 3", () => {
  it.each([
    [
      "string checks",
      z.string().min(1).max(9).regex(/^a/).email(),
      { type: "string", minLength: 1, maxLength: 9, pattern: "^a", format: "email" },
    ],
    ["exact length", z.string().length(3), { type: "string", minLength: 3, maxLength: 3 }],
    [
      "several patterns",
      z.string().startsWith("a.").endsWith("z"),
      { type: "string", pattern: "^a\\.", allOf: [{ pattern: "z$" }] },
    ],
    ["formats", z.string().datetime(), { type: "string", format: "date-time" }],
    ["addresses", z.string().ip({ version: "v4" }), { type: "string", format: "ipv4" }],
    [
      "number checks",
      z.number().int().gt(0).lte(9).multipleOf(3),
      { type: "integer", exclusiveMinimum: 0, maximum: 9, multipleOf: 3 },
    ],
    ["literals", z.literal("a"), { type: "string", const: "a" }],
    ["enums", z.enum(["a", "b"]), { type: "string", enum: ["a", "b"] }],
    ["native enums", z.nativeEnum({ A: 0, B: "b", 0: "A" } as const), { enum: [0, "b"] }],
    [
      "arrays",
      z.array(z.string()).min(1).max(2),
      { type: "array", items: { type: "string" }, minItems: 1, maxItems: 2 },
    ],
    [
      "tuples",
      z.tuple([z.string(), z.number()]).rest(z.boolean()),
      {
        type: "array",
        prefixItems: [{ type: "string" }, { type: "number" }],
        items: { type: "boolean" },
        minItems: 2,
      },
    ],
    ["sets", z.set(z.string()), { type: "array", uniqueItems: true, items: { type: "string" } }],
    [
      "maps",
      z.map(z.string(), z.number()),
      {
        type: "array",
        items: {
          type: "array",
          prefixItems: [{ type: "string" }, { type: "number" }],
          minItems: 2,
          maxItems: 2,
        },
      },
    ],
    ["records", z.record(z.number()), { type: "object", additionalProperties: { type: "number" } }],
    [
      "records of certain keys",
      z.record(z.enum(["a"]), z.number()),
      {
        type: "object",
        additionalProperties: { type: "number" },
        propertyNames: { type: "string", enum: ["a"] },
      },
    ],
    ["unions", z.union([z.string(), z.null()]), { anyOf: [{ type: "string" }, { type: "null" }] }],
    ["nullable", z.string().nullable(), { anyOf: [{ type: "string" }, { type: "null" }] }],
    [
      "intersections",
      z.intersection(z.string(), z.string().min(1)),
      { allOf: [{ type: "string" }, { type: "string", minLength: 1 }] },
    ],
    ["defaults", z.number().default(3), { type: "number", default: 3 }],
    ["the input side of effects", z.string().transform(Number).refine(Boolean), { type: "string" }],
    ["the input side of pipelines", z.string().pipe(z.coerce.number()), { type: "string" }],
    ["brands", z.string().brand("x"), { type: "string" }],
    ["fallbacks", z.string().catch("x"), { type: "string" }],
    ["readonly", z.array(z.string()).readonly(), { type: "array", items: { type: "string" } }],
    ["dates", z.date(), { type: "string", format: "date-time" }],
    ["descriptions", z.string().describe("A city."), { type: "string", description: "A city." }],
    ["anything", z.any(), {}],
    ["nothing", z.never(), { not: {} }],
  ])("%s", (_name, schema, expected) => {
    expect(json(schema)).toStrictEqual(expected);
  });

  it("objects with required, optional and other keys", () => {
    const schema = z.object({
      a: z.string(),
      b: z.string().optional(),
      c: z.number().default(1).describe("How many."),
      d: z.preprocess((value) => value, z.string()),
      e: z.union([z.string(), z.undefined()]),
      f: z.unknown(),
    });
    expect(json(schema)).toStrictEqual({
      type: "object",
      properties: {
        a: { type: "string" },
        b: { type: "string" },
        c: { type: "number", default: 1, description: "How many." },
        d: { type: "string" },
        e: { anyOf: [{ type: "string" }, { not: {} }] },
        f: {},
      },
      required: ["a", "d"],
    });
    expect(json(z.object({}).strict())).toStrictEqual({
      type: "object",
      properties: {},
      additionalProperties: false,
    });
    expect(json(z.object({}).passthrough())).toMatchObject({ additionalProperties: true });
    expect(json(z.object({}).catchall(z.number()))).toMatchObject({
      additionalProperties: { type: "number" },
    });
  });

  it("discriminated unions", () => {
    const schema = z.discriminatedUnion("k", [
      z.object({ k: z.literal("a") }),
      z.object({ k: z.literal("b") }),
    ]);
    expect(json(schema)).toMatchObject({
      anyOf: [{ properties: { k: { const: "a" } } }, { properties: { k: { const: "b" } } }],
    });
  });

  it("recursion, through definitions or the root", async () => {
    interface Node {
      name: string;
      children: Node[];
    }
    const node: z.ZodType<Node> = z.lazy(() => z.object({ name: z.string(), children: z.array(node) }));
    const inside = json(z.object({ tree: node }));
    expect(inside).toMatchObject({ properties: { tree: { $ref: "#/$defs/schema1" } } });
    const value = { tree: { name: "a", children: [{ name: "b", children: [{ name: 1 }] }] } };
    expect(await compileSchema({ ...inside }).validate(value)).toMatchObject({
      ok: false,
      issues: [
        { path: "tree.children[0].children[0].children" },
        { path: "tree.children[0].children[0].name" },
      ],
    });
    expect(json(node)).toMatchObject({ properties: { children: { items: { $ref: "#" } } } });
    const endless: () => z.ZodTypeAny = () => z.lazy(() => z.array(endless()));
    expect(() => json(endless())).not.toThrow();
  });

  it("is made once", () => {
    const schema = z.object({ a: z.string() });
    expect(json(schema)).toBe(json(schema));
  });
});
