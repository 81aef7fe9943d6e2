import { describe, expect, it } from "vitest";
import { issuePath } from "./issue.ts";
import { KeyGuide } from "./known-keys.ts";
import type { JsonSchemaObject } from "./visit.ts";

function find(schema: JsonSchemaObject, value: unknown) {
  const { unlisted, doubtful } = new KeyGuide(schema).find(value);
  const paths = (keys: typeof unlisted) => keys.map(({ parent, key }) => issuePath([...parent, key]));
  return { unlisted: paths(unlisted), doubtful: paths(doubtful) };
}

const unlisted = (schema: JsonSchemaObject, value: unknown) => find(schema, value).unlisted;

const point = { properties: { x: {}, y: {} } };

describe("a key that the schema does not list", () => {
  it("is found at any depth", () => {
    const schema = {
      properties: {
        a: point,
        list: { items: point },
        pair: { prefixItems: [point, {}], items: point },
        old: { items: [point], additionalItems: point },
        map: { additionalProperties: point },
        named: { patternProperties: { "^p": point } },
      },
    };
    const value = {
      a: { x: 1, z: 1 },
      list: [{ x: 1 }, { q: 1 }],
      pair: [{ z: 1 }, { free: 1 }, { z: 1 }],
      old: [{ z: 1 }, { z: 1 }],
      map: { any: { z: 1 } },
      named: { p1: { z: 1 }, z: 1 },
      b: 1,
    };
    expect(unlisted(schema, value)).toEqual([
      "a.z",
      "list[1].q",
      "pair[0].z",
      "pair[2].z",
      "old[0].z",
      "old[1].z",
      "map.any.z",
      "named.p1.z",
      "b",
    ]);
  });

  it("is found through references, recursion and parts that belong together", () => {
    const tree = { properties: { name: {}, children: { items: { $ref: "#" } } } };
    expect(unlisted(tree, { children: [{ name: 1, children: [{ nmae: 1 }] }] })).toEqual([
      "children[0].children[0].nmae",
    ]);
    const both = { allOf: [{ $ref: "#/$defs/point" }, { properties: { z: {} } }], $defs: { point } };
    expect(unlisted(both, { x: 1, z: 1, w: 1 })).toEqual(["w"]);
    const conditional = { ...point, if: { required: ["v"] }, else: { properties: { z: {} } } };
    expect(unlisted(conditional, { v: 1, z: 1, w: 1 })).toEqual(["w"]);
    const older = { ...point, dependencies: { x: { properties: { z: {} } }, y: ["v"] } };
    expect(unlisted(older, { v: 1, z: 1, w: 1 })).toEqual(["w"]);
  });

  it("is found in alternatives, where only those count that the value can mean", () => {
    const circle = { properties: { kind: { const: "circle" }, radius: {} }, required: ["kind", "radius"] };
    const square = { properties: { kind: { enum: ["square"] }, side: {} }, required: ["kind"] };
    for (const schema of [{ anyOf: [circle, square] }, { oneOf: [square, { type: "null" }, circle] }]) {
      expect(unlisted(schema, { kind: "circle", radius: 1, side: 2 })).toEqual(["side"]);
      expect(unlisted(schema, { kind: "square", side: 1, radius: 2 })).toEqual(["radius"]);
    }
    const star = { kind: "star", side: 1, radius: 2, z: 1 };
    expect(unlisted({ anyOf: [circle, square] }, star)).toEqual(["z"]);
  });

  it("is in doubt where more than one alternative fits and not all list it", () => {
    const schema = { properties: { id: {} }, anyOf: [{ properties: { a: {} } }, { properties: { b: {} } }] };
    expect(find(schema, { id: 1, a: 1, b: 1, c: 1 })).toEqual({ unlisted: ["c"], doubtful: ["a", "b"] });
  });

  it("is known when it is only mentioned", () => {
    const schema = {
      ...point,
      required: ["r"],
      dependentRequired: { d: ["e"] },
      dependentSchemas: { f: {} },
    };
    expect(unlisted(schema, { r: 1, d: 1, e: 1, f: 1, g: 1 })).toEqual(["g"]);
  });

  it("is looked for under limits and prohibitions too", () => {
    const schema = { ...point, minProperties: 1, not: { required: ["w"] } };
    expect(unlisted(schema, { x: 1, z: 1 })).toEqual(["z"]);
  });

  it.each([
    ["lists no properties", { type: "object" }],
    ["speaks of other keys", { ...point, additionalProperties: {} }],
    ["forbids other keys, which it then refuses itself", { ...point, additionalProperties: false }],
    ["speaks of other keys in a part", { ...point, allOf: [{ unevaluatedProperties: true }] }],
    ["has a rule for names", { ...point, propertyNames: { maxLength: 3 } }],
    ["has an alternative that lists none", { anyOf: [point, { type: "object" }] }],
    ["refers to what cannot be followed", { ...point, $ref: "other.json" }],
    ["is true", { properties: { z: true } }],
  ])("is left alone when the schema %s", (_name, schema) => {
    expect(unlisted(schema, { z: { z: 1 } })).toEqual([]);
    expect(unlisted({ properties: { inner: schema } }, { inner: { z: { z: 1 } } })).toEqual([]);
  });

  it("is left alone where one of several descriptions of a member is open", () => {
    const schema = {
      anyOf: [{ properties: { a: point } }, { properties: { a: {} } }],
    };
    expect(unlisted(schema, { a: { z: 1 } })).toEqual([]);
    expect(unlisted({ items: point, contains: {} }, [{ z: 1 }])).toEqual([]);
  });

  it("is not looked for inside instances of classes, nor beyond the first twenty", () => {
    expect(unlisted({ properties: { a: point } }, { a: new Date() })).toEqual([]);
    const many = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`k${index}`, 1]));
    expect(unlisted(point, many)).toHaveLength(20);
  });
});
