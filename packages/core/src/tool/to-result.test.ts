import { describe, expect, it } from "vitest";
import { toMcpResult } from "./mcp-result.ts";
import { toResult } from "./to-result.ts";

const far = new RangeError("far");

describe("toResult", () => {
  it.each([
    ["text", "hi", { content: "hi", type: "text" }],
    ["a JSON value", { a: [1] }, { content: '{"a":[1]}', type: "json", structured: { a: [1] } }],
    ["a list", [1, 2], { content: "[1,2]", type: "json", structured: [1, 2] }],
    ["a number", 4, { content: "4", type: "json", structured: 4 }],
    ["a ToolResult", { content: "x", type: "text", extra: 1 }, { content: "x", type: "text" }],
    [
      "a JSON ToolResult",
      { content: '{"a":1}', type: "json" },
      { content: '{"a":1}', type: "json", structured: { a: 1 } },
    ],
    ["{title, output}", { title: "T", output: "o" }, { content: "o", type: "text", title: "T" }],
    ["{success, output}", { success: true, output: "o", exitCode: 0 }, { content: "o", type: "text" }],
    [
      "data that happens to have an output",
      { output: "o", cost: 3 },
      { content: '{"output":"o","cost":3}', type: "json", structured: { output: "o", cost: 3 } },
    ],
    ["a returned Error", far, { content: "far", type: "error", cause: far }],
  ])("%s", (_, value, expected) => {
    expect(toResult(value)).toEqual(expected);
  });

  it("keeps the content, the files and the metadata of a ToolResult", () => {
    const attachments = [{ type: "file", mime: "text/plain", url: "data:,hi" }];
    const result = { content: "x", type: "text", attachments, metadata: { rows: 7 } };
    expect(toResult(result)).toEqual(result);
  });

  it("every way of returning an error is one", () => {
    expect(toResult({ content: "no", type: "error" })).toMatchObject({ type: "error", content: "no" });
    expect(toResult({ content: [{ type: "text", text: "no" }], isError: true })).toMatchObject({
      type: "error",
      content: "no",
    });
    expect(toResult({ success: false, error: "no" })).toMatchObject({ type: "error", content: "no" });
    expect(toResult({ success: false, error: { message: "no" } })).toMatchObject({
      type: "error",
      content: "no",
    });
    expect(toResult({ isError: true, why: "no" })).toMatchObject({ type: "error" });
    const blocks = [{ type: "text", text: "no" }];
    expect(toResult({ content: blocks, type: "error" })).toMatchObject({ type: "error", content: "no" });
  });

  it("data in place of a ToolResult's text is read as its JSON", () => {
    const rows = [{ id: 1 }, { id: 2 }];
    expect(toResult({ content: rows, type: "json" })).toEqual({
      content: '[{"id":1},{"id":2}]',
      type: "json",
      structured: rows,
    });
    expect(toResult({ content: { a: 1 }, type: "json", metadata: { b: 2 } })).toEqual({
      content: '{"a":1}',
      type: "json",
      structured: { a: 1 },
      metadata: { b: 2 },
    });
    expect(toResult({ content: { why: "no" }, type: "error" })).toEqual({
      content: '{"why":"no"}',
      type: "error",
    });
    expect(toResult({ content: new Error("no"), type: "error" })).toMatchObject({
      content: "no",
      type: "error",
    });
    expect(toResult({ content: 5, type: "text" })).toEqual({ content: "5", type: "text" });
    // Any other key tells that it is data which happens to have these two.
    const data = { content: { a: 1 }, type: "json", path: "a.json" };
    expect(toResult(data)).toMatchObject({ type: "json", structured: data });
  });

  it("MCP content becomes text and attachments", () => {
    const result = toResult({
      content: [
        { type: "text", text: "a" },
        { type: "image", data: "aGk=", mimeType: "image/png" },
        { type: "text", text: "b" },
      ],
      structuredContent: { ok: true },
    });
    expect(result).toMatchObject({
      content: "a\nb",
      attachments: [{ type: "file", mime: "image/png", url: "data:image/png;base64,aGk=" }],
      structured: { ok: true },
    });
  });

  it("data in place of a text is read as its JSON, and kept as it is", () => {
    const blocks = [{ type: "text", text: { city: "Oslo", degrees: 21n } }];
    const result = toResult({ content: blocks });
    expect(result).toMatchObject({ content: '{"city":"Oslo","degrees":"21"}', type: "text" });
    expect(result.blocks).toEqual([{ type: "text", text: { city: "Oslo", degrees: "21" } }]);
    expect(toMcpResult(result).content).toEqual([{ type: "text", text: result.content }]);
    expect(toResult({ content: [{ type: "text", text: 5 }] }).content).toBe("5");
    expect(toMcpResult(toResult({ content: [{ type: "text" }] })).content).toEqual([
      { type: "text", text: "" },
    ]);
  });

  it.each([
    [
      { type: "json", text: '{"a":1}' },
      { type: "text", text: '{"a":1}' },
    ],
    [
      { type: "table", rows: [1] },
      { type: "text", text: '{"type":"table","rows":[1]}' },
    ],
    [
      { type: "image", data: 5 },
      { type: "text", text: '{"type":"image","data":5}' },
    ],
    [
      { type: "image", data: "aGk=" },
      {
        type: "resource",
        resource: { uri: "attachment:///", mimeType: "application/octet-stream", blob: "aGk=" },
      },
    ],
    [
      { type: "resource", resource: { text: "x" } },
      { type: "text", text: '{"type":"resource","resource":{"text":"x"}}' },
    ],
    [{ type: "constructor" }, { type: "text", text: '{"type":"constructor"}' }],
  ])("a block that MCP does not have reaches clients as one that it has: %j", (block, proper) => {
    const result = toResult({ content: [block] });
    expect(result.content).toBe("text" in proper ? proper.text : "");
    expect(toMcpResult(result).content).toEqual([proper]);
  });

  it.each([
    [
      "words beside structured content",
      { content: [{ type: "text", text: "2 rows" }], structuredContent: [1, 2] },
    ],
    ["words called JSON", { content: "2 rows", type: "json" }],
    ["words called JSON, with a value", { content: "2 rows", type: "json", structured: [1, 2] }],
    ["a number that JSON does not have", Number.NaN],
  ])("type json means that the content is JSON: %s", (_, value) => {
    expect(toResult(value).type).toBe("text");
  });

  it("JSON beside structured content is of type json, on the way through MCP too", () => {
    const given = { content: [{ type: "text", text: '{ "a": 1 }' }], structuredContent: { a: 1 } };
    const result = toResult(given);
    expect(result.type).toBe("json");
    expect(toMcpResult(result)).toEqual(given);
    const words = { content: [{ type: "text", text: "one" }], structuredContent: { a: 1 } };
    expect(toMcpResult(toResult(words))).toEqual(words);
  });

  it("a structured value without a text is its own text", () => {
    expect(toResult({ content: [], structuredContent: { a: 1 } })).toEqual({
      content: '{"a":1}',
      type: "json",
      structured: { a: 1 },
    });
  });

  it("bytes become an attachment, not text", () => {
    const result = toResult(new Uint8Array([104, 105]));
    expect(result.content).toBe("2 bytes of binary data, attached.");
    expect(result.attachments?.[0]?.url).toBe("data:application/octet-stream;base64,aGk=");
    expect(toResult(new Uint8Array([104]).buffer).attachments).toHaveLength(1);
  });
});
