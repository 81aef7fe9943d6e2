import { Tool } from "@toolrack/core";

export const modernSchema = Tool.define({
  name: "json_schema_2020_12_tool",
  description: "Has a schema that uses what JSON Schema 2020-12 brought.",
  parameters: {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    type: "object",
    $defs: {
      address: {
        $anchor: "addressDef",
        type: "object",
        properties: { street: { type: "string" }, city: { type: "string" } },
      },
    },
    properties: {
      name: { type: "string" },
      address: { $ref: "#/$defs/address" },
      contactMethod: { type: "string", enum: ["phone", "email"] },
      phone: { type: "string" },
      email: { type: "string" },
    },
    allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
    if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema.
    then: { required: ["phone"] },
    else: { required: ["email"] },
    additionalProperties: false,
  },
  execute: async ({ input }) => JSON.stringify(input),
});

export const headers = Tool.define({
  name: "test_x_mcp_header",
  description: "Has an argument that clients repeat in a header.",
  parameters: {
    type: "object",
    properties: { region: { type: "string", "x-mcp-header": "Region" }, query: { type: "string" } },
    required: ["region"],
  },
  execute: async ({ input }) => JSON.stringify(input),
});
