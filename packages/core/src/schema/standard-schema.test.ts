import { type } from "arktype";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { compileSchema } from "./compile-schema.ts";

describe("a Standard Schema", () => {
  it("of Valibot parses at once, names what it dropped, and says what is wrong", () => {
    const compiled = compileSchema(
      v.object({ city: v.string(), list: v.optional(v.array(v.object({ n: v.number() }))) }),
    );
    expect(compiled.kind).toBe("standard");
    expect(compiled.validate({ city: "Oslo", x: 1 })).toEqual({
      ok: true,
      value: { city: "Oslo" },
      dropped: ["x"],
    });
    expect(compiled.validate({ city: "Oslo", list: [{ n: "1" }] })).toMatchObject({
      ok: false,
      issues: [{ path: "list[0].n", expected: "number", received: 'string "1"' }],
    });
  });

  it("may be asynchronous", async () => {
    const schema = v.objectAsync({
      city: v.pipeAsync(
        v.string(),
        v.checkAsync(async (city) => city !== "Nowhere", "No such city."),
      ),
    });
    const outcome = compileSchema(schema).validate({ city: "Nowhere" });
    expect(outcome).toBeInstanceOf(Promise);
    expect(await outcome).toMatchObject({ ok: false, issues: [{ message: "`city`: No such city." }] });
  });

  it("of ArkType, a function, parses, shows its JSON Schema and can be strict", () => {
    const schema = type({ city: "string > 0", "days?": "number.integer" });
    const compiled = compileSchema(schema);
    expect(compiled.kind).toBe("standard");
    expect(compileSchema(schema)).toBe(compiled);
    expect(compiled.validate({ city: "Oslo", extra: 1 })).toEqual({
      ok: true,
      value: { city: "Oslo", extra: 1 },
    });
    expect(compiled.validate({ city: "Oslo", dayss: 1 }, { strict: true })).toMatchObject({
      ok: false,
      issues: [{ path: "dayss", message: "`dayss` is not a known key; did you mean `days`?" }],
    });
    expect(compiled.validate({ city: 4 })).toMatchObject({
      ok: false,
      issues: [{ path: "city", received: "number 4" }],
    });
    expect(compiled.jsonSchema()).toMatchObject({
      type: "object",
      properties: { city: { type: "string", minLength: 1 }, days: { type: "integer" } },
      required: ["city"],
    });
  });

  it("without a JSON Schema says what to do", () => {
    expect(() => compileSchema(v.object({})).jsonSchema()).toThrow(/valibot.*converter/s);
  });

  it("whose validator throws gives an issue", () => {
    const schema = {
      "~standard": {
        version: 1,
        vendor: "x",
        validate: () => {
          throw new Error("broken");
        },
      },
    };
    expect(compileSchema(schema).validate({})).toMatchObject({
      ok: false,
      issues: [{ message: "The value could not be checked: broken" }],
    });
  });
});
