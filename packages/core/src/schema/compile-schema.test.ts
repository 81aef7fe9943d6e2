import { describe, expect, it } from "vitest";
import * as z from "zod";
import { cpuTime } from "../../../../scripts/cpu-time.ts";
import { compileSchema } from "./compile-schema.ts";
import { SchemaError } from "./types.ts";

describe("compileSchema", () => {
  it("gives the same answer for the same object", () => {
    const schema = { type: "object" };
    expect(compileSchema(schema)).toBe(compileSchema(schema));
    expect(compileSchema({ type: "object" })).not.toBe(compileSchema(schema));
  });

  it("takes an empty object for a JSON Schema", () => {
    expect(compileSchema({}).kind).toBe("json-schema");
    expect(compileSchema(Object.create(null)).kind).toBe("json-schema");
  });

  it("recognises schemas of another copy of a library", () => {
    const copied = Object.assign(Object.create(null), {
      _zod: z.string()._zod,
      "~standard": z.string()["~standard"],
    });
    expect(compileSchema(copied).kind).toBe("zod4");
    expect(compileSchema(copied).validate("x")).toEqual({ ok: true, value: "x" });
    expect(compileSchema(copied).validate(1)).toMatchObject({ ok: false, issues: [{ expected: "string" }] });
  });

  it.each([
    ["nothing", undefined, "got nothing"],
    ["null", null, "got null"],
    ["a boolean", true, "got boolean true"],
    ["a text", '{"type":"object"}', "got string"],
    ["a list", [{ type: "string" }], "got array of 1 item"],
    ["a function", function parameters() {}, "the function `parameters`"],
    ["an instance of a class", new Map(), "an instance of `Map`"],
  ])("refuses %s", (_name, schema, words) => {
    expect(() => compileSchema(schema)).toThrow(SchemaError);
    expect(() => compileSchema(schema)).toThrow(words);
  });

  it("refuses an object in which only some members are schemas, naming the first that is not", () => {
    expect(() => compileSchema({ a: z.string(), b: "string" })).toThrow(/`b` is string "string"/);
  });

  it("refuses properties without the object around them, and says so", () => {
    expect(() => compileSchema({ city: { type: "string" } })).toThrow(/"properties"/);
  });

  it("refuses a malformed JSON Schema with the place of the mistake", () => {
    try {
      compileSchema({ type: "object", properties: { a: { type: "strin" } } });
      expect.unreachable();
    } catch (error) {
      expect(SchemaError.is(error) && error.path).toBe("properties.a.type");
    }
  });

  it("takes linear time for many schemas", () => {
    const schemas = Array.from({ length: 20_000 }, (_, index) => ({
      type: "object",
      properties: { [`a${index}`]: { type: "string" }, b: { type: "array", items: { type: "number" } } },
      required: ["b"],
    }));
    const took = cpuTime(() => {
      for (const schema of schemas) compileSchema(schema);
    });
    expect(took).toBeLessThan(2_000);
  });
});
