import { expect, test } from "vitest";
import { schemaText } from "./search-document.ts";

test("names, descriptions, titles and enumerated values are collected from every level", () => {
  const { names, descriptions } = schemaText({
    type: "object",
    properties: {
      city: { type: "string", description: "Where" },
      unit: { enum: ["celsius", "kelvin", 3] },
      stops: { type: "array", items: { type: "object", properties: { platform: { title: "Track" } } } },
      when: { anyOf: [{ const: "now" }, { $ref: "#/$defs/range" }] },
    },
    $defs: { range: { properties: { from: { description: "First day" } } } },
  });
  expect(names).toEqual(["city", "unit", "stops", "when", "platform", "from"]);
  expect(descriptions).toEqual(["Where", "celsius", "kelvin", "Track", "now", "First day"]);
});

test("a property may be called like a keyword", () => {
  expect(schemaText({ properties: { items: {}, enum: {}, properties: {} } }).names).toEqual([
    "items",
    "enum",
    "properties",
  ]);
});

test("a schema that contains itself ends", () => {
  const node: Record<string, unknown> = { description: "node" };
  node.properties = { left: node, right: node };
  expect(schemaText(node).names.length).toBeLessThanOrEqual(1_001);
});

test("boolean and malformed schemas say nothing", () => {
  expect(schemaText(true)).toEqual({ names: [], descriptions: [] });
  expect(schemaText({ properties: ["a"], enum: "b", items: 3, $defs: null })).toEqual({
    names: [],
    descriptions: [],
  });
});
