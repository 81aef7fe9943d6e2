import { describe, expect, it } from "vitest";
import * as z from "zod";
import * as zm from "zod/mini";
import { compileSchema } from "./compile-schema.ts";

const weather = z.object({ city: z.string().min(1), days: z.int().min(1).default(3) });

describe("a Zod 4 schema", () => {
  it("parses at once, with defaults and transforms", () => {
    const schema = weather.extend({ tags: z.string().transform((text) => text.split(",")) });
    const value = Object.freeze({ city: "Oslo", tags: "a,b" });
    expect(compileSchema(schema).kind).toBe("zod4");
    expect(compileSchema(schema).validate(value)).toEqual({
      ok: true,
      value: { city: "Oslo", days: 3, tags: ["a", "b"] },
    });
  });

  it("parses zod/mini", () => {
    const schema = zm.object({ city: zm.string().check(zm.minLength(2)), days: zm.optional(zm.number()) });
    expect(compileSchema(schema).validate({ city: "Oslo" })).toEqual({ ok: true, value: { city: "Oslo" } });
    expect(compileSchema(schema).validate({ city: "O" })).toMatchObject({
      ok: false,
      issues: [{ path: "city", expected: "string of at least 2 characters", received: 'string "O"' }],
    });
  });

  it("says what is wrong in the words all schemas share", () => {
    const schema = z.object({
      a: z.string(),
      b: z.enum(["x", "y"]),
      c: z.email(),
      d: z.number().max(3),
      e: z.array(z.string()).min(2),
      f: z.union([z.string(), z.number()]),
      g: z.string().regex(/^a/),
      h: z.object({ i: z.boolean() }),
      j: z.string().min(1, "Name the file."),
      k: z.number().multipleOf(5),
      l: z.literal(7),
    });
    const value = { b: "z", c: "m", d: 4, e: ["a"], f: true, g: "b", h: { i: "no" }, j: "", k: 3, l: 8 };
    const outcome = compileSchema(schema).validate(value);
    expect("ok" in outcome && !outcome.ok && outcome.issues.map((issue) => issue.message)).toEqual([
      "`a` is missing: expected string.",
      'Expected one of "x", "y" at `b`, got string "z".',
      'Expected string in email format at `c`, got string "m".',
      "Expected number ≤ 3 at `d`, got number 4.",
      "Expected array of at least 2 items at `e`, got array of 1 item.",
      "Expected string or number at `f`, got boolean true.",
      'Expected string matching /^a/ at `g`, got string "b".',
      'Expected boolean at `h.i`, got string "no".',
      "`j`: Name the file.",
      "Expected multiple of 5 at `k`, got number 3.",
      "Expected 7 at `l`, got number 8.",
    ]);
  });

  it("says in words what a check without a message, a key or a discriminator is about", () => {
    const shapes = [z.object({ t: z.literal("p") }), z.object({ t: z.literal("q") })] as const;
    const schema = z.object({
      a: z.string().refine(() => false),
      b: z.record(z.string().min(3), z.number()),
      c: z.discriminatedUnion("t", shapes),
    });
    const outcome = compileSchema(schema).validate({ a: "x", b: { k: 1 }, c: { t: "r" } });
    expect("ok" in outcome && !outcome.ok && outcome.issues.map((issue) => issue.message)).toEqual([
      'Expected a value that the tool\'s own check accepts at `a`, got string "x".',
      'Expected a key that is string of at least 3 characters at `b.k`, got string "k".',
      'Expected one of "p", "q" at `c.t`, got string "r".',
    ]);
  });

  it("narrows a union to the branch that was meant", () => {
    const schema = z.object({
      shape: z.union([
        z.object({ kind: z.literal("circle"), radius: z.number() }),
        z.object({ kind: z.literal("square"), side: z.number() }),
      ]),
    });
    expect(compileSchema(schema).validate({ shape: { kind: "square" } })).toMatchObject({
      ok: false,
      issues: [{ path: "shape.side", expected: "number", received: "nothing" }],
    });
  });

  it("names dropped keys, and refuses them in strict mode", () => {
    const compiled = compileSchema(weather);
    expect(compiled.validate({ city: "Oslo", dyas: 2 })).toEqual({
      ok: true,
      value: { city: "Oslo", days: 3 },
      dropped: ["dyas"],
    });
    expect(compiled.validate({ city: "Oslo", dyas: 2 }, { strict: true })).toMatchObject({
      ok: false,
      issues: [{ path: "dyas", message: "`dyas` is not a known key; did you mean `days`?" }],
    });
    expect(compiled.validate({ city: "", x: 2 }, { strict: true })).toMatchObject({
      issues: [{ path: "x" }, { path: "city" }],
    });
  });

  it("sees the keys through wrappers, and leaves open objects open", () => {
    const wrapped = weather
      .refine(() => true)
      .transform((value) => value)
      .optional();
    expect(compileSchema(wrapped).validate({ city: "a", x: 1 }, { strict: true })).toMatchObject({
      ok: false,
    });
    const loose = z.looseObject({ a: z.string() });
    expect(compileSchema(loose).validate({ a: "x", b: 1 }, { strict: true })).toEqual({
      ok: true,
      value: { a: "x", b: 1 },
    });
    const both = z.intersection(z.object({ a: z.string() }), z.object({ b: z.string() }));
    expect(compileSchema(both).validate({ a: "x", b: "y", c: 1 })).toMatchObject({
      ok: true,
      dropped: ["c"],
    });
  });

  it("suggests the nearest key of a strict object", () => {
    expect(
      compileSchema(z.strictObject({ city: z.string() })).validate({ city: "a", citty: "b" }),
    ).toMatchObject({
      issues: [{ path: "citty", message: "`citty` is not a known key; did you mean `city`?" }],
    });
  });

  it("answers with a promise exactly when a check is asynchronous", async () => {
    const asyncFunction = weather.refine(async ({ city }) => city !== "Nowhere", "There is no such city.");
    const wrapped = weather.superRefine((_value, _context) => Promise.resolve());
    for (const schema of [asyncFunction, wrapped]) {
      const outcome = compileSchema(schema).validate({ city: "Oslo" });
      expect(outcome).toBeInstanceOf(Promise);
      expect(await outcome).toMatchObject({ ok: true, value: { city: "Oslo", days: 3 } });
    }
    expect(await compileSchema(asyncFunction).validate({ city: "Nowhere" })).toMatchObject({
      ok: false,
      issues: [{ message: "There is no such city." }],
    });
    expect(compileSchema(weather.refine(() => true)).validate({ city: "Oslo" })).toMatchObject({ ok: true });
  });

  it("finds an asynchronous check that only some values reach", async () => {
    const schema = z.object({
      a: z.optional(z.string().superRefine(() => Promise.resolve())),
      b: z.string(),
    });
    const compiled = compileSchema(schema);
    expect(compiled.validate({ b: "x" })).toMatchObject({ ok: true });
    expect(await compiled.validate({ a: "y", b: "x" })).toMatchObject({ ok: true });
  });

  it("turns a callback that throws or rejects into an issue", async () => {
    const throws = z.object({
      a: z.string().refine(() => {
        throw new Error("no disk");
      }),
    });
    expect(await compileSchema(throws).validate({ a: "x" })).toMatchObject({
      ok: false,
      issues: [{ message: "The value could not be checked: no disk" }],
    });
    const rejects = z.object({ a: z.string().superRefine(() => Promise.reject(new Error("no net"))) });
    expect(await compileSchema(rejects).validate({ a: "x" })).toMatchObject({
      ok: false,
      issues: [{ message: "The value could not be checked: no net" }],
    });
  });

  it("takes no harm from __proto__ keys, depth and circles", () => {
    const open = compileSchema(z.object({ a: z.any() }));
    const outcome = open.validate(JSON.parse('{"a":{"__proto__":{"x":1},"b":1}}'));
    expect(JSON.stringify(outcome)).toBe('{"ok":true,"value":{"a":{"b":1}}}');
    let deep: unknown = 1;
    for (let level = 0; level < 100_000; level++) deep = [deep];
    expect(open.validate({ a: deep })).toMatchObject({ ok: false });
    const circular: Record<string, unknown> = {};
    circular.a = circular;
    expect(open.validate(circular)).toMatchObject({ ok: false, issues: [{ path: "a" }] });
    expect(open.validate(undefined)).toMatchObject({
      ok: false,
      issues: [{ path: "", received: "nothing" }],
    });
  });

  it("gives instances of classes to the schema as they are", () => {
    const when = new Date();
    expect(compileSchema(z.object({ when: z.date() })).validate({ when })).toEqual({
      ok: true,
      value: { when },
    });
  });
});
