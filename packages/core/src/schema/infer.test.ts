import { type } from "arktype";
import * as v from "valibot";
import { describe, expectTypeOf, it } from "vitest";
import * as z from "zod";
import * as zm from "zod/mini";
import * as z3 from "zod3";
import { Tool } from "../index.ts";
import type { AnyInput, InferInput } from "./types.ts";

/** Keeps literals as `Tool.define` does. */
function infer<const Schema extends object>(_schema: Schema): InferInput<Schema> {
  return {} as InferInput<Schema>; // Only the type is looked at.
}

describe("InferInput", () => {
  it("gives the output of Zod 4, defaults and transforms applied", () => {
    const schema = z.object({
      city: z.string(),
      days: z.number().default(3),
      when: z.string().transform(Number),
    });
    expectTypeOf<InferInput<typeof schema>>().toEqualTypeOf<{ city: string; days: number; when: number }>();
  });

  it("gives the output of zod/mini", () => {
    const schema = zm.object({ city: zm.string(), note: zm.optional(zm.string()) });
    expectTypeOf<InferInput<typeof schema>>().toEqualTypeOf<{ city: string; note?: string | undefined }>();
  });

  it("gives the output of Zod 3", () => {
    const schema = z3.object({ city: z3.string(), days: z3.number().default(3) });
    expectTypeOf<InferInput<typeof schema>>().toEqualTypeOf<{ city: string; days: number }>();
  });

  it("gives the output of Standard Schemas", () => {
    const valibot = v.object({ city: v.string(), size: v.optional(v.number(), 1) });
    expectTypeOf<InferInput<typeof valibot>>().toEqualTypeOf<{ city: string; size: number }>();
    const arktype = type({ city: "string", "size?": "number" });
    expectTypeOf<InferInput<typeof arktype>>().toEqualTypeOf<{ city: string; size?: number }>();
  });

  it("reads an object of schemas, keys that take undefined being optional", () => {
    const shape = { a: z.string(), b: z3.number().optional(), c: v.boolean(), d: z.number().default(1) };
    expectTypeOf<InferInput<typeof shape>>().toEqualTypeOf<{
      a: string;
      b?: number | undefined;
      c: boolean;
      d: number;
    }>();
  });

  it("reads a JSON Schema written in place", () => {
    const value = infer({
      type: "object",
      properties: {
        city: { type: "string" },
        days: { type: "integer", default: 3 },
        unit: { enum: ["metric", "imperial"] },
        kind: { const: "forecast" },
        tags: { type: "array", items: { type: "string" } },
        place: { type: "object", properties: { lat: { type: "number" } }, required: ["lat"] },
        note: { type: ["string", "null"] },
        id: { anyOf: [{ type: "string" }, { type: "integer" }] },
        extra: { type: "object", additionalProperties: { type: "number" } },
        anything: {},
      },
      required: ["city", "place"],
    });
    expectTypeOf(value).toEqualTypeOf<{
      city: string;
      place: { lat: number };
      days: number;
      unit?: "metric" | "imperial";
      kind?: "forecast";
      tags?: string[];
      note?: string | null;
      id?: string | number;
      extra?: Record<string, number>;
      anything?: unknown;
    }>();
  });

  it("reads nullable beside a type, as the validator does", () => {
    const value = infer({
      type: "object",
      properties: {
        note: { type: "string", nullable: true },
        size: { type: "integer", nullable: false },
        place: { type: "object", properties: { lat: { type: "number" } }, required: ["lat"], nullable: true },
        unit: { type: "string", enum: ["c", "f"], nullable: true },
        loose: { nullable: true },
      },
      required: ["note", "size", "place", "unit", "loose"],
    });
    expectTypeOf(value).toEqualTypeOf<{
      note: string | null;
      size: number;
      place: { lat: number } | null;
      unit: "c" | "f";
      loose: unknown;
    }>();
  });

  it("keeps other keys open when the schema asks for them", () => {
    const value = infer({
      type: "object",
      properties: { a: { type: "string" } },
      additionalProperties: true,
    });
    expectTypeOf(value.a).toEqualTypeOf<string | undefined>();
    expectTypeOf(value.other).toBeUnknown();
  });

  it("lets an author read what the types do not tell, and take a tool's schema for what it is", () => {
    const read = (context: Tool.Context) => context.input.city.toUpperCase();
    expectTypeOf(read).returns.toBeAny();
    const defined = Tool.define({
      name: "t",
      parameters: z.object({ city: z.string() }),
      execute: async (context: Tool.Context) => read(context),
    });
    const schema: z.ZodType = defined.parameters;
    expectTypeOf(schema.safeParse({}).success).toEqualTypeOf<boolean>();
  });

  it("gives a record where the literals were widened or nothing is known", () => {
    const widened = { type: "object", properties: { a: { type: "string" } } };
    expectTypeOf<InferInput<typeof widened>>().toEqualTypeOf<AnyInput>();
    // biome-ignore lint/suspicious/noExplicitAny: a schema of this type must not spread it.
    expectTypeOf<InferInput<any>>().toEqualTypeOf<AnyInput>();
    expectTypeOf<InferInput<object>>().toEqualTypeOf<AnyInput>();
    expectTypeOf<InferInput<Record<string, unknown>>>().toEqualTypeOf<AnyInput>();
    expectTypeOf(infer({})).toEqualTypeOf<AnyInput>();
    expectTypeOf(infer({ type: "object" })).toEqualTypeOf<AnyInput>();
  });
});
