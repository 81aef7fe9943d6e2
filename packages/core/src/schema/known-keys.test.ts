import { describe, expect, it } from "vitest";
import { knownKeys } from "./known-keys.ts";

const names = (schema: Record<string, unknown>) => {
  const known = knownKeys(schema);
  return known && [...known.names].sort();
};

describe("knownKeys", () => {
  it("lists the properties of the root", () => {
    expect(names({ properties: { a: {}, b: {} } })).toEqual(["a", "b"]);
    expect(names({ properties: {} })).toEqual([]);
  });

  it("adds those of branches, references, conditions and dependencies", () => {
    const schema = {
      properties: { a: {} },
      required: ["r"],
      allOf: [{ properties: { b: {} } }],
      anyOf: [{ properties: { c: {} } }, { $ref: "#/$defs/x" }],
      oneOf: [{ required: ["d"] }],
      if: { properties: { e: {} } },
      // biome-ignore lint/suspicious/noThenProperty: it is a keyword of JSON Schema.
      then: { properties: { f: {} } },
      else: { properties: { g: {} } },
      dependentSchemas: { h: { properties: { i: {} } } },
      dependentRequired: { j: ["k"] },
      $defs: { x: { properties: { l: {} }, allOf: [{ $ref: "#/$defs/x" }] } },
    };
    expect(names(schema)).toEqual(["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "r"]);
  });

  it("keeps keys that match a pattern", () => {
    const known = knownKeys({ properties: { a: {} }, patternProperties: { "^x-": {} } });
    expect(known?.patterns.some((pattern) => pattern.test("x-y"))).toBe(true);
  });

  it("follows a root that is only a reference", () => {
    expect(names({ $ref: "#/$defs/args", $defs: { args: { properties: { a: {} } } } })).toEqual(["a"]);
  });

  it.each([
    ["lists no properties", { type: "object" }],
    ["lists properties only in alternatives", { anyOf: [{ properties: { a: {} } }] }],
    ["speaks of additionalProperties", { properties: { a: {} }, additionalProperties: false }],
    [
      "speaks of unevaluatedProperties in a branch",
      { properties: {}, allOf: [{ unevaluatedProperties: true }] },
    ],
    ["counts properties", { properties: { a: {} }, minProperties: 2 }],
    ["has a condition on names", { properties: { a: {} }, propertyNames: { maxLength: 3 } }],
    ["forbids something", { properties: { a: {} }, not: { required: ["b"] } }],
    ["refers to another document", { properties: { a: {} }, $ref: "https://example.com/other" }],
  ])("does not decide when the schema %s", (_name, schema) => {
    expect(knownKeys(schema)).toBeUndefined();
  });
});
