import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { testDepth } from "../../../../scripts/test-depth.ts";
import { fromMcpResult, type McpCallToolResult, toMcpResult } from "../tool/mcp-result.ts";
import type { FilePart, ToolResult } from "../tool/result.ts";
import { parseMcpToolCall, toMcpTools } from "./mcp.ts";

describe("toMcpTools", () => {
  it("sends schemas as they are, with hints from the tool's metadata", () => {
    const inputSchema = {
      $schema: "http://json-schema.org/draft-07/schema#",
      properties: { pair: { type: "array", items: [{ type: "string" }] } },
      oneOf: [{ required: ["pair"] }],
    };
    const outputSchema = { type: "object", properties: { ok: { type: "boolean" } } };
    const metadata = {
      readOnly: false,
      dangerous: true,
      idempotent: true,
      annotations: { openWorldHint: true, destructiveHint: false },
      _meta: { "example.com/x": 1 },
    };
    const tool = { name: "save", title: "Save", description: "Saves.", inputSchema, outputSchema, metadata };
    expect(toMcpTools([tool]).tools).toEqual([
      {
        name: "save",
        title: "Save",
        description: "Saves.",
        inputSchema: { ...inputSchema, type: "object" },
        outputSchema,
        annotations: {
          title: "Save",
          readOnlyHint: false,
          destructiveHint: true,
          idempotentHint: true,
          openWorldHint: true,
        },
        _meta: { "example.com/x": 1 },
      },
    ]);
    expect(toMcpTools([{ name: "bare", inputSchema: {}, metadata: {} }]).tools).toEqual([
      { name: "bare", inputSchema: { type: "object" } },
    ]);
  });

  it("leaves out hints that are not what the protocol says, and keeps the others", () => {
    const annotations = { title: 5, readOnlyHint: "yes", idempotentHint: true, "example.com/x": [1] };
    const [tool] = toMcpTools([{ name: "odd", inputSchema: {}, metadata: { annotations } }]).tools;
    expect(tool?.annotations).toEqual({ idempotentHint: true, "example.com/x": [1] });
  });
});

describe("parseMcpToolCall", () => {
  it("takes arguments left out as none", () => {
    expect(parseMcpToolCall({ name: "now" }, 7)).toEqual({ id: "7", name: "now", arguments: {} });
    expect(parseMcpToolCall({ name: "x", arguments: "{" }, "r")).toEqual({
      id: "r",
      name: "x",
      arguments: "{",
    });
    expect(parseMcpToolCall(null)).toEqual({ id: "call_at_0", name: "", arguments: {} });
  });
});

describe("fromMcpResult", () => {
  it("joins text and makes media attachments", () => {
    const content = [
      { type: "text", text: "one" },
      { type: "image", data: "AAAA", mimeType: "image/png" },
      { type: "text", text: "two", annotations: { audience: ["user"] } },
      { type: "resource", resource: { uri: "file:///a/n.txt", text: "three" } },
      { type: "resource_link", uri: "https://example.com/r.pdf", name: "r.pdf", mimeType: "application/pdf" },
    ];
    expect(fromMcpResult({ content })).toEqual({
      type: "text",
      content: "one\ntwo\nthree",
      attachments: [
        { type: "file", mime: "image/png", url: "data:image/png;base64,AAAA" },
        { type: "file", mime: "application/pdf", url: "https://example.com/r.pdf", filename: "r.pdf" },
      ],
      blocks: content,
    });
  });

  it("keeps no blocks that text and attachments rebuild", () => {
    const image = { type: "image", data: "AAAA", mimeType: "image/png" };
    expect(fromMcpResult({ content: [{ type: "text", text: "hi" }] })).toEqual({
      type: "text",
      content: "hi",
    });
    expect(fromMcpResult({ content: [{ type: "text", text: "hi" }, image] }).blocks).toBeUndefined();
    expect(fromMcpResult({ content: [image, { type: "text", text: "hi" }] }).blocks).toHaveLength(2);
  });

  it("takes an error that the tool returned for an error", () => {
    expect(fromMcpResult({ content: [{ type: "text", text: "disk full" }], isError: true })).toEqual({
      type: "error",
      content: "disk full",
      error: {
        name: "ToolExecutionError",
        code: "execution_failed",
        message: "disk full",
        recoverable: true,
      },
    });
    expect(fromMcpResult({ content: [], isError: true }).error?.message).toBe(
      "The tool reported an error and gave no reason.",
    );
  });

  it("makes text of what is no MCP result", () => {
    expect(fromMcpResult("plain")).toEqual({ type: "text", content: "plain" });
    expect(fromMcpResult(undefined)).toEqual({ type: "text", content: "" });
    expect(fromMcpResult({ content: ["a", { x: 1 }] }).content).toBe('a\n{"x":1}');
    expect(fromMcpResult({ structuredContent: { a: 1 } })).toMatchObject({
      type: "json",
      structured: { a: 1 },
    });
  });
});

describe("MCP and back", () => {
  it("loses nothing of an MCP result", () => {
    fc.assert(
      fc.property(mcpResults(), (given) => {
        expect(toMcpResult(fromMcpResult(given))).toEqual(given);
      }),
      { numRuns: testDepth(500, 25) },
    );
  });

  it("loses nothing of a result of our own", () => {
    fc.assert(
      fc.property(ownResults(), (given) => {
        const there: unknown = JSON.parse(JSON.stringify(toMcpResult(given)));
        expect(fromMcpResult(there)).toEqual(given);
      }),
    );
  });

  it("carries our own error codes to another rack", () => {
    const error = {
      name: "InvalidArgumentError",
      code: "invalid_arguments",
      message: "path: expected string",
      details: { toolName: "read", input: {}, issues: [] },
      recoverable: true,
    } as const;
    const sent = toMcpResult({ type: "error", content: "path: expected string", error });
    expect(sent).toMatchObject({ isError: true, content: [{ type: "text", text: "path: expected string" }] });
    expect(fromMcpResult(sent).error).toEqual(error);
    expect(fromMcpResult({ ...sent, _meta: { "toolrack/error": { code: "made_up" } } }).error?.code).toBe(
      "execution_failed",
    );
  });
});

function mcpResults(): fc.Arbitrary<McpCallToolResult> {
  const annotations = fc.constantFrom(
    { audience: ["user"] },
    { priority: 0.5, lastModified: "2026-01-01T00:00:00Z" },
  );
  const _meta = fc.dictionary(fc.constantFrom("example.com/a", "b"), fc.jsonValue());
  const extra = { annotations, _meta };
  const mimeType = fc.constantFrom("image/png", "audio/wav", "application/pdf", "text/plain");
  const data = fc.base64String();
  const block = fc.oneof(
    fc.record({ type: fc.constant("text"), text: fc.string(), ...extra }, { requiredKeys: ["type", "text"] }),
    fc.record(
      { type: fc.constantFrom("image", "audio"), data, mimeType, ...extra },
      { requiredKeys: ["type", "data", "mimeType"] },
    ),
    fc.record(
      { type: fc.constant("resource_link"), uri: fc.webUrl(), name: fc.string(), mimeType, ...extra },
      { requiredKeys: ["type", "uri", "name"] },
    ),
    fc.record(
      {
        type: fc.constant("resource"),
        resource: fc.oneof(
          fc.record({ uri: fc.webUrl(), text: fc.string(), mimeType }, { requiredKeys: ["uri", "text"] }),
          fc.record({ uri: fc.webUrl(), blob: data, mimeType }, { requiredKeys: ["uri", "blob"] }),
        ),
        ...extra,
      },
      { requiredKeys: ["type", "resource"] },
    ),
  );
  return fc.record(
    {
      content: fc.array(block, { maxLength: 4 }),
      structuredContent: fc.jsonValue(),
      isError: fc.constant(true as const),
      _meta,
    },
    { requiredKeys: ["content"] },
  );
}

function ownResults(): fc.Arbitrary<ToolResult> {
  const filename = fc.constantFrom("a.png", "two words.pdf", "报告.csv");
  const file: fc.Arbitrary<FilePart> = fc
    .record({
      mime: fc.constantFrom("image/png", "audio/wav", "application/pdf"),
      data: fc.base64String(),
      address: fc.option(fc.webUrl()),
      filename: fc.option(filename),
    })
    .map((part) => ({
      type: "file",
      mime: part.mime,
      url: part.address ?? `data:${part.mime};base64,${part.data}`,
      ...(part.filename !== null && { filename: part.filename }),
    }));
  const error = fc.record(
    {
      name: fc.constant("ToolTimeoutError"),
      code: fc.constant("timed_out" as const),
      message: fc.string(),
      recoverable: fc.boolean(),
    },
    { noNullPrototype: true },
  );
  const rest = {
    content: fc.string({ minLength: 1 }),
    attachments: fc.array(file, { minLength: 1, maxLength: 3 }),
    structured: fc
      .jsonValue({ noUnicodeString: false })
      .map((value) => JSON.parse(JSON.stringify(value)) as unknown),
    metadata: fc.dictionary(fc.constantFrom("truncated", "note"), fc.integer(), {
      minKeys: 1,
      noNullPrototype: true,
    }),
  };
  const fine = fc.record(
    { ...rest, type: fc.constant("text" as const) },
    { requiredKeys: ["content", "type"], noNullPrototype: true },
  );
  const json = fc.record(
    {
      ...rest,
      content: fc.jsonValue().map((value) => JSON.stringify(value)),
      type: fc.constant("json" as const),
    },
    { requiredKeys: ["content", "type"], noNullPrototype: true },
  );
  const failed = fc.record(
    { ...rest, type: fc.constant("error" as const), error },
    { requiredKeys: ["content", "type", "error"], noNullPrototype: true },
  );
  return fc.oneof(fine, json, failed);
}
