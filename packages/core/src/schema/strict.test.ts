import { type } from "arktype";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import * as z4 from "zod";
import * as zm from "zod/mini";
import * as z3 from "zod3";
import { compileSchema } from "./compile-schema.ts";

/** The paths that strict mode refuses; empty when the value passes. */
async function refused(schema: object, value: unknown): Promise<string[]> {
  const outcome = await compileSchema(schema).validate(value, { strict: true });
  return outcome.ok ? [] : outcome.issues.map((issue) => issue.path);
}

describe.each([
  ["Zod 4", z4 as unknown as typeof z3], // Everything used here is spelt the same in both.
  ["Zod 3", z3],
])("strict mode, %s", (_name, z) => {
  const circle = z.object({ kind: z.literal("circle"), radius: z.number() });
  const square = z.object({ kind: z.literal("square"), side: z.number() });

  it("refuses keys of no alternative, and those of another one", async () => {
    for (const schema of [z.discriminatedUnion("kind", [circle, square]), z.union([circle, square])]) {
      expect(await refused(schema, { kind: "circle", radius: 1, colour: "red" })).toEqual(["colour"]);
      expect(await refused(schema, { kind: "circle", radius: 1, side: 2 })).toEqual(["side"]);
      expect(await refused(schema, { kind: "square", side: 2 })).toEqual([]);
    }
  });

  it("refuses what gets lost when several alternatives fit", async () => {
    const schema = z.union([z.object({ a: z.string() }), z.object({ b: z.string() })]);
    expect(await refused(schema, { a: "x" })).toEqual([]);
    expect(await refused(schema, { b: "x" })).toEqual([]);
    expect(await refused(schema, { a: "x", b: "y" })).toEqual(["b"]);
    const nested = z.object({ list: z.array(schema) });
    expect(await refused(nested, { list: [{ a: "x" }, { a: "x", b: "y" }] })).toEqual(["list[1].b"]);
  });

  it("refuses keys at any depth, and suggests the nearest", async () => {
    const schema = z.object({
      place: z.object({ city: z.string() }).optional(),
      stops: z.array(z.object({ at: z.date() }).nullable()).optional(),
      sizes: z.record(z.string(), z.object({ n: z.number() })).optional(),
    });
    expect(
      await refused(schema, {
        place: { city: "Oslo", ctiy: 1 },
        stops: [null, { at: "2026-05-01", on: 1 }],
        sizes: { any: { n: 1, m: 1 } },
      }),
    ).toEqual(["place.ctiy", "stops[1].on", "sizes.any.m"]);
    expect(await compileSchema(schema).validate({ place: { ctiy: "x" } }, { strict: true })).toMatchObject({
      issues: [
        { message: "`place.ctiy` is not a known key; did you mean `city`?" },
        { message: "`place.city` is missing: expected string." },
      ],
    });
  });

  it("leaves alone what is open, and the keys that callbacks read, rename or leave unused", async () => {
    const open = z.object({ a: z.object({ b: z.string() }).passthrough(), c: z.any() });
    expect(await refused(open, { a: { b: "x", z: 1 }, c: { z: 1 } })).toEqual([]);
    const renamed = z.object({ p: z.object({ a: z.string() }).transform(({ a }) => ({ b: a })) });
    expect(await refused(renamed, { p: { a: "x" } })).toEqual([]);
    expect(await refused(renamed, { p: { a: "x", z: 1 } })).toEqual(["p.z"]);
    const unused = z.object({ a: z.string(), why: z.string().optional() }).transform(({ a }) => ({ a }));
    expect(await refused(unused, { a: "x", why: "y" })).toEqual([]);
    const upgraded = z.object({
      p: z.preprocess((old) => ({ path: (old as { file: string }).file }), z.object({ path: z.string() })),
    });
    expect(await refused(upgraded, { p: { file: "x" } })).toEqual([]);
  });
});

describe("strict mode, other kinds", () => {
  it("works for zod/mini", async () => {
    const schema = zm.object({ p: zm.optional(zm.object({ a: zm.string() })) });
    expect(await refused(schema, { p: { a: "x", z: 1 }, q: 1 })).toEqual(["p.z", "q"]);
  });

  it("works for Standard Schemas with a JSON Schema", async () => {
    const schema = type({ p: { a: "string" }, "list?": type({ n: "number" }).array() });
    expect(await refused(schema, { p: { a: "x", z: 1 }, list: [{ n: 1, m: 1 }] })).toEqual([
      "p.z",
      "list[0].m",
    ]);
    expect(await refused(schema, { p: { a: "x" } })).toEqual([]);
  });

  it("refuses what a Standard Schema without a JSON Schema loses without a trace", async () => {
    const schema = v.object({ p: v.object({ a: v.string() }), list: v.optional(v.array(v.object({}))) });
    expect(await refused(schema, { p: { a: "x", z: 1 }, list: [{ m: 1 }], q: 1 })).toEqual([
      "p.z",
      "list[0].m",
      "q",
    ]);
    expect(await refused(schema, { p: { a: "x" } })).toEqual([]);
    const renamed = v.pipe(
      v.object({ a: v.string() }),
      v.transform(({ a }) => ({ b: a })),
    );
    expect(await refused(renamed, { a: "x" })).toEqual([]);
    const asynchronous = v.objectAsync({ a: v.string() });
    expect(await refused(asynchronous, { a: "x", z: 1 })).toEqual(["z"]);
  });

  it("reaches into the members of an object of schemas", async () => {
    const shape = { place: z4.object({ city: z4.string() }), unit: v.object({ name: v.string() }) };
    expect(await refused(shape, { place: { city: "Oslo", z: 1 }, unit: { name: "C", z: 1 }, q: 1 })).toEqual([
      "q",
      "place.z",
      "unit.z",
    ]);
  });

  it("reaches into a JSON Schema, together with everything else that is wrong", async () => {
    const schema = {
      type: "object",
      properties: {
        options: { type: "object", properties: { unit: { enum: ["C", "F"] } } },
        free: { type: "object" },
        list: { type: "array", items: { $ref: "#/$defs/item" } },
      },
      $defs: { item: { type: "object", properties: { n: { type: "integer" } } } },
    };
    expect(
      await refused(schema, {
        options: { unit: "K", uint: 1 },
        free: { any: 1 },
        list: [{ n: 1, m: 2 }],
        extra: 1,
      }),
    ).toEqual(["options.uint", "list[0].m", "extra", "options.unit"]);
    expect(await refused(schema, { options: { unit: "C" }, free: { any: 1 }, list: [{ n: 1 }] })).toEqual([]);
    const union = {
      anyOf: [
        { properties: { t: { const: "a" } }, required: ["t"] },
        { properties: { t: { const: "b" }, c: {} }, required: ["t"] },
      ],
    };
    expect(await refused(union, { t: "a", c: 1 })).toEqual(["c"]);
    expect(await refused(union, { t: "b", c: 1 })).toEqual([]);
  });
});
