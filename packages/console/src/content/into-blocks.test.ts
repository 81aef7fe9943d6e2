import { expect, it } from "vitest";
import { intoBlocks } from "./into-blocks.ts";

it("cuts at line breaks, so that the blocks under each other are the text", () => {
  const text = Array.from({ length: 20_000 }, (_, index) => `line ${index}`).join("\n");
  const blocks = intoBlocks(text);
  expect(blocks.length).toBeGreaterThan(4);
  expect(Math.max(...blocks.map((block) => block.length))).toBeLessThanOrEqual(32 * 1024);
  expect(blocks.join("\n")).toBe(text);
});

it("cuts a line that is longer than a block, and loses nothing of it", () => {
  const text = "x".repeat(100_000);
  expect(intoBlocks(text).join("")).toBe(text);
});
