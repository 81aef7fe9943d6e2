import { describe, expect, it } from "vitest";
import * as z from "zod";
import * as zm from "zod/mini";
import { compileSchema } from "./compile-schema.ts";
import { finishLibrarySchema } from "./library-validator.ts";

import type { Zod4Schema } from "./zod-definition.ts";
import { convertZod } from "./zod-json-schema.ts";

const json = (schema: unknown) => compileSchema(schema).jsonSchema();

describe("the JSON Schema of Zod 4", () => {
  it("is that of the input side, as plain JSON", () => {
    const schema = z.object({
      city: z.string().min(1).describe("Where."),
      days: z.int().default(3),
      when: z.coerce.date().optional(),
      tags: z.string().transform((text) => text.split(",")),
      check: z.custom<string>(() => true),
    });
    const made = json(schema);
    expect(made).toMatchObject({
      type: "object",
      properties: {
        city: { type: "string", minLength: 1, description: "Where." },
        days: { type: "integer", default: 3 },
        when: { type: "string", format: "date-time" },
        tags: { type: "string" },
        check: {},
      },
    });
    expect(made.required).toEqual(expect.arrayContaining(["city", "tags"]));
    expect(made.required).not.toContain("days");
    expect(made).not.toHaveProperty("$schema");
    expect(made).toStrictEqual(JSON.parse(JSON.stringify(made)));
    expect(json(schema)).toBe(made);
  });

  it("keeps recursion", async () => {
    const node = z.object({
      name: z.string(),
      get children() {
        return z.array(node);
      },
    });
    for (const schema of [node, z.object({ tree: node })]) {
      const made = json(schema);
      expect(JSON.stringify(made)).toContain("$ref");
      expect(await compileSchema({ ...made }).validate({ name: 1, children: [], tree: 1 })).toMatchObject({
        ok: false,
      });
    }
  });

  it("is read from the definition for zod/mini, alone or inside a classic object", () => {
    const mini = zm.object({
      city: zm.string().check(zm.minLength(1), zm.maxLength(9), zm.regex(/^a/)),
      mail: zm.email(),
      days: zm._default(zm.int().check(zm.gte(1)), 3),
      note: zm.optional(zm.nullable(zm.string())),
      list: zm.array(zm.union([zm.literal("a"), zm.enum(["b", "c"])])).check(zm.maxLength(3)),
      map: zm.record(zm.string(), zm.number()),
      pair: zm.tuple([zm.string(), zm.number()]),
    });
    const expected = {
      type: "object",
      properties: {
        city: { type: "string", minLength: 1, maxLength: 9, pattern: "^a" },
        mail: { type: "string", format: "email" },
        days: { type: "integer", minimum: 1, default: 3 },
        note: { anyOf: [{ type: "string" }, { type: "null" }] },
        list: {
          type: "array",
          items: {
            anyOf: [
              { type: "string", const: "a" },
              { type: "string", enum: ["b", "c"] },
            ],
          },
          maxItems: 3,
        },
        map: { type: "object", additionalProperties: { type: "number" } },
        pair: {
          type: "array",
          prefixItems: [{ type: "string" }, { type: "number" }],
          items: false,
          minItems: 2,
        },
      },
      required: ["city", "mail", "list", "map", "pair"],
    };
    expect(json(mini)).toStrictEqual(expected);
    expect(json(z.object({ inner: mini, x: z.string().describe("An x.") }))).toStrictEqual({
      type: "object",
      properties: { inner: expected, x: { type: "string", description: "An x." } },
      required: ["inner", "x"],
    });
  });

  it("accepts and refuses the same when read from the definition as when made by Zod", async () => {
    const node: z.ZodType = z.lazy(() => z.object({ next: node.optional() }));
    const schema = z.object({
      a: z.string().min(2).optional(),
      b: z.number().gt(1).lte(5).multipleOf(2).optional(),
      c: z.strictObject({ d: z.boolean() }).optional(),
      e: z.intersection(z.object({ f: z.string() }), z.object({ g: z.number() })).optional(),
      h: z.preprocess((value) => value, z.string()).optional(),
      i: z.string().pipe(z.transform(Number)).optional(),
      j: z.enum({ A: 1, B: "x" }).optional(),
      k: z.readonly(z.array(z.null())).optional(),
      l: node.optional(),
      m: z.looseObject({}).optional(),
      n: z.bigint().optional(),
      o: z.string().prefault("x"),
      p: z.uuid().optional(),
    });
    const made = compileSchema({ ...json(schema) });
    const read = compileSchema({ ...finishLibrarySchema(convertZod(schema as unknown as Zod4Schema)) }); // The types of Zod leave out the members that the converter reads.
    const values = [
      {},
      { a: "xx", b: 4, c: { d: true } },
      { a: "x" },
      { b: 1 },
      { b: 3 },
      { b: 6 },
      { c: {} },
      { c: { d: true, e: 1 } },
      { e: { f: "x", g: 1 } },
      { e: { f: "x" } },
      { h: "x" },
      { i: "1" },
      { i: 1 },
      { j: 1 },
      { j: "x" },
      { j: "A" },
      { k: [null] },
      { k: [1] },
      { l: { next: { next: {} } } },
      { l: { next: { next: 1 } } },
      { m: { x: 1 } },
      { n: 1 },
      { n: "1" },
      { o: 1 },
      { p: "x" },
      { p: "123e4567-e89b-42d3-a456-426614174000" },
    ];
    for (const value of values) {
      expect([value, (await read.validate(value)).ok]).toEqual([value, (await made.validate(value)).ok]);
    }
  });
});
