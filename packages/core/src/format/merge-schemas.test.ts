import { describe, expect, it } from "vitest";
import { mergeSchemas } from "./schema-merge.ts";

const merge = (...schemas: Parameters<typeof mergeSchemas>[0]) => mergeSchemas(schemas, { $defs });
const $defs = { id: { type: "string" }, loop: { allOf: [{ $ref: "#/$defs/loop" }, { type: "string" }] } };

describe("mergeSchemas", () => {
  it("takes the tighter of two bounds and the common of two lists", () => {
    expect(
      merge({ type: "number", minimum: 1 }, { type: ["integer", "string"], minimum: 3, maximum: 9 }),
    ).toEqual({
      type: "integer",
      minimum: 3,
      maximum: 9,
    });
    expect(merge({ enum: ["a", "b"], maxLength: 5 }, { enum: ["b", "c"], maxLength: 3 })).toEqual({
      enum: ["b"],
      maxLength: 3,
    });
    expect(
      merge({ items: { minimum: 1 }, uniqueItems: true }, { items: { minimum: 2 }, uniqueItems: false }),
    ).toEqual({
      items: { minimum: 2 },
      uniqueItems: true,
    });
  });

  it("joins properties and keeps the first wording", () => {
    expect(
      merge(
        { description: "First", properties: { a: { type: "string" } }, required: ["a"] },
        {
          description: "Second",
          properties: { a: { minLength: 1 }, b: { $ref: "#/$defs/id" } },
          required: ["b"],
        },
      ),
    ).toEqual({
      description: "First",
      properties: { a: { type: "string", minLength: 1 }, b: { $ref: "#/$defs/id" } },
      required: ["a", "b"],
    });
  });

  it("works references in", () => {
    expect(merge({ description: "The id" }, { $ref: "#/$defs/id" })).toEqual({
      description: "The id",
      type: "string",
    });
    expect(merge(true, { type: "string" })).toEqual({ type: "string" });
  });

  it("answers nothing where one schema cannot say it", () => {
    expect(merge({ type: "string" }, { type: "number" })).toBeUndefined();
    expect(merge({ pattern: "a" }, { pattern: "b" })).toBeUndefined();
    expect(merge({ enum: [1] }, { enum: [2] })).toBeUndefined();
    expect(merge({ type: "string" }, false)).toBeUndefined();
    expect(merge({ type: "string" }, { $ref: "#/$defs/loop" })).toBeUndefined();
    expect(
      merge({ properties: { a: {} }, additionalProperties: false }, { properties: { b: {} } }),
    ).toBeUndefined();
    expect(
      merge({ additionalProperties: { type: "string" } }, { additionalProperties: { minLength: 1 } }),
    ).toBeUndefined();
  });
});
