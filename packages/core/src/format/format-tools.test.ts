import { Ajv2020 } from "ajv/dist/2020.js";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { JsonSchemaObject } from "../schema/visit.ts";
import type { ToolInfo } from "../tool/types.ts";
import { toAnthropicTools } from "./anthropic.ts";
import { toGeminiTools } from "./gemini.ts";
import { toMcpTools } from "./mcp.ts";
import { toOpenAIResponsesTools, toOpenAITools } from "./openai.ts";
import { toDefinition } from "./tools.ts";

const formats = {
  openai: (tools: ToolInfo[]) => toOpenAITools(tools),
  "openai strict": (tools: ToolInfo[]) => toOpenAITools(tools, { strict: true }),
  responses: (tools: ToolInfo[]) => toOpenAIResponsesTools(tools),
  anthropic: (tools: ToolInfo[]) => toAnthropicTools(tools),
  gemini: (tools: ToolInfo[]) => toGeminiTools(tools),
  "gemini json": (tools: ToolInfo[]) => toGeminiTools(tools, { schemaField: "parametersJsonSchema" }),
  mcp: (tools: ToolInfo[]) => toMcpTools(tools),
};

describe.each(Object.entries(formats))("every list of tools: %s", (_name, format) => {
  it("is sorted by name whatever the order it came in", () => {
    const tools = ["b", "a", "C", "a_b"].map((name) => tool(name));
    const forward = format(tools);
    expect(names(forward.tools)).toEqual(["C", "a", "a_b", "b"]);
    expect(JSON.stringify(format(tools.toReversed()).tools)).toBe(JSON.stringify(forward.tools));
  });

  it("is not spoilt by one bad tool", () => {
    const circular: Record<string, unknown> = { type: "object", properties: {} };
    circular.properties = { self: circular };
    const { tools, notes } = format([
      tool("good"),
      tool("circular", circular),
      tool("text", { type: "string" }),
      tool("good"),
    ]);
    expect(names(tools)).toEqual(["good"]);
    expect(notes.filter((note) => note.action === "left_out").map((note) => note.tool)).toEqual([
      "circular",
      "good",
      "text",
    ]);
    for (const note of notes) expect(note.message).not.toContain("\n");
  });

  it("leads back to the tool's own name, whatever the provider made of it", () => {
    const given = ["网页搜索", "1st", "a.b", "-dash", "x".repeat(200), "plain", "a b", "a/b"];
    const formatted = format(given.map((name) => tool(name)));
    const sent = names(formatted.tools);
    expect(new Set(sent).size).toBe(given.length);
    expect(sent.map(formatted.nameOf).toSorted()).toEqual(given.toSorted());
    for (const name of given) expect(formatted.nameOf(formatted.providerNameOf(name))).toBe(name);
    expect(formatted.nameOf("never_heard_of")).toBe("never_heard_of");
    expect(formatted.restore({ id: "1", name: formatted.providerNameOf("a b"), arguments: "{" })).toEqual({
      id: "1",
      name: "a b",
      arguments: "{",
    });
  });

  it("is valid JSON Schema for any schema, and leaves the schema as it was", () => {
    fc.assert(
      fc.property(schemas(), (schema) => {
        fc.pre(compiles(schema));
        const before = JSON.stringify(schema);
        const { tools, notes } = format([tool("any", schema)]);
        const left = notes.filter((note) => note.action === "left_out");
        expect(tools.length + left.length).toBe(1);
        for (const sent of tools) expect(compiles(schemaIn(sent))).toBe(true);
        expect(JSON.stringify(schema)).toBe(before);
      }),
      { numRuns: 15 },
    );
  });
});

describe("formatTools", () => {
  it("resolves a collision after renaming, the same way in every order", () => {
    const taken = toGeminiTools([tool("a b")]).tools[0]!.name;
    const both = [tool("a b"), tool(taken)];
    const forward = toGeminiTools(both);
    expect(forward.providerNameOf(taken)).toBe(taken);
    expect(forward.providerNameOf("a b")).not.toBe(taken);
    expect(toGeminiTools(both.toReversed()).tools).toEqual(forward.tools);
  });

  it("turns a tool of the rack into a definition with its JSON Schema", () => {
    const info = {
      ...tool("greet"),
      parameters: z.object({ name: z.string().describe("Whom") }),
      title: "Greet",
    };
    expect(toDefinition(info)).toMatchObject({
      name: "greet",
      title: "Greet",
      description: "Does greet.",
      inputSchema: { type: "object", properties: { name: { type: "string", description: "Whom" } } },
    });
  });

  it("leaves out a tool whose schema has no JSON form", () => {
    // A Standard Schema need not be able to write itself as JSON Schema.
    const parameters = {
      "~standard": { version: 1, vendor: "none", validate: (value: unknown) => ({ value }) },
    };
    const odd = { ...tool("odd"), parameters };
    const { tools, notes } = toOpenAITools([odd, tool("fine")]);
    expect(tools.map((entry) => entry.function.name)).toEqual(["fine"]);
    expect(notes[0]).toMatchObject({ tool: "odd", keyword: "schema", action: "left_out" });
  });
});

function tool(name: string, parameters: object = { type: "object", properties: {} }): ToolInfo {
  return {
    name,
    description: `Does ${name}.`,
    parameters,
    execute: async () => "",
    metadata: {},
    createdAt: 0,
    disabled: false,
  };
}

function names(tools: readonly unknown[]): string[] {
  return tools.map((sent) => {
    const { name, function: called } = sent as { name?: string; function?: { name: string } };
    return name ?? called?.name ?? "";
  });
}

function schemaIn(sent: unknown): JsonSchemaObject {
  const entry = sent as Record<string, JsonSchemaObject & { parameters?: JsonSchemaObject }>;
  return (
    entry.function?.parameters ??
    entry.parameters ??
    entry.parametersJsonSchema ??
    entry.input_schema ??
    entry.inputSchema ?? { type: "object" }
  );
}

const ajv = new Ajv2020({ strict: false, logger: false, validateFormats: false });

function compiles(schema: JsonSchemaObject): boolean {
  try {
    ajv.compile(schema);
    return true;
  } catch {
    return false;
  }
}

/** Schemas of every kind, valid in themselves, with references that may or may not lead somewhere. */
function schemas(): fc.Arbitrary<JsonSchemaObject> {
  const reference = fc.constantFrom("#", "#/$defs/a", "#/$defs/b", "#/properties/x");
  return fc.letrec<{ schema: JsonSchemaObject; object: JsonSchemaObject }>((tie) => {
    const some = (min: number) => fc.array(tie("schema"), { minLength: min, maxLength: 3 });
    const properties = fc.dictionary(fc.constantFrom("x", "y", "$z", "z-1"), tie("schema"), { maxKeys: 3 });
    return {
      schema: fc.oneof(
        { maxDepth: 4, depthIdentifier: "schema" },
        fc.constantFrom<JsonSchemaObject>(
          { type: "string", minLength: 2, format: "uri", default: "a" },
          { type: "integer", exclusiveMinimum: 0, maximum: 9 },
          { type: ["number", "null"], multipleOf: 2 },
          { enum: ["a", "b", null] },
          { const: 7 },
          { type: "null" },
          { type: "boolean", description: "Yes or no" },
          {},
        ),
        reference.map(($ref) => ({ $ref })),
        fc.record({ $ref: reference, description: fc.string() }),
        fc.record({ type: fc.constant("array"), items: tie("schema") }),
        fc.record({ type: fc.constant("array"), prefixItems: some(1) }),
        fc.record({ anyOf: some(1) }, { requiredKeys: ["anyOf"] }),
        fc.record({ oneOf: some(1), description: fc.string() }),
        fc.record({ allOf: some(1) }),
        fc.record({ not: tie("schema"), type: fc.constant("string") }),
        tie("object"),
      ),
      object: fc.record(
        {
          type: fc.constant("object"),
          properties,
          required: fc.uniqueArray(fc.constantFrom("x", "y", "w")),
          additionalProperties: fc.oneof(fc.boolean(), tie("schema")),
          anyOf: some(1),
          oneOf: some(1),
          allOf: some(1),
          $defs: fc.record({ a: tie("schema"), b: tie("schema") }),
        },
        { requiredKeys: ["type", "properties", "$defs"] },
      ),
    };
  }).object;
}
