import { expect, test } from "vitest";
import { Tool } from "../index.ts";
import { definitionTokens, estimateTokens, tokenShare } from "./tokens.ts";

// The numbers are those of the tokenizer o200k.
test.each([
  ["Creates an issue in a repository.", 7],
  ['{"type":"object","properties":{"owner":{"type":"string"},"perPage":{"type":"integer"}}}', 22],
  ["mcp_github_create_issue(args: { owner: string; repo: string; body?: string })", 21],
  ["使用必应搜索指定的关键词，并返回搜索结果列表", 12],
  ["Die Straße führt über die Brücke nach Köln.", 10],
  ["2026-11-16T22:01:35Z", 13],
  ["", 0],
])("%j has about %i tokens", (text, tokens) => {
  expect(Math.abs(estimateTokens(text) - tokens)).toBeLessThanOrEqual(Math.ceil(tokens * 0.25));
});

test("pieces of a text can be added", () => {
  const words = "The quick brown fox jumps over the lazy dog".split(/(?= )/);
  const sum = words.reduce((total, word) => total + tokenShare(word), 0);
  expect(sum).toBeCloseTo(tokenShare(words.join("")));
});

test("a tool costs its name, description and parameters", () => {
  const parameters = { type: "object", properties: { city: { type: "string" } } };
  const tool = (description: string) =>
    Tool.define({ name: "weather", description, parameters, execute: async () => "" });
  const short = definitionTokens(tool("Tells it."));
  expect(short).toBe(
    estimateTokens(JSON.stringify({ name: "weather", description: "Tells it.", inputSchema: parameters })),
  );
  expect(definitionTokens(tool("Tells it in many more words."))).toBeGreaterThan(short);
});
