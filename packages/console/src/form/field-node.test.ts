import { expect, it } from "vitest";
import { hintsOf, withoutSecrets } from "./field-node.ts";
import { normalise } from "./schema-reader.ts";

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

it("leaves out what is secret, wherever it is, and nothing else", () => {
  const login = { type: "object", properties: { user: { type: "string" }, password: { type: "string" } } };
  const node = normalise({
    type: "object",
    properties: {
      login,
      logins: { type: "array", items: login },
      pin: { type: "string", format: "password" },
      key: { anyOf: [{ type: "string", format: "password" }, { type: "number" }] },
      any: {},
    },
  });
  const value = {
    login: { user: "a", password: "p" },
    logins: [{ user: "b", password: "p" }],
    pin: "1234",
    key: "k",
    any: { x: [1] },
    more: true,
  };
  expect(withoutSecrets(node, value)).toEqual({
    login: { user: "a" },
    logins: [{ user: "b" }],
    any: { x: [1] },
    more: true,
  });
});
