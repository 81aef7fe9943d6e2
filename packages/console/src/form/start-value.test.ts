import { expect, it } from "vitest";
import { normalise } from "./schema-reader.ts";
import { exampleValue, startArguments, startValue } from "./start-value.ts";

const start = (schema: unknown) => startValue(normalise(schema));
const example = (schema: unknown) => exampleValue(normalise(schema));

it.each([
  [{}, 0],
  [{ minimum: 3 }, 3],
  [{ maximum: -3 }, -3],
  [{ exclusiveMinimum: 0 }, 1],
  [{ exclusiveMaximum: 0 }, -1],
  [{ minimum: 0, exclusiveMinimum: true }, 1],
  [{ minimum: 0.2, maximum: 0.8 }, 0.2],
  [{ exclusiveMinimum: 0.2, exclusiveMaximum: 0.8 }, 0.5],
  [{ type: "integer", minimum: 0.2 }, 1],
  [{ type: "integer", exclusiveMinimum: 4 }, 5],
  [{ minimum: 3, multipleOf: 5 }, 5],
  [{ maximum: -3, multipleOf: 5 }, -5],
])("begins with a number that fits %j", (bounds, value) => {
  expect(start({ type: "number", ...bounds })).toBe(value);
});

it("begins with as many items as there must be", () => {
  const people = {
    type: "array",
    minItems: 2,
    items: { type: "object", properties: { n: { type: "integer", minimum: 1 } }, required: ["n"] },
  };
  expect(start(people)).toEqual([{ n: 1 }, { n: 1 }]);
  expect(start({ type: "array", minItems: 1, uniqueItems: true, items: { enum: ["a", "b"] } })).toEqual([
    "a",
  ]);
});

it("gives an example of texts that have a form or a length, wherever they are", () => {
  const schema = {
    properties: {
      to: { type: "array", minItems: 1, items: { type: "string", format: "email" } },
      at: { type: "string", format: "date-time" },
      code: { type: "string", minLength: 6 },
      free: { type: "string" },
      short: { type: "string", maxLength: 2 },
      kind: { type: "string", default: "usual", minLength: 9 },
    },
    required: ["to", "at", "code", "free", "short", "kind"],
  };
  expect(example(schema)).toEqual({
    to: ["name@example.com"],
    at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
    code: "textte",
    free: "text",
    short: "te",
    kind: "usual",
  });
});

it("begins with defaults, fixed values and open required objects, and leaves the rest to the person", () => {
  const address = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
  const schema = {
    properties: {
      status: { enum: ["open", "paid"], default: "paid" },
      limit: { type: "integer", default: 20 },
      kind: { const: "order" },
      customer: {
        type: "object",
        properties: { name: { type: "string" }, address },
        required: ["name", "address"],
      },
      other: address,
      note: { type: "string" },
      none: { type: ["string", "null"], default: null },
    },
    required: ["kind", "customer", "note"],
  };
  expect(startArguments(normalise(schema))).toEqual({
    status: "paid",
    limit: 20,
    kind: "order",
    customer: { address: {} },
  });
});

it("fills everything in an example, also what is optional, and ends where a schema holds itself", () => {
  const schema = {
    $defs: {
      node: { type: "object", properties: { name: { type: "string" }, next: { $ref: "#/$defs/node" } } },
    },
    properties: {
      tags: { type: "array", items: { type: "string" } },
      headers: { type: "object", additionalProperties: { type: "string" } },
      since: { type: "string", format: "date" },
      old: { type: "string", deprecated: true },
      tree: { $ref: "#/$defs/node" },
    },
  };
  expect(example(schema)).toEqual({
    tags: ["text"],
    headers: { key: "text" },
    since: expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
    tree: { name: "text", next: { name: "text", next: {} } },
  });
});
