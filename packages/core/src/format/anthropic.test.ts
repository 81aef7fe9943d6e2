import { describe, expect, it } from "vitest";
import type { JsonSchemaObject } from "../schema/visit.ts";
import { parseAnthropicToolUses, toAnthropicToolResult, toAnthropicTools } from "./anthropic.ts";

const define = (name: string, inputSchema: JsonSchemaObject) => ({ name, inputSchema, metadata: {} });
const image = { type: "file", mime: "image/png", url: "data:image/png;base64,AAAA" } as const;

describe("toAnthropicTools", () => {
  it("sends the schema whole where it can", () => {
    const inputSchema = {
      type: "object",
      properties: { filter: { oneOf: [{ type: "string" }, { $ref: "#/$defs/filter" }] } },
      patternProperties: { "^x-": { type: "string" } },
      $defs: { filter: { type: "object", additionalProperties: { type: "number" } } },
    };
    const { tools, notes } = toAnthropicTools([{ ...define("find", inputSchema), description: "Finds." }]);
    expect(tools).toEqual([{ name: "find", description: "Finds.", input_schema: inputSchema }]);
    expect(notes).toEqual([]);
  });

  it("has no alternatives at the root", () => {
    const { tools } = toAnthropicTools([
      define("get", {
        type: "object",
        properties: { id: { type: "string", description: "The id" }, name: { type: "string" } },
        anyOf: [{ required: ["id"] }, { required: ["name"] }],
      }),
    ]);
    expect(tools[0]!.input_schema).toEqual({
      type: "object",
      description: "(at least one of these sets of arguments is needed: {id}; {name})",
      properties: { id: { type: "string", description: "The id" }, name: { type: "string" } },
    });
  });

  it("renames arguments it does not take, and renames them back", () => {
    const formatted = toAnthropicTools([
      define("list", {
        type: "object",
        properties: {
          "filter[name]": { type: "string" },
          filter_name: { type: "string" },
          "filter name": {},
        },
        required: ["filter[name]"],
      }),
    ]);
    const schema = formatted.tools[0]!.input_schema;
    expect(Object.keys(schema.properties as object)).toEqual([
      "filter_name_3",
      "filter_name",
      "filter_name_2",
    ]);
    expect(schema.required).toEqual(["filter_name_3"]);
    const call = { id: "1", name: "list", arguments: { filter_name_3: "a", filter_name: "b", more: 1 } };
    expect(formatted.restore(call).arguments).toEqual({ "filter[name]": "a", filter_name: "b", more: 1 });
    const broken = { id: "1", name: "list", arguments: '{"filter_name_3":' };
    expect(formatted.restore(broken).arguments).toBe('{"filter_name_3":');
  });
});

describe("calls from Anthropic", () => {
  it("reads tool uses among other blocks", () => {
    const content = [
      { type: "text", text: "Let me see." },
      { type: "tool_use", id: "toolu_1", name: "read", input: { path: "a" } },
      { type: "server_tool_use", id: "srv_1", name: "web_search", input: {} },
      { type: "tool_use", name: "read", input: '{"pa' },
    ];
    const expected = [
      { id: "toolu_1", name: "read", arguments: { path: "a" } },
      { id: "call_at_3", name: "read", arguments: '{"pa' },
    ];
    expect(parseAnthropicToolUses(content)).toEqual(expected);
    expect(parseAnthropicToolUses({ role: "assistant", content })).toEqual(expected);
    for (const odd of [undefined, null, "hi", [null], { content: "hi" }])
      expect(parseAnthropicToolUses(odd)).toEqual([]);
  });
});

describe("results to Anthropic", () => {
  it("carries text and images", () => {
    expect(toAnthropicToolResult("t", { type: "text", content: "ok" })).toEqual({
      type: "tool_result",
      tool_use_id: "t",
      content: "ok",
    });
    const audio = {
      type: "file",
      mime: "audio/wav",
      url: "data:audio/wav;base64,BB",
      filename: "a.wav",
    } as const;
    const linked = { type: "file", mime: "image/png", url: "https://example.com/a.png" } as const;
    const result = { type: "text", content: "seen", attachments: [image, audio, linked] } as const;
    expect(toAnthropicToolResult("t", result).content).toEqual([
      { type: "text", text: "seen\n[attached: a.wav, audio/wav]" },
      { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } },
      { type: "image", source: { type: "url", url: "https://example.com/a.png" } },
    ]);
  });

  it("sends no empty text", () => {
    expect(toAnthropicToolResult("t", { type: "text", content: "" })).toEqual({
      type: "tool_result",
      tool_use_id: "t",
    });
    expect(
      toAnthropicToolResult("t", { type: "text", content: "", attachments: [image] }).content,
    ).toHaveLength(1);
  });

  it("marks an error, in text alone", () => {
    const error = {
      name: "ToolExecutionError",
      code: "execution_failed",
      message: "No.",
      recoverable: true,
    } as const;
    expect(
      toAnthropicToolResult("t", { type: "error", content: "No.", error, attachments: [image] }),
    ).toEqual({
      type: "tool_result",
      tool_use_id: "t",
      content: "No.\n[attached: image/png]",
      is_error: true,
    });
  });
});
