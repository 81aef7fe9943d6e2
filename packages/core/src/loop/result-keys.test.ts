import { describe, expect, it } from "vitest";
import type { ToolResult } from "../tool/result.ts";
import { resultKeys, showsBeyondText, textKeys } from "./result-keys.ts";

const at = Date.UTC(2026, 6, 1, 12);
const keys = (result: Partial<ToolResult>) => resultKeys({ content: "done", type: "text", ...result }, at);
const picture = (data: string, filename?: string) => ({
  type: "file" as const,
  mime: "image/png",
  url: `data:image/png;base64,${data}`,
  ...(filename !== undefined && { filename }),
});

describe("resultKeys", () => {
  it("are those of the text when there is nothing else, or the text is the structured form", () => {
    expect(keys({})).toEqual(textKeys("done", at, false));
    const structured = { rows: [1, 2], at: "2026-07-01T10:11:12Z" };
    const content = JSON.stringify(structured);
    expect(keys({ content, type: "json", structured })).toEqual(textKeys(content, at, false));
    expect(keys({ blocks: [{ type: "text", text: "done" }] })).toEqual(textKeys("done", at, false));
  });

  it.each<[string, Partial<ToolResult>, Partial<ToolResult>]>([
    ["a picture", { attachments: [picture("AAAA")] }, { attachments: [picture("AAAB")] }],
    ["the name of a file", { attachments: [picture("A", "a")] }, { attachments: [picture("A", "b")] }],
    ["how many files there are", { attachments: [picture("A")] }, { attachments: [] }],
    ["the structured form", { structured: { page: 1 } }, { structured: { page: 2 } }],
    ["whether there is a structured form", { structured: { page: 1 } }, {}],
    [
      "a block",
      { blocks: [{ type: "audio", data: "AA", mimeType: "audio/wav" }] },
      { blocks: [{ type: "audio", data: "AB", mimeType: "audio/wav" }] },
    ],
  ])("differ when %s differs", (_name, one, other) => {
    expect(keys(one).resultKey).not.toBe(keys(other).resultKey);
    expect(keys(one).exactKey).not.toBe(keys(other).exactKey);
  });

  it.each<[string, Partial<ToolResult>, Partial<ToolResult>]>([
    [
      "the structured form",
      { structured: { state: "idle", at: at + 1 } },
      { structured: { state: "idle", at: at + 2 } },
    ],
    [
      "the address of a file",
      {
        attachments: [
          { type: "file", mime: "image/png", url: "https://x/0190163d-8694-739b-aea5-966c26f8ad91" },
        ],
      },
      {
        attachments: [
          { type: "file", mime: "image/png", url: "https://x/0190163d-8694-739b-aea5-966c26f8ad92" },
        ],
      },
    ],
  ])("mask times and ids also in %s", (_name, one, other) => {
    expect(keys(one).resultKey).toBe(keys(other).resultKey);
    expect(keys(one).exactKey).not.toBe(keys(other).exactKey);
  });

  it("of an error, what it says counts where the arguments differ", () => {
    const error = (row: number) => keys({ content: "no such row", type: "error", structured: { row } });
    expect(error(1).resultKey).not.toBe(error(2).resultKey);
    expect(error(1).exactKey).toBe(error(2).exactKey);
  });
});

describe("showsBeyondText", () => {
  it.each<[boolean, Partial<ToolResult>]>([
    [false, {}],
    [false, { content: '{"a":1}', type: "json", structured: { a: 1 } }],
    [false, { content: "[1]", type: "json", structured: [1] }],
    [false, { content: "5", type: "json", structured: 5 }],
    [false, { content: "null", type: "json", structured: null }],
    [true, { type: "json", structured: { a: 1 } }],
    [true, { structured: 5 }],
    [true, { attachments: [] }],
    [true, { blocks: [] }],
  ])("says %s of %j", (expected, result) => {
    expect(showsBeyondText({ content: "done", type: "text", ...result })).toBe(expected);
  });
});
