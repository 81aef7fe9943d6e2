import { expect, it } from "vitest";
import { parametersOf } from "./parameters-of.ts";

const query = { type: "string", description: "What to look for." };
const schema = { type: "object", properties: { query }, required: ["query"] };

it.each([
  ["a JSON Schema", schema],
  ["parameters with settings beside them", { parameters: schema, timeout: 5_000 }],
  ["properties alone", { properties: { query }, required: ["query"] }],
  ["a list", [{ name: "query", required: true, in: "query", ...query }]],
  ["a function as OpenAI writes it", { type: "function", function: { name: "search", parameters: schema } }],
  [
    "a parameter that says itself that it is required",
    { properties: { query: { ...query, required: true } } },
  ],
])("finds the arguments in %s", (_, usage) => {
  expect(parametersOf(usage)).toEqual(schema);
});

it.each([[undefined], ["- `query` (string)"], [{}], [{ timeout: 1 }]])(
  "takes any object where %j says nothing",
  (usage) => {
    expect(parametersOf(usage)).toEqual({ type: "object" });
  },
);
