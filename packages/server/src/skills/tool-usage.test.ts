import { describe, expect, it } from "vitest";
import { readUsage } from "./tool-usage.ts";

const schema = { type: "object", properties: { q: { type: "string" } }, required: ["q"] };

describe("usage", () => {
  it.each([
    ["a whole JSON Schema", JSON.stringify(schema)],
    ["{parameters}", JSON.stringify({ parameters: schema })],
    [
      "{parameters} with a name and a description",
      JSON.stringify({ name: "x", description: "y", parameters: schema }),
    ],
    ["{properties}", JSON.stringify({ properties: schema.properties, required: ["q"] })],
    ["{properties} with required members", '{"properties":{"q":{"type":"string","required":true}}}'],
    ["the short list", '[{"name":"q","type":"str","required":true}]'],
    ["the short list in {parameters}", '{"parameters":[{"name":"q","type":"string","required":true}]}'],
    [
      "what OpenAI is sent",
      JSON.stringify({ type: "function", function: { name: "x", parameters: schema } }),
    ],
    ["lines of Markdown", "- `q` (string, required)"],
  ])("takes %s", (_form, text) => {
    expect(readUsage(text).parameters).toEqual(schema);
  });

  it("takes lines out of the description when it says nothing itself", () => {
    const { parameters } = readUsage("", "搜索网络\n- `q`（string，必填）：搜索词\n- `limit` (int): at most");
    expect(parameters).toEqual({
      type: "object",
      properties: {
        q: { type: "string", description: "搜索词" },
        limit: { type: "integer", description: "at most" },
      },
      required: ["q"],
    });
    expect(readUsage(" ", "Searches.").parameters).toBeUndefined();
    expect(readUsage("{}").parameters).toEqual({ type: "object", properties: {} });
  });

  it("keeps to itself where parameters go, and what is fixed", () => {
    const { parameters, places, settings } = readUsage(
      JSON.stringify({
        parameters: {
          properties: {
            id: { type: "string", in: "path" },
            key: { type: "string" },
            n: { type: "number", as: "limit" },
          },
          required: ["id", "key", "n"],
        },
        arguments: { key: "fixed" },
        defaults: { n: 5 },
      }),
    );
    expect(parameters).toEqual({
      type: "object",
      properties: { id: { type: "string" }, n: { type: "number", default: 5 } },
      required: ["id"],
    });
    expect([...places]).toEqual([
      ["id", { in: "path" }],
      ["n", { as: "limit" }],
    ]);
    expect(settings.arguments).toEqual({ key: "fixed" });
  });

  it("takes settings beside the parameters, and beside the properties of a schema", () => {
    const settings = { timeout: 500, output: "text", dangerous: true };
    for (const text of [
      { parameters: schema, ...settings },
      { ...schema, ...settings },
    ]) {
      const usage = readUsage(JSON.stringify(text));
      expect(usage.parameters).toEqual(schema);
      expect(usage.settings).toMatchObject(settings);
    }
    expect(() => readUsage('{"properties":{},"timeout":"long"}')).toThrow(/usage.timeout must be/);
  });

  it.each([
    ["{", /not JSON/],
    ["null", /says nothing/],
    ["42", /says nothing/],
    ['"text"', /says nothing/],
    ['{"query":{"type":"string"}}', /neither "parameters" nor "properties"/],
    ['{"parameters":"q"}', /not an object/],
    ['{"parameters":{"q":{"type":"string"}}}', /no JSON Schema/],
    ['{"properties":{"q":{"type":"strange"}}}', /no valid JSON Schema/],
    ['[{"type":"string"}]', /usage\[0\] has no "name"/],
    ['[{"name":"a"},{"name":"a"}]', /twice/],
    ['[{"name":"a","type":"blob"}]', /the type "blob"/],
    ['{"parameters":{"properties":{}},"header":{}}', /unknown setting "header"/],
    ['{"parameters":{"properties":{}},"headers":{"a":1}}', /usage.headers must be an object of texts/],
    ['{"parameters":{"properties":{}},"environment":{"A B":"x"}}', /usage.environment/],
    ['{"properties":{"q":{"in":"cookie"}}}', /path, query, header or body/],
  ])("says what is wrong with %s", (text, reason) => {
    expect(() => readUsage(text)).toThrow(reason);
  });
});
