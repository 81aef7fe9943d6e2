import { expect, it } from "vitest";
import { hintsOf } from "./hints-of.ts";
import { normalise } from "./normalise.ts";

const hints = (schema: unknown) =>
  hintsOf(normalise(schema)).map(({ name, values }) => [name, ...Object.values(values)]);

it("tells the bounds of numbers, as every draft writes them", () => {
  expect(hints({ type: "integer", minimum: 1, maximum: 50 })).toEqual([["between", 1, 50]]);
  expect(hints({ type: "number", exclusiveMinimum: 0, maximum: 1 })).toEqual([
    ["above", 0],
    ["most", 1],
  ]);
  expect(hints({ type: "number", minimum: 0, exclusiveMinimum: true })).toEqual([["above", 0]]);
  expect(hints({ type: "number", multipleOf: 5 })).toEqual([["multiple", 5]]);
});

it("tells the lengths, forms and patterns of texts, and how many items there may be", () => {
  expect(hints({ type: "string", minLength: 2, pattern: "^a" })).toEqual([
    ["leastLength", 2],
    ["pattern", "^a"],
  ]);
  expect(hints({ type: "string", format: "email", maxLength: 9 })).toEqual([
    ["mostLength", 9],
    ["format", "email"],
  ]);
  expect(hints({ type: "array", items: {}, minItems: 1, maxItems: 3 })).toEqual([["betweenItems", 1, 3]]);
});

it("says nothing where nothing is asked", () => {
  for (const schema of [
    { type: "string", format: "password" },
    { type: "array", items: {}, minItems: 0 },
    {},
    { type: "boolean" },
  ])
    expect(hints(schema)).toEqual([]);
});
