import { fileURLToPath } from "node:url";
import type { ToolResult } from "@toolrack/core";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { UpstreamRack } from "./testing/upstream-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const odd = fileURLToPath(new URL("./testing/odd-server.fixture.mjs", import.meta.url));
let rack: UpstreamRack;

beforeAll(async () => {
  rack = await UpstreamRack.create();
  await rack.open({ odd: { command: process.execPath, args: [odd] } });
  await rack.until("odd", "ready");
});
afterAll(() => rack[Symbol.asyncDispose]());

/** What comes of a call that the server answers with this result. */
function answered(result: unknown): Promise<ToolResult> {
  return rack.call("mcp_odd_raw", { line: `{"jsonrpc":"2.0","id":ID,"result":${JSON.stringify(result)}}` });
}

const text = { type: "text", text: "the moon is full" };

describe("an answer to a call that is no result", () => {
  it.each([
    ["a text as content", { content: "the moon is full" }, /a text as content.*"the moon is full"/],
    ["an object as content", { content: text }, /a content that is no list/],
    ["nothing in it", {}, /neither content nor structuredContent/],
    ["content that is null", { content: null }, /neither content nor structuredContent/],
    ["another task in it", { task: { taskId: "1" } }, /neither content nor structuredContent/],
    ["a block without a type", { content: [text, { text: "a" }] }, /content\[1\] a block without a type/],
    ["a block that is a text", { content: ["a"] }, /content\[0\] something that is no block/],
    ["a text block without text", { content: [{ type: "text" }] }, /content\[0\] a text block without text/],
    [
      "an image without data",
      { content: [{ type: "image", mimeType: "image/png" }] },
      /type image without data/,
    ],
    ["a resource without one", { content: [{ type: "resource" }] }, /resource block without resource/],
    ["a link to nowhere", { content: [{ type: "resource_link" }] }, /resource_link block without uri/],
  ])("with %s fails the call, and says whose it was and what is wrong", async (_, result, fault) => {
    const { type, content, error } = await answered(result);
    expect(type).toBe("error");
    expect(content).toMatch(
      /^The MCP server "odd" gave no usable answer: Its result has .*tell whoever runs/,
    );
    expect(content).toMatch(fault);
    expect(error?.code).toBe("execution_failed");
    expect(rack.servers.get("odd")).toMatchObject({ state: "ready", failures: 0 });
  });
});

describe("an answer to a call that is not quite a result", () => {
  it.each(["yes", "false", 1, {}])("and calls itself an error with %j is one", async (isError) => {
    expect(await answered({ content: [text], isError })).toMatchObject({
      type: "error",
      content: "the moon is full",
    });
  });

  it.each([null, 0, ""])("and has %j where it would say that it is an error is none", async (isError) => {
    expect(await answered({ content: [text], isError })).toEqual({ type: "text", content: text.text });
  });

  it("and has only structured content is read by that", async () => {
    const structuredContent = { phase: "full" };
    expect(await answered({ structuredContent })).toMatchObject({
      type: "json",
      content: '{"phase":"full"}',
      structured: structuredContent,
    });
    expect(await answered({ structuredContent, content: null, isError: "yes" })).toMatchObject({
      type: "error",
      content: '{"phase":"full"}',
    });
  });

  it("and says only that the tool failed is that", async () => {
    expect(await answered({ isError: true })).toMatchObject({
      type: "error",
      error: { message: "The tool reported an error without saying which." },
    });
  });

  it("and has a block of a type that nobody knows yet is passed on", async () => {
    const block = { type: "hologram", rays: 7 };
    expect(await answered({ content: [block] })).toMatchObject({ type: "text", blocks: [block] });
  });

  it("and has no blocks is an empty text", async () => {
    expect(await answered({ content: [] })).toMatchObject({ type: "text", content: "" });
  });
});
