import { expect, it } from "vitest";
import { parseJsonc } from "./jsonc.ts";

it("reads JSON with comments and commas too many", () => {
  const text = `\uFEFF{
    // the servers
    "a": [1, 2, /* three */], "b": "// no comment, ,]", "c": "\\"/*", }`;
  expect(parseJsonc(text)).toEqual({ a: [1, 2], b: "// no comment, ,]", c: '"/*' });
});

it("says in which line the mistake is", () => {
  expect(() => parseJsonc('{\n  // fine\n  "a": nonsense\n}')).toThrow(/^line 3:/);
  expect(() => parseJsonc('{ "a": 1')).toThrow(/^line 1:/);
});
