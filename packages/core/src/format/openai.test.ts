import { describe, expect, it } from "vitest";
import type { JsonSchemaObject } from "../schema/visit.ts";
import type { ToolResult } from "../tool/result.ts";
import {
  parseOpenAIResponsesCalls,
  parseOpenAIToolCalls,
  toOpenAIFunctionCallOutput,
  toOpenAIResponsesTools,
  toOpenAIToolMessage,
  toOpenAITools,
} from "./openai.ts";

const define = (name: string, inputSchema: JsonSchemaObject, description?: string) => ({
  name,
  inputSchema,
  metadata: {},
  ...(description !== undefined && { description }),
});
const image = { type: "file", mime: "image/png", url: "data:image/png;base64,AAAA" } as const;

describe("toOpenAITools", () => {
  it("sends the whole schema", () => {
    const inputSchema = {
      type: "object",
      description: "What to book",
      properties: {
        seats: { type: "integer", minimum: 1, default: 1 },
        when: { anyOf: [{ type: "string", format: "date-time" }, { type: "null" }] },
        guest: { $ref: "#/$defs/guest" },
        extra: { type: "object", additionalProperties: { type: "number" } },
      },
      required: ["guest"],
      additionalProperties: false,
      $defs: { guest: { type: "object", properties: { name: { type: "string" } } } },
    };
    const { tools, notes } = toOpenAITools([define("book", inputSchema, "Books a table.")]);
    expect(tools).toEqual([
      {
        type: "function",
        function: { name: "book", description: "Books a table.", parameters: inputSchema },
      },
    ]);
    expect(notes).toEqual([]);
  });

  it("turns alternatives at the root into one object and says which go together", () => {
    const { tools, notes } = toOpenAITools([
      define("move", {
        type: "object",
        oneOf: [
          { properties: { by: { const: "id" }, id: { type: "integer" } }, required: ["by", "id"] },
          { properties: { by: { const: "name" }, name: { type: "string" } }, required: ["by", "name"] },
        ],
      }),
    ]);
    expect(tools[0]!.function.parameters).toEqual({
      type: "object",
      description: '(exactly one of these sets of arguments is needed: {by="id", id}; {by="name", name})',
      properties: { by: { enum: ["id", "name"] }, id: { type: "integer" }, name: { type: "string" } },
      required: ["by"],
    });
    expect(notes.map((note) => [note.keyword, note.action])).toEqual([["oneOf", "rewritten"]]);
  });

  it("merges parts at the root and puts what does not merge into words", () => {
    const { tools } = toOpenAITools([
      define("save", {
        allOf: [
          { $ref: "#/definitions/base" },
          { properties: { size: { type: "integer" } }, required: ["size"] },
          { if: { required: ["a"] }, else: { required: ["b"] } },
          { if: { required: ["c"] }, else: { required: ["d"] } },
        ],
        definitions: {
          base: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
        },
      }),
    ]);
    const { parameters } = tools[0]!.function;
    expect(parameters).toMatchObject({
      type: "object",
      properties: { path: { type: "string" }, size: { type: "integer" } },
      required: ["path", "size"],
      if: { required: ["a"] },
    });
    expect(parameters.allOf).toBeUndefined();
    expect(parameters.description).toBe(
      '(must also match: {"if":{"required":["c"]},"else":{"required":["d"]}})',
    );
  });

  it("resolves a reference at the root and keeps the definitions it needs", () => {
    const node = { type: "object", properties: { next: { $ref: "#/definitions/node" } } };
    const { tools } = toOpenAITools([define("walk", { $ref: "#/definitions/node", definitions: { node } })]);
    expect(tools[0]!.function.parameters).toEqual({ ...node, definitions: { node } });
  });

  it("keeps references alive that pointed into what was rewritten", () => {
    const { tools } = toOpenAITools([
      define("pair", {
        type: "object",
        properties: {
          pair: { type: "array", items: [{ type: "string" }, { type: "number" }] },
          first: { $ref: "#/properties/pair/items/0" },
        },
      }),
    ]);
    expect(tools[0]!.function.parameters).toMatchObject({
      properties: {
        pair: { type: "array", prefixItems: [{ type: "string" }, { type: "number" }], items: {} },
        first: { $ref: "#/$defs/properties_pair_items_0" },
      },
      $defs: { properties_pair_items_0: { type: "string" } },
    });
  });

  it("writes older dialects in the words of 2020-12 and takes out what no dialect knows", () => {
    const { tools, notes } = toOpenAITools([
      define("old", {
        $schema: "http://json-schema.org/draft-04/schema#",
        type: "object",
        properties: {
          a: { type: "number", minimum: 0, exclusiveMinimum: true },
          b: { type: "string", nullable: true },
          c: { type: "any", required: true },
          d: { type: "array" },
          e: "string",
        },
        dependencies: { a: ["b"] },
      }),
    ]);
    expect(tools[0]!.function.parameters).toEqual({
      type: "object",
      properties: {
        a: { type: "number", exclusiveMinimum: 0 },
        b: { type: ["string", "null"] },
        c: {},
        d: { type: "array", items: {} },
        e: {},
      },
      dependentRequired: { a: ["b"] },
    });
    expect(notes).toContainEqual(
      expect.objectContaining({ path: "/properties/c", keyword: "type", action: "dropped" }),
    );
  });

  it("cuts a description at a word to the provider's limit", () => {
    const { tools, notes } = toOpenAITools([define("long", { type: "object" }, "word ".repeat(400))]);
    const { description } = tools[0]!.function;
    expect(description!.length).toBeLessThanOrEqual(1024);
    expect(description).toMatch(/word…$/);
    expect(notes).toMatchObject([{ tool: "long", keyword: "description", action: "shortened" }]);
  });

  it("says that strict is off in Responses, where it would be on", () => {
    expect(toOpenAIResponsesTools([define("ping", { type: "object" }, "Pings.")]).tools).toEqual([
      {
        type: "function",
        name: "ping",
        description: "Pings.",
        parameters: { type: "object", properties: {} },
        strict: false,
      },
    ]);
    expect(
      toOpenAIResponsesTools([define("ping", { type: "object" })], { strict: true }).tools[0]!.strict,
    ).toBe(true);
  });
});

describe("calls from OpenAI", () => {
  it("keeps arguments as the text the model wrote", () => {
    const message = {
      role: "assistant",
      tool_calls: [
        { id: "call_1", type: "function", function: { name: "read", arguments: '{"path":"a"}' } },
        { id: "call_2", type: "function", function: { name: "read", arguments: '{"path":' } },
      ],
    };
    expect(parseOpenAIToolCalls(message)).toEqual([
      { id: "call_1", name: "read", arguments: '{"path":"a"}' },
      { id: "call_2", name: "read", arguments: '{"path":' },
    ]);
  });

  it("reads the older form, and custom tools", () => {
    expect(parseOpenAIToolCalls({ function_call: { name: "now", arguments: "{}" } })).toEqual([
      { id: "call_at_0", name: "now", arguments: "{}" },
    ]);
    expect(
      parseOpenAIToolCalls([{ id: "c", type: "custom", custom: { name: "sql", input: "select 1" } }]),
    ).toEqual([{ id: "c", name: "sql", arguments: "select 1" }]);
  });

  it("survives malformed messages and makes missing ids from the position", () => {
    expect(parseOpenAIToolCalls({ tool_calls: [null, 3, { function: { name: 5 } }, { id: 7 }] })).toEqual([
      { id: "call_at_2", name: "", arguments: undefined },
      { id: "call_at_3", name: "", arguments: undefined },
    ]);
    for (const odd of [undefined, null, "x", 4, {}, { tool_calls: "no" }])
      expect(parseOpenAIToolCalls(odd)).toEqual([]);
    for (const odd of [undefined, null, "x", {}, [null, 1]])
      expect(parseOpenAIResponsesCalls(odd)).toEqual([]);
  });

  it("reads the calls among the items of Responses", () => {
    const output = [
      { type: "reasoning", id: "rs_1" },
      { type: "function_call", id: "fc_1", call_id: "call_9", name: "read", arguments: "{}" },
    ];
    expect(parseOpenAIResponsesCalls({ output })).toEqual([{ id: "call_9", name: "read", arguments: "{}" }]);
    expect(parseOpenAIResponsesCalls(output)).toHaveLength(1);
  });
});

describe("results to OpenAI", () => {
  it("answers with text, and names the files that text cannot carry", () => {
    expect(toOpenAIToolMessage("c", { type: "text", content: "done", attachments: [image] })).toEqual({
      role: "tool",
      tool_call_id: "c",
      content: "done\n[attached: image/png]",
    });
  });

  it("carries images in Responses", () => {
    expect(
      toOpenAIFunctionCallOutput("c", { type: "text", content: "done", attachments: [image] }).output,
    ).toEqual([
      { type: "input_text", text: "done" },
      { type: "input_image", image_url: image.url },
    ]);
    expect(toOpenAIFunctionCallOutput("c", { type: "text", content: "done" }).output).toBe("done");
  });

  it("falls back to the structured value, and to the error's message, when there is no text", () => {
    expect(toOpenAIToolMessage("c", { type: "json", content: "", structured: { a: 1 } }).content).toBe(
      '{"a":1}',
    );
    const error = {
      name: "ToolTimeoutError",
      code: "timed_out",
      message: "Too slow.",
      recoverable: true,
    } as const;
    expect(toOpenAIToolMessage("c", { type: "error", content: "", error }).content).toBe("Too slow.");
  });

  it("says in an envelope whether the call succeeded, with the value as it is, and names files beside it", () => {
    const told = (result: ToolResult) =>
      JSON.parse(toOpenAIToolMessage("c", result, { envelope: true }).content);
    expect(told({ type: "text", content: "13800138000123456789" })).toEqual({
      success: true,
      data: "13800138000123456789",
    });
    expect(told({ type: "json", content: "null" })).toEqual({ success: true, data: null });
    expect(told({ type: "json", content: '{"success":true,"data":1}', attachments: [image] })).toEqual({
      success: true,
      data: 1,
      attachments: ["[attached: image/png]"],
    });
    expect(told({ type: "text", content: "", attachments: [image] })).toEqual({
      success: true,
      data: "",
      attachments: ["[attached: image/png]"],
    });
    expect(told({ type: "error", content: "no" })).toEqual({ success: false, error: "no" });
  });
});
