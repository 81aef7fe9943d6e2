import { type } from "arktype";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import * as z3 from "zod3";
import { compileSchema } from "./compile-schema.ts";

describe("an object of schemas", () => {
  const compiled = compileSchema({
    city: z.string().min(1),
    days: z3.number().default(3),
    unit: v.optional(v.picklist(["C", "F"])),
    size: z.object({ width: z.number() }).optional(),
  });

  it("parses each key with its own schema, whatever the library", () => {
    expect(compiled.kind).toBe("shape");
    expect(compiled.validate({ city: "Oslo", unit: "C", x: 1 })).toEqual({
      ok: true,
      value: { city: "Oslo", days: 3, unit: "C" },
      dropped: ["x"],
    });
  });

  it("says where and what is wrong", () => {
    const outcome = compiled.validate({ days: "x", size: { width: "1" }, dyas: 1 }, { strict: true });
    expect(
      "ok" in outcome && !outcome.ok && outcome.issues.map((issue) => [issue.path, issue.message]),
    ).toEqual([
      ["dyas", "`dyas` is not a known key; did you mean `days`?"],
      ["city", "`city` is missing: expected string."],
      ["days", '`days`: Expected number, got string "x".'],
      ["size.width", 'Expected number at `size.width`, got string "1".'],
    ]);
    expect(compiled.validate("x")).toMatchObject({ issues: [{ path: "", expected: "object" }] });
    const circular: Record<string, unknown> = {};
    circular.city = circular;
    expect(compiled.validate(circular)).toMatchObject({ ok: false });
  });

  it("waits for asynchronous members", async () => {
    const schema = compileSchema({ a: z.string().refine(async (text) => text === "x"), b: z.number() });
    expect(await schema.validate({ a: "x", b: 1 })).toEqual({ ok: true, value: { a: "x", b: 1 } });
    expect(await schema.validate({ a: "y", b: 1 })).toMatchObject({ ok: false, issues: [{ path: "a" }] });
  });

  it("has a JSON Schema in which keys that take undefined are not required", async () => {
    const node = z.object({
      get next() {
        return node.optional();
      },
    });
    const made = compileSchema({
      city: z.string(),
      days: z3.number().default(3),
      any: type("string"),
      node,
    }).jsonSchema();
    expect(made).toMatchObject({
      type: "object",
      properties: { city: { type: "string" }, days: { type: "number", default: 3 }, any: { type: "string" } },
      required: ["city", "any", "node"],
    });
    const check = compileSchema({ ...made });
    expect(await check.validate({ city: "a", any: "b", node: { next: { next: {} } } })).toMatchObject({
      ok: true,
    });
    expect(await check.validate({ city: "a", any: "b", node: { next: { next: 1 } } })).toMatchObject({
      ok: false,
      issues: [{ path: "node.next.next" }],
    });
  });
});
