import { describe, expect, it } from "vitest";
import * as z from "zod3";
import { compileSchema } from "./compile-schema.ts";

const weather = z.object({ city: z.string().min(1), days: z.number().int().min(1).default(3) });

describe("a Zod 3 schema", () => {
  it("parses at once, names dropped keys and refuses them in strict mode", () => {
    const compiled = compileSchema(weather);
    expect(compiled.kind).toBe("zod3");
    expect(compiled.validate({ city: "Oslo", dyas: 1 })).toEqual({
      ok: true,
      value: { city: "Oslo", days: 3 },
      dropped: ["dyas"],
    });
    expect(compiled.validate({ city: "Oslo", dyas: 1 }, { strict: true })).toMatchObject({
      issues: [{ message: "`dyas` is not a known key; did you mean `days`?" }],
    });
  });

  it("says what is wrong in the words all schemas share", () => {
    const schema = z.object({
      a: z.string(),
      b: z.enum(["x", "y"]),
      c: z.string().email(),
      d: z.number().lt(3),
      e: z.array(z.string()).min(2),
      f: z.union([z.string(), z.number()]),
      g: z.literal("k"),
      h: z.object({ i: z.boolean() }).strict(),
      j: z.string().max(1, "Keep it short."),
      k: z.discriminatedUnion("t", [z.object({ t: z.literal("p") }), z.object({ t: z.literal("q") })]),
    });
    const value = {
      b: "z",
      c: "m",
      d: 4,
      e: ["a"],
      f: true,
      g: "b",
      h: { i: true, n: 1 },
      j: "ab",
      k: { t: "r" },
    };
    const outcome = compileSchema(schema).validate(value);
    expect("ok" in outcome && !outcome.ok && outcome.issues.map((issue) => issue.message)).toEqual([
      "`a` is missing: expected string.",
      'Expected one of "x", "y" at `b`, got string "z".',
      'Expected string in email format at `c`, got string "m".',
      "Expected number < 3 at `d`, got number 4.",
      "Expected array of at least 2 items at `e`, got array of 1 item.",
      "Expected string or number at `f`, got boolean true.",
      'Expected "k" at `g`, got string "b".',
      "`h.n` is not a known key; leave it out.",
      "`j`: Keep it short.",
      'Expected one of "p", "q" at `k.t`, got string "r".',
    ]);
  });

  it("says in words what a check without a message is about", async () => {
    const schema = z.object({ a: z.string().refine(() => false) });
    expect(await compileSchema(schema).validate({ a: "x" })).toMatchObject({
      issues: [{ message: 'Expected a value that the tool\'s own check accepts at `a`, got string "x".' }],
    });
  });

  it("narrows a union to the branch that was meant", () => {
    const schema = z.object({ x: z.union([z.string(), z.object({ id: z.number() })]) });
    expect(compileSchema(schema).validate({ x: { id: "1" } })).toMatchObject({
      issues: [{ path: "x.id", expected: "number", received: 'string "1"' }],
    });
  });

  it("waits for callbacks, and turns those that throw or reject into issues", async () => {
    const good = weather.refine(async ({ city }) => city !== "Nowhere", "There is no such city.");
    expect(await compileSchema(good).validate({ city: "Oslo", x: 1 })).toMatchObject({
      ok: true,
      dropped: ["x"],
    });
    expect(await compileSchema(good).validate({ city: "Nowhere" })).toMatchObject({
      issues: [{ message: "There is no such city." }],
    });
    const rejects = weather.refine(() => Promise.reject(new Error("no net")));
    expect(await compileSchema(rejects).validate({ city: "Oslo" })).toMatchObject({
      issues: [{ message: "The value could not be checked: no net" }],
    });
    const throws = z.lazy(() => z.object({ a: z.string().transform((text) => JSON.parse(text)) }));
    expect(await compileSchema(throws).validate({ a: "{" })).toMatchObject({ ok: false });
    expect(await compileSchema(throws).validate({ a: "[1]" })).toEqual({ ok: true, value: { a: [1] } });
  });

  it("takes no harm from __proto__ keys", () => {
    const open = compileSchema(z.object({ a: z.any() }).passthrough());
    const outcome = open.validate(JSON.parse('{"a":{"__proto__":{"x":1}},"__proto__":{"y":1},"b":2}'), {
      strict: true,
    });
    expect(JSON.stringify(outcome)).toBe('{"ok":true,"value":{"a":{},"b":2}}');
  });
});
