import { Tool } from "@toolrack/core";
import { describe, expect, it } from "vitest";
import { describeType, examplePairs, parsePairs } from "./parameters.ts";

const schema = {
  type: "object",
  properties: {
    text: { type: "string" },
    count: { type: "integer" },
    ratio: { type: "number" },
    flag: { type: "boolean" },
    maybe: { anyOf: [{ type: "number" }, { type: "null" }] },
    either: { type: ["string", "number"] },
    level: { enum: [1, 2, "auto"] },
    tags: { type: "array", items: { type: "string" } },
    numbers: { type: "array", items: { $ref: "#/$defs/whole" } },
    oneOrMany: { anyOf: [{ type: "string" }, { type: "array", items: { type: "string" } }] },
    point: { $ref: "#/$defs/point" },
    "a.b": { type: "number" },
    map: { type: "object", additionalProperties: { type: "number" } },
    any: {},
    tree: { $ref: "#/$defs/tree" },
  },
  anyOf: [{ required: ["text"] }, { required: ["count"] }],
  $defs: {
    whole: { type: "integer" },
    point: { type: "object", properties: { x: { type: "number" }, label: { type: "string" } } },
    tree: { anyOf: [{ type: "string" }, { $ref: "#/$defs/tree" }] },
  },
} as const;

describe("parsePairs", () => {
  it.each([
    [["text=42"], { text: "42" }],
    [["text="], { text: "" }],
    [["text=a=b:=c"], { text: "a=b:=c" }],
    [["text=true"], { text: "true" }],
    [["text=[1]"], { text: "[1]" }],
    [["count=42", "ratio=-1.5e3"], { count: 42, ratio: -1500 }],
    [["count=many"], { count: "many" }],
    [["count="], { count: "" }],
    [["flag=yes"], { flag: true }],
    [["flag=FALSE"], { flag: false }],
    [["flag=perhaps"], { flag: "perhaps" }],
    [["maybe=null"], { maybe: null }],
    [["maybe=3"], { maybe: 3 }],
    [["either=3"], { either: "3" }],
    [["either:=3"], { either: 3 }],
    [["level=2"], { level: 2 }],
    [["level=auto"], { level: "auto" }],
    [["level=other"], { level: "other" }],
    [["tags=a"], { tags: ["a"] }],
    [["tags=a", "tags=b"], { tags: ["a", "b"] }],
    [['tags=["a","b"]'], { tags: ["a", "b"] }],
    [['tags=["a"]', "tags=b"], { tags: ["a", "b"] }],
    [["numbers=1", "numbers=2"], { numbers: [1, 2] }],
    [["oneOrMany=x"], { oneOrMany: "x" }],
    [["oneOrMany=x", "oneOrMany=y"], { oneOrMany: ["x", "y"] }],
    [["point.x=1", "point.label=7"], { point: { x: 1, label: "7" } }],
    [['point={"x":1}', "point.label=a"], { point: { x: 1, label: "a" } }],
    [["a.b=1"], { "a.b": 1 }],
    [["map.one=1", "map.two=2"], { map: { one: 1, two: 2 } }],
    [["any=1", 'text:="x"'], { any: 1, text: "x" }],
    [["any=plain"], { any: "plain" }],
    [["unknown=true"], { unknown: true }],
    [["tree=leaf"], { tree: "leaf" }],
    [["键=值"], { 键: "值" }],
  ])("%j means %j", (words, expected) => {
    expect(parsePairs(words, schema)).toEqual(expected);
  });

  it("adds to the arguments that --args gave, without changing those", () => {
    const base = { text: "a", point: { x: 1 } };
    expect(parsePairs(["text=b", "point.label=c"], schema, base)).toEqual({
      text: "b",
      point: { x: 1, label: "c" },
    });
    expect(base).toEqual({ text: "a", point: { x: 1 } });
  });

  it("a key called __proto__ is a key like any other", () => {
    const args = parsePairs(["__proto__.polluted=yes"], {});
    expect(Object.keys(args)).toEqual(["__proto__"]);
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });

  it.each([
    [["novalue"], "is no argument"],
    [["=x"], "is no argument"],
    [["text=a", "text=b"], "given twice"],
    [["any:={x"], "is not JSON"],
    [["text=a", "text.inner=b"], "already given as something else"],
  ])("%j is refused", (words, message) => {
    expect(() => parsePairs(words, schema)).toThrow(message);
  });
});

describe("describeType", () => {
  const { properties } = schema;
  it.each([
    [properties.text, "string"],
    [{ type: "integer", minimum: 1, maximum: 9 }, "integer 1–9"],
    [{ type: "string", minLength: 3 }, "string ≥ 3 characters"],
    [properties.level, '1 | 2 | "auto"'],
    [properties.maybe, "number | null"],
    [properties.numbers, "array of integer"],
    [properties.any, "any"],
    [{ type: "array", items: { type: "array", items: { type: "object" } } }, "array of array of object"],
  ])("%j", (part, words) => {
    expect(describeType(part, schema)).toBe(words);
  });
});

it("an example gives every required parameter a value that fits", async () => {
  const info = Tool.define({
    name: "x",
    parameters: {
      type: "object",
      properties: {
        text: { type: "string" },
        level: { enum: ["low", "high"] },
        size: { type: "integer", minimum: 5 },
        on: { type: "boolean" },
        place: { type: "object", properties: { x: { type: "number" } }, required: ["x"] },
        list: { type: "array", items: { type: "string" } },
        optional: { type: "string" },
      },
      required: ["text", "level", "size", "on", "place", "list"],
    },
    execute: async () => "",
  });
  expect(examplePairs(info)).toEqual([
    "text=…",
    "level=low",
    "size=5",
    "on=true",
    'place:={"x":1}',
    'list:=["…"]',
  ]);
});
