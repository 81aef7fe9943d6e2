import { describe, expect, it } from "vitest";
import { checkJsonSchema } from "./check-json-schema.ts";
import { SchemaError } from "./types.ts";

describe("checkJsonSchema refuses", () => {
  const cases: [string, object, string][] = [
    ["an unknown type", { type: "object", properties: { age: { type: "strin" } } }, "properties.age.type"],
    ["a type that is no name", { type: { x: 1 } }, "type"],
    ["properties that are no object", { properties: ["a"] }, "properties"],
    ["a property that is no schema", { properties: { a: "string" } }, "properties.a"],
    ["required that is no list", { items: { required: true } }, "items.required"],
    ["required with other than names", { required: ["a", 1] }, "required"],
    ["a broken pattern", { properties: { "a b": { pattern: "(" } } }, 'properties["a b"].pattern'],
    ["a broken pattern for keys", { patternProperties: { "[": {} } }, 'patternProperties["["]'],
    ["enum that is no list", { enum: "a" }, "enum"],
    ["anyOf that is no list", { anyOf: {} }, "anyOf"],
    ["a branch that is no schema", { anyOf: [{}, 1] }, "anyOf[1]"],
    ["a limit that is no number", { minimum: "3" }, "minimum"],
    ["a negative count", { minItems: -1 }, "minItems"],
    ["a flag that is no boolean", { uniqueItems: "yes" }, "uniqueItems"],
    ["dependencies that are no lists", { dependentRequired: { a: "b" } }, "dependentRequired.a"],
    ["a reference to nowhere", { $ref: "#/$defs/x", $defs: { y: {} } }, "$ref"],
    ["an anchor that is not there", { items: { $ref: "#x" } }, "items.$ref"],
    ["another document", { $ref: "https://example.com/s.json" }, "$ref"],
    ["another document beside an id", { $id: "https://a.com/s", $ref: "https://b.com/s" }, "$ref"],
    ["a file", { $ref: "other.json#/x" }, "$ref"],
  ];
  it.each(cases)("%s", (_name, schema, path) => {
    const error = errorOf(schema);
    expect(error.path).toBe(path);
    expect(error.message).toContain("Invalid JSON Schema");
  });

  it("an object that contains itself", () => {
    const circular: Record<string, unknown> = { type: "object" };
    circular.properties = { child: circular, other: { anyOf: [circular] } };
    expect(errorOf(circular).message).toContain("$ref");
  });

  const chain = (length: number, link: (next: object) => object) =>
    Object.fromEntries(
      Array.from({ length }, (_, at) => [
        `d${at}`,
        at === length - 1 ? { type: "string" } : link({ $ref: `#/$defs/d${at + 1}` }),
      ]),
    );

  it.each<[string, (next: object) => object]>([
    ["allOf", (next) => ({ allOf: [next, next] })],
    ["several keywords", (next) => ({ if: next, not: next, dependentSchemas: { a: next } })],
  ])("references that multiply through %s", (_name, link) => {
    const error = errorOf({ properties: { a: { $ref: "#/$defs/d0" } }, $defs: chain(32, link) });
    expect(error.message).toContain("more than 10000 checks");
    expect(error.path).toMatch(/^\$defs\.d\d+$/);
  });

  it("references that multiply behind addresses and anchors", () => {
    const twice = (target: string) => ({ allOf: [{ $ref: target }, { $ref: target }] });
    const $defs = Object.fromEntries(
      Array.from({ length: 32 }, (_, at) => [
        `d${at}`,
        at % 2 === 0
          ? { $id: `https://a.com/d${at}`, ...twice(`d${at + 1}#x`) }
          : { $id: `d${at}`, $anchor: "x", ...(at === 31 ? {} : twice(`https://a.com/d${at + 1}`)) },
      ]),
    );
    expect(errorOf({ $id: "https://a.com/root", $ref: "d0", $defs }).message).toContain("10000");
  });

  it.each<[string, object, string]>([
    ["itself", { properties: { a: { $ref: "#/properties/a" } } }, "properties.a"],
    ["the root from a branch of it", { anyOf: [{ type: "string" }, { $ref: "#" }] }, ""],
    [
      "one that refers back",
      { $defs: { a: { $ref: "#/$defs/b" }, b: { not: { $ref: "#/$defs/a" } } } },
      "$defs",
    ],
    ["its own anchor", { items: { $dynamicAnchor: "n", allOf: [{ $dynamicRef: "#n" }] } }, "items"],
    ["itself by $recursiveRef", { $recursiveRef: "#" }, ""],
  ])("a reference to %s that never ends", (_name, schema, path) => {
    const error = errorOf(schema);
    expect(error.message).toContain("leads back to itself");
    expect(error.path?.startsWith(path)).toBe(true);
  });

  it("a schema nested without end", () => {
    let deep: object = {};
    for (let level = 0; level < 100_000; level++) deep = { items: deep };
    expect(errorOf(deep).message).toContain("200 levels");
  });
});

describe("checkJsonSchema takes", () => {
  const cases: [string, object][] = [
    ["recursion through the root", { properties: { child: { $ref: "#" } } }],
    ["recursion through definitions", { $ref: "#/$defs/a", $defs: { a: { items: { $ref: "#/$defs/a" } } } }],
    ["escaped pointers", { $ref: "#/$defs/a~1b%20c", $defs: { "a/b c": {} } }],
    ["anchors", { $ref: "#a", $defs: { x: { $anchor: "a" } } }],
    ["its own id", { $id: "https://a.com/s", $ref: "https://a.com/s#/$defs/x", $defs: { x: {} } }],
    ["the metaschema", { $ref: "https://json-schema.org/draft/2020-12/schema" }],
    ["a pattern that Unicode rules forbid", { pattern: "^[\\w\\-\\.]+$" }],
    [
      "the same definition many times",
      { properties: manyOf({ $ref: "#/$defs/a" }), $defs: { a: manyOf({}) } },
    ],
    [
      "a large union in which each has the same part",
      { anyOf: Object.values(manyOf({ allOf: [{ $ref: "#/$defs/a" }] })), $defs: { a: {} } },
    ],
    ["a chain of references longer than the stack", { $ref: "#/$defs/0", $defs: longChain() }],
    ["unknown keywords and undefined", { "x-order": 1, foo: "bar", type: undefined }],
  ];
  it.each(cases)("%s", (_name, schema) => {
    expect(() => checkJsonSchema(schema as Record<string, unknown>)).not.toThrow();
  });

  it("one object used in several places", () => {
    const text = { type: "string" };
    expect(() => checkJsonSchema({ properties: { a: text, b: text }, items: text })).not.toThrow();
  });
});

describe("checkJsonSchema tells", () => {
  it("the dialect", () => {
    expect(checkJsonSchema({}).dialect).toBe("2020-12");
    expect(checkJsonSchema({ $schema: "http://json-schema.org/draft-07/schema#" }).dialect).toBe("draft-07");
    expect(checkJsonSchema({ $schema: "http://json-schema.org/draft-04/schema#" }).dialect).toBe("draft-07");
    expect(checkJsonSchema({ $schema: "https://json-schema.org/draft/2019-09/schema" }).dialect).toBe(
      "2019-09",
    );
  });
});

function errorOf(schema: object): SchemaError {
  try {
    checkJsonSchema(schema as Record<string, unknown>); // The cases are broken on purpose.
  } catch (error) {
    if (SchemaError.is(error)) return error;
    throw error;
  }
  throw new Error("it was not refused");
}

function manyOf(schema: object): Record<string, object> {
  return Object.fromEntries(Array.from({ length: 3_000 }, (_, at) => [`p${at}`, schema]));
}

function longChain(): Record<string, object> {
  return Object.fromEntries(
    Array.from({ length: 9_000 }, (_, at) => [at, at === 8_999 ? {} : { $ref: `#/$defs/${at + 1}` }]),
  );
}
