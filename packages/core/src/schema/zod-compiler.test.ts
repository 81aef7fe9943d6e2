import fc from "fast-check";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import * as zm from "zod/mini";
import { compileSchema } from "./compile-schema.ts";
import { compileZod, loadZodCompiler } from "./zod.ts";
import type { Zod4Schema } from "./zod-definition.ts";

const schema = z.object({
  text: z.string().min(1).max(5).optional(),
  count: z.int().min(0).default(2),
  choice: z.union([z.literal("a"), z.number(), z.null()]).optional(),
  list: z
    .array(z.object({ id: z.string(), on: z.boolean().optional() }))
    .max(3)
    .optional(),
  map: z.record(z.string(), z.number()).optional(),
  upper: z
    .string()
    .transform((value) => value.toUpperCase())
    .optional(),
  even: z
    .number()
    .refine((value) => value % 2 === 0, "Must be even.")
    .optional(),
});
const asInternal = (value: unknown) => value as Zod4Schema; // Zod's own types hide what is used of it.

describe("Zod's compiler", () => {
  it("is found, and gives the answers that interpreting gives", async () => {
    const compiler = await loadZodCompiler();
    const compiled = compileZod(compiler, asInternal(schema));
    expect(compiled).not.toBe(schema);
    const anything = fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.constantFrom("a", null, 2, 3, undefined));
    const value = fc.record(
      {
        text: fc.oneof(fc.string({ maxLength: 6 }), anything),
        count: fc.oneof(fc.integer({ min: -1, max: 5 }), anything),
        choice: anything,
        list: fc.oneof(
          fc.array(fc.record({ id: fc.string(), on: fc.boolean(), x: fc.nat() }), { maxLength: 4 }),
          anything,
        ),
        map: fc.oneof(fc.dictionary(fc.string(), fc.nat()), anything),
        upper: fc.oneof(fc.string(), anything),
        even: fc.oneof(fc.nat(), anything),
        extra: anything,
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.oneof(value, anything), (input) => {
        const fast = compiled.safeParse!(input);
        const slow = schema.safeParse(input);
        expect(fast.success).toBe(slow.success);
        if (slow.success) expect(fast.data).toEqual(slow.data);
        else expect(fast.error?.issues).toEqual(slow.error.issues);
      }),
      { numRuns: 300 },
    );
  });

  it("is not used for a schema of another version, or where code may not be generated", async () => {
    const compiler = (await loadZodCompiler())!;
    const other = { ...compiler, version: { ...compiler.version, patch: compiler.version.patch + 1 } };
    expect(compileZod(other, asInternal(schema))).toBe(schema);
    expect(compileZod({ ...compiler, globalConfig: { jitless: true } }, asInternal(schema))).toBe(schema);
    expect(compileZod(undefined, asInternal(schema))).toBe(schema);
  });

  it.each([
    ["classic", z.object({ city: z.string() })],
    ["mini", zm.object({ city: zm.string() })],
  ])("takes over after many parses without a difference, %s", async (_name, often) => {
    const compiled = compileSchema(often);
    for (let round = 0; round < 100; round++) {
      expect(compiled.validate({ city: "Oslo", x: 1 })).toEqual({
        ok: true,
        value: { city: "Oslo" },
        dropped: ["x"],
      });
      expect(compiled.validate({ city: 1 })).toMatchObject({ ok: false, issues: [{ path: "city" }] });
      await loadZodCompiler();
    }
  });
});
