import fc from "fast-check";
import { expect, it } from "vitest";
import { cpuTime } from "../../../../scripts/cpu-time.ts";
import { looksLikeMarkdown } from "./descriptions.ts";
import { type MarkdownNode, parseMarkdown } from "./markdown.ts";

/** Markdown as a short text: what a page would show, with the tags that carry meaning. */
function shown(text: string): string {
  return parseMarkdown(text).map(nodeText).join("\n");
}
const names: Readonly<Record<string, string>> = {
  em: "emphasis",
  s: "strike",
  blockquote: "quote",
  pre: "code",
};
const blocks = ["p", "ul", "ol", "pre", "blockquote", "table", "hr"];
function nodeText(node: MarkdownNode): string {
  const { tag, text, children, href, start = "", isDone } = node;
  const isAroundBlocks = children.some((child) => blocks.includes(child.tag));
  const inner = text ?? children.map(nodeText).join(isAroundBlocks ? " / " : "");
  if (tag === "" || tag === "p") return inner;
  if (tag === "hr") return "rule";
  if (tag === "a") return `link(${inner} → ${href})`;
  if (tag === "ul" || tag === "ol") return `${tag}${start}${inner}`;
  if (tag === "li") return `<${isDone === undefined ? "" : isDone ? "[x] " : "[ ] "}${inner}>`;
  if (tag === "tr") return children.map(nodeText).join("|");
  if (tag === "th" || tag === "td" || tag === "thead") return inner;
  if (tag === "tbody") return children.map(nodeText).join(" / ");
  if (tag === "table") return `table(${children.map(nodeText).join(" / ")})`;
  return `${names[tag] ?? tag}(${inner})`;
}

it.each([
  ["# Title #\n\nSome **bold** and `code`.", "h1(Title)\nSome strong(bold) and code(code)."],
  ["| a | b |\n|---|:-:|\n| 1 | `x\\|y` |", "table(a|b / 1|code(x|y))"],
  ["Here:\n| a | b |\n|---|---|\n| 1 | 2 |", "Here:\ntable(a|b / 1|2)"],
  ["> a\n> - b\n>> c", "quote(a / ul<b> / quote(c))"],
  ["text\n---\nmore", "text\nrule\nmore"],
  ["* * *", "rule"],
])("reads %j", (text, expected) => {
  expect(shown(text)).toBe(expected);
});

it.each([
  ["a list with blank lines between its items as one", "1. a\n\n2. b\n\n3. c", "ol1<a><b><c>"],
  ["the number that a list begins with", "3. c\n4. d", "ol3<c><d>"],
  ["a list that goes on after a text", "1. a\n\ntext\n\n2. b", "ol1<a>\ntext\nol2<b>"],
  ["lists within lists", "- a\n  - b\n    - c\n- d", "ul<a / ul<b / ul<c>>><d>"],
  ["lists that are nested by less than the text", "1. a\n  - b\n    - c\n2. d", "ol1<a / ul<b / ul<c>>><d>"],
  ["lists that are nested by tabs", "- a\n\t- b\n- c", "ul<a / ul<b>><c>"],
  ["lines that go on with an item", "- a\n  goes on\n- b\nand on", "ul<a\ngoes on><b\nand on>"],
  [
    "paragraphs and code within an item",
    "1. a\n\n   more\n   ```\n   x\n   ```\n2. b",
    "ol1<a / more / code(x)><b>",
  ],
  ["tasks", "- [ ] a\n- [x] b\n- c", "ul<[ ] a><[x] b><c>"],
  ["what follows a list for itself", "- a\n\ntext", "ul<a>\ntext"],
  ["another kind of list for itself", "- a\n1. b", "ul<a>\nol1<b>"],
  ["a rule after a list", "- a\n---\nb", "ul<a>\nrule\nb"],
  ["a line that begins with a year as a line", "It was in\n1999. A year.", "It was in\n1999. A year."],
  ["a line that begins with an emphasis as a line", "**a** b", "strong(a) b"],
])("takes %s", (_, text, expected) => {
  expect(shown(text)).toBe(expected);
});

it.each([
  ["~~gone~~", "strike(gone)"],
  ["***both*** and **one *two***", "emphasis(strong(both)) and strong(one emphasis(two))"],
  [
    "__strong__ and _em_, but not snake_case_name",
    "strong(strong) and emphasis(em), but not snake_case_name",
  ],
  ["2 * 3 * 4 and a*b", "2 * 3 * 4 and a*b"],
  ["``a ` b`` \\*not\\*", "code(a ` b) *not*"],
  ["**`x`**", "strong(code(x))"],
  ['[**a** b](https://x.example/a_(b) "t")', "link(strong(a) b → https://x.example/a_(b))"],
  ["![a picture](https://x.example/a.png)", "link(a picture → https://x.example/a.png)"],
  ["![a](data:image/png;base64,AAAA)", "a"],
  ["[![badge](https://x.example/b.svg)](https://x.example)", "link(badge → https://x.example)"],
  [
    "see https://x.example/a?b=c_d. Or (https://x.example/b_(c)).",
    "see link(https://x.example/a?b=c_d → https://x.example/a?b=c_d). Or (link(https://x.example/b_(c) → https://x.example/b_(c))).",
  ],
  ["见https://x.example/a，谢谢", "见link(https://x.example/a → https://x.example/a)，谢谢"],
  [
    "<https://x.example> <mailto:a@x.example>",
    "link(https://x.example → https://x.example) link(a@x.example → mailto:a@x.example)",
  ],
  ["the h and <b>html</b>", "the h and <b>html</b>"],
])("reads the marks of %j", (text, expected) => {
  expect(shown(text)).toBe(expected);
});

it.each([
  "[click](javascript:alert(1))",
  "[click](JaVaScRiPt:alert(1))",
  "[click](data:text/html,x)",
  "![x](javascript:alert(1))",
  "<javascript:alert(1)>",
])("makes no link of %s, which would run something", (text) => {
  expect(shown(text)).not.toContain("link(");
});

it("shows code that is still being written, and fences within fences", () => {
  expect(shown("a\n```js\nlet x")).toBe("a\ncode(let x)");
  expect(shown("````md\n```js\n1\n```\n````\nb")).toBe("code(```js\n1\n```)\nb");
});

it("comes to an end with any text, and loses no word of it", () => {
  const line = fc.constantFrom(
    "# a",
    "- b",
    "1. c",
    "2. c",
    "```",
    "~~~",
    "> d",
    "| e | f |",
    "|---|---|",
    "---",
    "",
    "text",
    "  - x",
    "   y",
    "#no",
    "- [ ] t",
    "**s",
    "s**",
    "*m",
    "_u_",
    "[l](",
    "`q",
    "~~z~~",
    "1. - > w",
  );
  fc.assert(
    fc.property(fc.array(line), (lines) => {
      const text = lines.join("\n");
      const words = (of: string) => (of.match(/[a-z]/g) ?? []).join("");
      const dropped = parseMarkdown(text).map(plainText).join("");
      // What follows a fence names its language and is not shown; here no fence has one.
      expect(words(dropped)).toBe(words(text));
    }),
  );
});
function plainText({ text, children }: MarkdownNode): string {
  return text ?? children.map(plainText).join("");
}

it.each(["[", "*a ", "**a", "`", "~~", "_a ", "![", "<", "> ", "- ", "https://", '[a](b "', "| "])(
  "takes no longer for %j a hundred thousand times than for any text",
  (piece) => {
    // A search that grows with the square takes minutes.
    expect(cpuTime(() => parseMarkdown(piece.repeat(100_000)))).toBeLessThan(20_000);
  },
);

it("takes plain text and data for what they are", () => {
  expect(looksLikeMarkdown("# Report\n\nAll is **well**.")).toBe(true);
  expect(looksLikeMarkdown("Hello, Ada! (11)")).toBe(false);
  expect(looksLikeMarkdown("a - b * c")).toBe(false);
  expect(looksLikeMarkdown("First.\n\n| a | b |\n|:--|--:|\n| x | 1 |")).toBe(true);
  expect(looksLikeMarkdown("a | b\n-----")).toBe(false);
});
