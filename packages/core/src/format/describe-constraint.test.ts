import { expect, it } from "vitest";
import { describeConstraint, withRemarks } from "./format-notes.ts";

it("says each constraint as a model reads it", () => {
  const constraints: [string, unknown][] = [
    ["minimum", 1],
    ["maximum", 9],
    ["exclusiveMinimum", 0],
    ["exclusiveMaximum", 10],
    ["multipleOf", 5],
    ["minLength", 1],
    ["maxLength", 20],
    ["minItems", 1],
    ["maxItems", 3],
    ["minProperties", 1],
    ["maxProperties", 2],
    ["uniqueItems", true],
    ["pattern", "^a$"],
    ["format", "email"],
    ["contentEncoding", "base64"],
    ["contentMediaType", "image/png"],
    ["default", "x"],
    ["const", 7],
    ["enum", [1, 2]],
    ["examples", ["a", "b"]],
    ["required", ["a", "b"]],
    ["additionalProperties", true],
    ["additionalProperties", { type: "string" }],
    ["patternProperties", { "^x-": {} }],
    ["propertyNames", { maxLength: 3 }],
    ["dependentRequired", { card: ["address", "name"] }],
    ["contains", { const: 1 }],
    ["allOf", { minimum: 1 }],
    ["not", { const: 0 }],
    ["if", { const: 0 }],
    ["then", { const: 0 }],
    ["else", { const: 0 }],
    ["x-unit", "metre"],
  ];
  const said = constraints.map(([keyword, value]) => describeConstraint(keyword, value));
  expect(`\n${said.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    minimum 1
    maximum 9
    more than 0
    less than 10
    multiple of 5
    at least 1 character
    at most 20 characters
    at least 1 item
    at most 3 items
    at least 1 property
    at most 2 properties
    no item twice
    pattern: ^a$
    format: email
    encoding: base64
    media type: image/png
    default: "x"
    always 7
    one of: 1, 2
    for example: "a", "b"
    required: a, b
    any further properties are allowed
    every further property: {"type":"string"}
    properties by pattern of their name: {"^x-":{}}
    property names: {"maxLength":3}
    card needs address, name
    at least one item: {"const":1}
    must also match: {"minimum":1}
    must not match: {"const":0}
    if the value matches: {"const":0}
    then it must match: {"const":0}
    otherwise it must match: {"const":0}
    x-unit: "metre"
    "
  `);
});

it("says nothing of what cannot be said briefly", () => {
  expect(describeConstraint("uniqueItems", false)).toBeUndefined();
  expect(describeConstraint("pattern", "x".repeat(400))).toBeUndefined();
});

it("puts remarks behind the description", () => {
  expect(withRemarks("Age", ["minimum 1", "default: 2"])).toBe("Age (minimum 1) (default: 2)");
  expect(withRemarks(undefined, ["minimum 1"])).toBe("(minimum 1)");
  expect(withRemarks("", [])).toBeUndefined();
});
