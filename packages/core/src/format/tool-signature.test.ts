import { expect, test } from "vitest";
import { firstSentence, toSignatures } from "./tool-signature.ts";

const whole = (inputSchema: object, description = "") =>
  toSignatures({ name: "f", description, inputSchema: { ...inputSchema } })[0];
const withProperty = (a: unknown, more: object = {}) =>
  whole({ type: "object", properties: { a }, required: ["a"], ...more });

test("a tool is one line of TypeScript with the first sentence of its description", () => {
  const inputSchema = {
    type: "object",
    properties: { city: { type: "string" }, days: { type: "integer" }, "unit-of": { enum: ["C", "F"] } },
    required: ["city"],
  };
  expect(whole(inputSchema, "Tells the weather,\n  e.g. rain. Slow.")).toBe(
    'f(args: { city: string; days?: number; "unit-of"?: "C" | "F" }) // Tells the weather, e.g. rain.',
  );
});

test.each([
  [{ type: ["string", "null"] }, "string | null"],
  [{ type: "array", items: { type: "string" } }, "string[]"],
  [{ type: "array", items: { enum: [1, 2] } }, "(1 | 2)[]"],
  [{ type: "array" }, "unknown[]"],
  [{ anyOf: [{ type: "string" }, { type: "array", items: { type: "string" } }] }, "string | string[]"],
  [{ type: "object", additionalProperties: { type: "number" } }, "Record<string, number>"],
  [{ type: "object" }, "object"],
  [{ $ref: "#/$defs/point" }, "{ x: number; y?: number }"],
  [
    { allOf: [{ $ref: "#/$defs/point" }, { properties: { z: {} } }] },
    "{ x: number; y?: number; z?: unknown }",
  ],
  [{ $ref: "#/nowhere" }, "unknown"],
  [{ const: null }, "null"],
  [true, "unknown"],
  [{ enum: ["a\n// github", "b"] }, '"a\\n// github" | "b"'],
])("%j is %s", (schema, type) => {
  const point = { properties: { x: { type: "number" }, y: { type: "number" } }, required: ["x"] };
  expect(withProperty(schema, { $defs: { point } })).toBe(`f(args: { a: ${type} })`);
});

test.each([
  [{ type: "object" }, "f()"],
  [{}, "f()"],
  [
    { anyOf: [{ properties: { a: {} } }, { properties: { b: {} } }] },
    "f(args: { a?: unknown } | { b?: unknown })",
  ],
  [{ properties: { a: {}, b: {} }, anyOf: [{ required: ["a"] }] }, "f(args: { a?: unknown; b?: unknown })"],
])("arguments %j are %s", (schema, expected) => {
  expect(whole(schema)).toBe(expected);
});

test("shorter lines leave out inner members and values, then what is optional, and say so", () => {
  const inputSchema = {
    properties: {
      deep: { type: "object", properties: { on: { type: "object", properties: { x: {} } } } },
      kind: { enum: ["a", "b", "c", "d", "e"] },
      more: {},
    },
    required: ["deep"],
  };
  expect(toSignatures({ name: "f", inputSchema })).toEqual([
    'f(args: { deep: { on?: { x?: unknown } }; kind?: "a" | "b" | "c" | "d" | "e"; more?: unknown })',
    'f(args: { deep: { on?: object }; kind?: "a" | "b" | "c" | "d" | …; more?: unknown })',
    "f(args: { deep: object; kind?: string; more?: unknown })",
    "f(args: { deep: object; … })",
  ]);
});

test("a schema that contains itself many times ends, and no text of it is on a second line", () => {
  const node: Record<string, unknown> = { anyOf: Array.from({ length: 6 }, () => ({ $ref: "#" })) };
  node.properties = { "a\nb": node, ["long".repeat(100)]: { const: "x".repeat(500) } };
  for (const text of toSignatures({ name: "f", description: "One\r\u2028two\n\nthree", inputSchema: node })) {
    expect(text.length).toBeLessThan(20_000);
    expect(text).not.toMatch(/[\n\r\u2028]/);
  }
});

test.each([
  ["Reads a file (e.g. a.txt). Fast!", 100, "Reads a file (e.g. a.txt)."],
  ["搜索网页。返回列表", 100, "搜索网页。"],
  ["\n    Sends mail\n\n    Args:\n      to: whom", 100, "Sends mail"],
  ["No end of it at all", 10, "No end of…"],
  ["", 10, ""],
])("%j begins with a sentence", (text, longest, expected) => {
  expect(firstSentence(text, longest)).toBe(expected);
});
