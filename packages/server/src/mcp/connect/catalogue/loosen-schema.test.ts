import { AjvJsonSchemaValidator } from "@modelcontextprotocol/client/validators/ajv";
import { compileSchema, type JsonSchemaObject } from "@toolrack/core";
import { schemaKeywords } from "@toolrack/core/internal/schema";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { loosenSchema } from "./usable-schema.ts";

const draft7 = "http://json-schema.org/draft-07/schema#";
const plainKeywords = [
  ...[
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "$id",
    "$anchor",
    "$dynamicAnchor",
    "$recursiveAnchor",
    "$schema",
  ],
  ...[
    "type",
    "enum",
    "const",
    "default",
    "pattern",
    "format",
    "required",
    "dependentRequired",
    "dependencies",
  ],
  ...[
    "minimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "uniqueItems",
    "nullable",
    "maxContains",
    "x-own",
  ],
];
const bad = { type: "string", pattern: "(?i)abc" };
const object = (properties: object, rest: object = {}) => ({ type: "object", properties, ...rest });

async function accepts(schema: JsonSchemaObject, value: unknown): Promise<boolean> {
  return (await compileSchema(loosenSchema(schema).schema).validate(value)).ok;
}

const pathsOf = (schema: JsonSchemaObject) => loosenSchema(schema).unchecked.map(({ path }) => path);

describe("a schema that can be used", () => {
  it.each<JsonSchemaObject>([
    {},
    object({ a: { $ref: "#/$defs/any" }, b: { $ref: "#" } }, { $defs: { any: true } }),
    object(
      { a: { $ref: "item" } },
      { $id: "http://x/root", $defs: { item: { $id: "item", type: "string" } } },
    ),
    {
      $schema: draft7,
      definitions: { q: { $id: "#q" } },
      ...object({ a: { $ref: "#q" }, b: { $ref: "#/definitions/q" } }),
    },
    object({ a: { $id: "#/properties/a" }, b: { $ref: "#/properties/a" } }),
    object({ a: { $ref: "https://json-schema.org/draft/2020-12/schema" } }),
    object(
      { a: { oneOf: [{ type: "string" }] } },
      { not: { required: ["b"] }, unevaluatedProperties: false },
    ),
  ])("stays as it is: %j", (schema) => {
    expect(loosenSchema(schema)).toEqual({ schema, unchecked: [] });
    expect(loosenSchema(schema).schema).toBe(schema);
  });
});

describe("what cannot be used", () => {
  it("is left out at its place, and all the rest is checked", async () => {
    const schema = object({ a: { ...bad, minLength: 2, description: "Letters" }, b: { type: "integer" } });
    expect(loosenSchema(schema)).toEqual({
      schema: object({ a: { type: "string", minLength: 2, description: "Letters" }, b: { type: "integer" } }),
      unchecked: [
        { path: "properties.a.pattern", problem: expect.stringMatching(/^is not a regular expression: /) },
      ],
    });
    expect(await accepts(schema, { a: "x" })).toBe(false);
    expect(await accepts(schema, { a: "xy", b: "no" })).toBe(false);
    expect(await accepts(schema, { a: "xy", b: 1 })).toBe(true);
  });

  it.each<[string, object, string[]]>([
    ["a type that nobody knows", { type: "strnig" }, ["type"]],
    ["one of several types that nobody knows", { type: ["string", "file"] }, ["type"]],
    ["a reference to nothing", { $ref: "#/$defs/none" }, ["$ref"]],
    ["a reference to another document", { $ref: "http://127.0.0.1:9/x.json" }, ["$ref"]],
    ["a reference to an anchor that is not there", { $ref: "#none" }, ["$ref"]],
    ["a reference to what is no schema", { $ref: "#/required" }, ["$ref"]],
    ["a reference to where no schema is looked for", { $ref: "#/x-kept/odd" }, ["$ref"]],
    ["a dynamic reference to nothing", { $dynamicRef: "#none" }, ["$dynamicRef"]],
    ["the metaschema of another draft", { $ref: draft7 }, ["$ref"]],
    ["a reference inside a document of its own", { $id: "http://x/y", $ref: "#/nope" }, ["$ref"]],
    ["a reference that leads back to itself", { $ref: "#/properties/a" }, [""]],
    ["an address that is none", { $id: "http://[" }, ["$id"]],
    ["an empty enum", { enum: [] }, ["enum"]],
    ["a limit that is no number", { minimum: "1", exclusiveMaximum: "9" }, ["minimum", "exclusiveMaximum"]],
    ["members that are no schemas", { anyOf: ["string", { type: "null" }] }, ["anyOf.0"]],
    ["a list that is none", { allOf: { type: "string" } }, ["allOf"]],
    [
      "names that are none",
      { required: "a", dependentRequired: { a: "b", c: ["d"] } },
      ["required", "dependentRequired.a"],
    ],
  ])("%s", async (_, part, places) => {
    const schema = object(
      { a: part, n: { type: "integer" } },
      { required: ["n"], "x-kept": { odd: { type: "?" } } },
    );
    const expected = places.map((place) => ["properties.a", place].filter(Boolean).join("."));
    expect(pathsOf(schema).toSorted()).toEqual(expected.toSorted());
    expect(await accepts(schema, { a: "x", n: 1 })).toBe(true);
    expect(await accepts(schema, { a: "x", n: "one" })).toBe(false);
    // As clients do that refuse a whole list of tools for one schema.
    new AjvJsonSchemaValidator().getValidator(loosenSchema(schema).schema);
  });

  it("is left out of definitions that are named twice, too deep or without end", async () => {
    const twice = object({ a: { $anchor: "x", type: "string" }, b: { $anchor: "x", type: "number" } });
    expect(pathsOf(twice)).toHaveLength(1);
    expect([await accepts(twice, { a: "x", b: 1 }), await accepts(twice, { a: 1, b: 1 })]).toEqual([
      true,
      false,
    ]);

    let deep: object = { type: "object" };
    for (let depth = 0; depth < 3_000; depth++) deep = { properties: { a: deep } };
    expect(pathsOf(deep as JsonSchemaObject)).toHaveLength(1);
    expect(await accepts(deep as JsonSchemaObject, { a: { a: {} } })).toBe(true);

    const $defs = Object.fromEntries(
      Array.from({ length: 30 }, (_, index) => {
        const $ref = `#/$defs/d${index + 1}`;
        return [`d${index}`, index === 29 ? { type: "string" } : { allOf: [{ $ref }, { $ref }] }];
      }),
    );
    const many = object({ a: { $ref: "#/$defs/d0" }, n: { type: "integer" } }, { $defs });
    expect(pathsOf(many).length).toBeGreaterThan(0);
    expect([await accepts(many, { a: "x", n: 1 }), await accepts(many, { n: "x" })]).toEqual([true, false]);
  });

  it("takes with it what stands beside a reference where that is void", async () => {
    const schema = {
      $schema: draft7,
      ...object({ a: { $ref: "#/definitions/none", type: "integer", title: "A" } }),
    };
    expect(loosenSchema(schema).schema.properties).toEqual({ a: { title: "A" } });
    expect(await accepts(schema, { a: "x" })).toBe(true);
  });

  it("is the whole of an object without a keyword", () => {
    expect(loosenSchema({ city: { type: "string" } })).toEqual({
      schema: {},
      unchecked: [{ path: "", problem: "has no keyword of JSON Schema." }],
    });
  });

  it("is found in time also where it is most of the schema", () => {
    const properties = Object.fromEntries(
      Array.from({ length: 20_000 }, (_, index) => [`p${index}`, "string"]),
    );
    expect(pathsOf({ type: "object", properties })).toHaveLength(20_000);
  });
});

it("whatever was given, a validator can use what is left", async () => {
  const value = fc.constantFrom<unknown>(
    ...[
      1,
      -1,
      true,
      null,
      "string",
      "object",
      "(?i)x",
      "#",
      "#/$defs/a",
      "#a",
      "a",
      "http://x/y",
      "http://[",
    ],
    ...[[], ["a"], ["string", 5], {}, draft7],
  );
  const name = fc.constantFrom("a", "b", "(?i)x", "toString", "__proto__");
  const { schema } = fc.letrec((tie) => ({
    part: fc.oneof({ maxDepth: 4 }, value, tie("schema")),
    schema: fc
      .tuple(
        fc.dictionary(fc.constantFrom(...plainKeywords), value, { maxKeys: 3 }),
        fc.dictionary(
          fc.constantFrom(...schemaKeywords),
          fc.oneof(
            tie("part"),
            fc.array(tie("part"), { maxLength: 2 }),
            fc.dictionary(name, tie("part"), { maxKeys: 2 }),
          ),
          { maxKeys: 2 },
        ),
      )
      .map(([plain, parts]) => ({ ...plain, ...parts })),
  }));
  await fc.assert(
    fc.asyncProperty(schema, async (given) => {
      const loose = loosenSchema(given as JsonSchemaObject).schema;
      expect(loosenSchema(loose)).toEqual({ schema: loose, unchecked: [] });
      await compileSchema(loose).validate({ a: 1 });
    }),
    { numRuns: 300 },
  );
});

/** A value that the whole schema accepts is never refused by what is left of it. */
describe("what would refuse more without it", () => {
  it.each<[string, object, unknown]>([
    ["not", object({ a: { not: bad } }), { a: "x" }],
    ["not, by a reference", object({ a: { not: { $ref: "#/$defs/x" } } }, { $defs: { x: bad } }), { a: "x" }],
    ["one of several", object({ a: { oneOf: [bad, { const: "x" }] } }), { a: "x" }],
    [
      "one of several beside others",
      object({ a: { anyOf: [{ type: "string" }], oneOf: [bad, { const: "x" }] } }),
      { a: "x" },
    ],
    // biome-ignore lint/suspicious/noThenProperty: it is a keyword of JSON Schema.
    ["if", object({ a: { if: bad, then: { type: "number" } } }), { a: "x" }],
    ["not too many", object({ a: { contains: bad, maxContains: 1 } }), { a: ["x", "y"] }],
    [
      "keys by a pattern",
      object({}, { patternProperties: { "(?i)^x": {} }, additionalProperties: false }),
      { X: 1 },
    ],
    ["keys elsewhere", object({}, { allOf: [{ $ref: "#/nope" }], unevaluatedProperties: false }), { b: 1 }],
    ["items elsewhere", object({ a: { prefixItems: 5, items: { type: "string" } } }), { a: [1] }],
  ])("%s", async (_, schema, value) => {
    expect(await accepts(schema as JsonSchemaObject, value)).toBe(true);
  });

  it("still refuses what no part of it accepts", async () => {
    const schema = object({ a: { oneOf: [bad, { const: 1 }] } });
    expect([await accepts(schema, { a: 1 }), await accepts(schema, { a: 2 })]).toEqual([true, false]);
  });

  it.each<[string, object]>([
    ["a reference", { allOf: [{ $ref: "#/$defs/none" }] }],
    ["a pattern", { patternProperties: { "(?i)^x": {} } }],
    ["a definition", { $ref: "#/$defs/rest", $defs: { rest: { $ref: "http://x/y" } } }],
  ])("keeps keys that only %s spoke of", async (_, rest) => {
    const { schema } = loosenSchema(object({ a: {} }, rest));
    expect(await compileSchema(schema).validate({ a: 1, x1: 2 })).toEqual({
      ok: true,
      value: { a: 1, x1: 2 },
    });
  });
});
