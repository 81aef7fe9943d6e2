import { describe, expect, it } from "vitest";
import * as z4 from "zod";
import * as zm from "zod/mini";
import * as z3 from "zod3";
import { compileSchema } from "./compile-schema.ts";

const iso = "2026-05-01T09:30:00Z";
const date = new Date(iso);

describe.each([
  ["Zod 4", z4 as unknown as typeof z3], // Everything used here is spelt the same in both.
  ["Zod 3", z3],
])("what JSON cannot hold, in %s", (_name, z) => {
  const schema = z.object({
    when: z.date(),
    size: z.bigint(),
    maybe: z.date().nullable().optional(),
    list: z.array(z.object({ at: z.date() })).optional(),
    map: z.record(z.string(), z.bigint()).optional(),
    pair: z.tuple([z.date(), z.string()]).optional(),
  });

  it("is made from the form that the JSON Schema shows", async () => {
    const value = Object.freeze({
      when: iso,
      size: 12,
      maybe: null,
      list: Object.freeze([Object.freeze({ at: iso }), { at: "2026-05-01" }]),
      map: { a: "12345678901234567890", b: -3 },
      pair: [iso, iso],
    });
    expect(compileSchema(schema).jsonSchema().properties).toMatchObject({
      when: { type: "string", format: "date-time" },
      size: { type: "integer" },
    });
    expect(await compileSchema(schema).validate(value)).toEqual({
      ok: true,
      value: {
        when: date,
        size: 12n,
        maybe: null,
        list: [{ at: date }, { at: new Date("2026-05-01") }],
        map: { a: 12345678901234567890n, b: -3n },
        pair: [date, iso],
      },
    });
    expect(value.when).toBe(iso);
    expect(value.list[0]).toEqual({ at: iso });
  });

  it("is made at the root, inside recursion and before the author's own callbacks", async () => {
    expect(await compileSchema(z.date()).validate(iso)).toEqual({ ok: true, value: date });
    const node: z3.ZodTypeAny = z.lazy(() => z.object({ at: z.date(), next: node.optional() }));
    expect(await compileSchema(node).validate({ at: iso, next: { at: iso } })).toEqual({
      ok: true,
      value: { at: date, next: { at: date } },
    });
    const year = z.object({ at: z.date().transform((at) => at.getUTCFullYear()) });
    expect(await compileSchema(year).validate({ at: iso })).toEqual({ ok: true, value: { at: 2026 } });
    const checked = z.object({ at: z.date().refine(async (at) => at.getUTCFullYear() > 2000, "Too old.") });
    expect(await compileSchema(checked).validate({ at: iso })).toEqual({ ok: true, value: { at: date } });
    expect(await compileSchema(checked).validate({ at: "1999-01-01" })).toMatchObject({
      issues: [{ path: "at", received: 'string "1999-01-01"', message: "`at`: Too old." }],
    });
  });

  it("is made only where an alternative needs it", async () => {
    const text = z.object({ x: z.union([z.date(), z.string()]) });
    expect(await compileSchema(text).validate({ x: iso })).toEqual({ ok: true, value: { x: iso } });
    const number = z.object({ x: z.union([z.number(), z.date()]) });
    expect(await compileSchema(number).validate({ x: iso })).toEqual({ ok: true, value: { x: date } });
    const forms = z.object({
      x: z.union([
        z.object({ kind: z.literal("at"), value: z.date() }),
        z.object({ kind: z.literal("in"), value: z.bigint(), size: z.number() }),
      ]),
    });
    expect(await compileSchema(forms).validate({ x: { kind: "at", value: iso } })).toEqual({
      ok: true,
      value: { x: { kind: "at", value: date } },
    });
    expect(await compileSchema(forms).validate({ x: { kind: "in", value: 4, size: "big" } })).toMatchObject({
      ok: false,
      issues: [{ path: "x.size", message: 'Expected number at `x.size`, got string "big".' }],
    });
  });

  it.each([
    "yesterday",
    "2026-02-30",
    "2026-13-01",
    "2026-05-01T25:00:00Z",
    "2026-05-01T09:30:00",
    "",
    1777627800000,
    true,
  ])("is not guessed from %j", async (when) => {
    expect(await compileSchema(schema).validate({ when, size: 1 })).toMatchObject({
      ok: false,
      issues: [
        { path: "when", expected: 'date and time with its zone, such as "2026-05-01T09:30:00Z", or date' },
      ],
    });
  });

  it.each(["1.5", "", "0x10", "1e3", 1.5, 2 ** 60, true])(
    "is no big integer when it comes as %j",
    async (size) => {
      expect(await compileSchema(schema).validate({ when: iso, size })).toMatchObject({
        ok: false,
        issues: [{ path: "size", expected: "integer, written as text beyond 9007199254740991" }],
      });
    },
  );

  it("is held to its limits, in words that a model can read", async () => {
    const bounded = z.object({ when: z.date().min(new Date("2026-01-01")), size: z.bigint().max(5n) });
    expect(await compileSchema(bounded).validate({ when: "2025-01-01", size: 9 })).toMatchObject({
      issues: [
        { message: 'Expected date ≥ 2026-01-01T00:00:00.000Z at `when`, got string "2025-01-01".' },
        { message: "Expected integer ≤ 5 at `size`, got number 9." },
      ],
    });
  });

  it("may be a set or a map, which come as arrays", async () => {
    const both = z.object({ set: z.set(z.string()), map: z.map(z.string(), z.number()) });
    expect(compileSchema(both).jsonSchema().properties).toMatchObject({
      set: { type: "array" },
      map: { type: "array" },
    });
    expect(await compileSchema(both).validate({ set: ["a", "b"], map: [["a", 1]] })).toEqual({
      ok: true,
      value: { set: new Set(["a", "b"]), map: new Map([["a", 1]]) },
    });
    expect(await compileSchema(both).validate({ set: "a", map: [["a"]] })).toMatchObject({
      issues: [
        { path: "set", expected: "array" },
        { path: "map", expected: "array of pairs of key and value" },
      ],
    });
  });

  it("costs one copy, however many there are", async () => {
    const many = z.object({ list: z.array(z.date()) });
    const outcome = await compileSchema(many).validate({ list: Array(50_000).fill(iso) });
    expect(outcome.ok && (outcome.value as { list: Date[] }).list.at(-1)).toEqual(date);
  });
});

describe("what JSON cannot hold, in zod/mini", () => {
  it("is made too", () => {
    const schema = zm.object({ when: zm.date(), size: zm.optional(zm.bigint()) });
    expect(compileSchema(schema).validate({ when: iso, size: 2 })).toEqual({
      ok: true,
      value: { when: date, size: 2n },
    });
  });
});
