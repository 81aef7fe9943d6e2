import fc from "fast-check";
import { expect, it } from "vitest";
import { looksLikeMarkdown, parseMarkdown } from "./markdown.ts";

it("reads headings, lists, code, tables and marks within a line", () => {
  const text =
    "# Title\n\nSome **bold** and `code`.\n\n- one\n- two\n\n```ts\nlet a = 1;\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
  expect(parseMarkdown(text).map(({ kind }) => kind)).toEqual([
    "heading",
    "paragraph",
    "list",
    "code",
    "table",
  ]);
  expect(parseMarkdown("a **b** c")[0]).toEqual({
    kind: "paragraph",
    text: [
      { kind: "text", text: "a " },
      { kind: "strong", text: "b" },
      { kind: "text", text: " c" },
    ],
  });
});

it("makes no link of an address that would run something", () => {
  const [block] = parseMarkdown("[click](javascript:alert(1)) [ok](https://example.com)");
  const links = block?.kind === "paragraph" ? block.text.filter(({ kind }) => kind === "link") : [];
  expect(links).toEqual([{ kind: "link", text: "ok", href: "https://example.com" }]);
});

it("comes to an end with any text", () => {
  const line = fc.constantFrom(
    "# a",
    "- b",
    "1. c",
    "```",
    "> d",
    "| e | f |",
    "|---|---|",
    "---",
    "",
    "text",
    "  - x",
    "#no",
  );
  fc.assert(fc.property(fc.array(line), (lines) => Array.isArray(parseMarkdown(lines.join("\n")))));
});

it("takes plain text and data for what they are", () => {
  expect(looksLikeMarkdown("# Report\n\nAll is **well**.")).toBe(true);
  expect(looksLikeMarkdown("Hello, Ada! (11)")).toBe(false);
  expect(looksLikeMarkdown("a - b * c")).toBe(false);
});
