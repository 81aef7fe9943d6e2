import { type Inline, parseInline } from "./markdown-inline.ts";
import { isListStart, isRule, takeList } from "./markdown-list.ts";

export interface ListItem {
  /** Of a list of tasks: whether it is done. */
  readonly isDone?: boolean;
  readonly blocks: readonly MarkdownBlock[];
}

/** A text in Markdown, as the parts that a page is made of. Only what tools really write is known; the rest stays text. */
export type MarkdownBlock =
  | { readonly kind: "heading"; readonly level: number; readonly text: readonly Inline[] }
  | { readonly kind: "paragraph"; readonly text: readonly Inline[] }
  | { readonly kind: "code"; readonly text: string }
  | {
      readonly kind: "list";
      /** The first number; a list without numbers has none. */
      readonly start?: number;
      readonly items: readonly ListItem[];
    }
  | { readonly kind: "quote"; readonly blocks: readonly MarkdownBlock[] }
  | { readonly kind: "table"; readonly head: Inline[][]; readonly rows: Inline[][][] }
  | { readonly kind: "rule" };

const signs = [
  /^#{1,6} \S/m,
  /^\s*[-*] \S/m,
  /^\s*\d+\. \S/m,
  /^```/m,
  /\*\*[^*\n]+\*\*/,
  /^\|.+\|\s*$/m,
  /\[[^\]\n]+\]\(https?:/,
];

/** Whether a text was most likely written as Markdown. */
export function looksLikeMarkdown(text: string): boolean {
  const head = text.slice(0, 4_000);
  return signs.filter((sign) => sign.test(head)).length >= 2 || /^#{1,3} \S.*\n/.test(head);
}

export function parseMarkdown(text: string): MarkdownBlock[] {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  return parseLines(lines.map(withoutTabs), 0);
}

/** Nobody nests deeper, and whoever does gets text instead of a page that never comes. */
const DEEPEST = 16;

function parseLines(lines: readonly string[], depth: number): MarkdownBlock[] {
  const blocks: MarkdownBlock[] = [];
  const inner = (nested: readonly string[]) => parseLines(nested, depth + 1);
  let at = 0;
  while (at < lines.length) {
    const line = lines[at]!;
    if (line.trim() === "") {
      at++;
      continue;
    }
    const taken =
      takeCode(lines, at) ??
      takeHeading(line) ??
      takeRule(line) ??
      (depth < DEEPEST ? (takeList(lines, at, inner) ?? takeQuote(lines, at, inner)) : undefined) ??
      takeTable(lines, at) ??
      takeParagraph(lines, at);
    blocks.push(taken.block);
    at += taken.count;
  }
  return blocks;
}

/** A block, and how many lines it is made of. */
export interface Taken {
  readonly block: MarkdownBlock;
  readonly count: number;
}

const fence = /^( *)(`{3,}|~{3,})([^`]*)$/;
const heading = /^ {0,3}(#{1,6})(?: +(.*?))?(?: +#+)? *$/;
const divider = /^ *\|?(?: *:?-+:? *\|)* *:?-+:? *\|? *$/;

/** A fence that nobody has closed yet goes on to the end: a model may still be writing. */
function takeCode(lines: readonly string[], at: number): Taken | undefined {
  const [, indent = "", marks = ""] = fence.exec(lines[at]!) ?? [];
  if (marks === "") return undefined;
  const isEnd = (line: string) => {
    const bare = line.trim();
    return bare.length >= marks.length && bare === marks[0]!.repeat(bare.length);
  };
  let end = at + 1;
  while (end < lines.length && !isEnd(lines[end]!)) end++;
  const text = lines.slice(at + 1, end).map((line) => withoutIndent(line, indent.length));
  return { block: { kind: "code", text: text.join("\n") }, count: Math.min(end + 1, lines.length) - at };
}

function takeHeading(line: string): Taken | undefined {
  const [whole, marks = "", text = ""] = heading.exec(line) ?? [];
  if (whole === undefined) return undefined;
  return { block: { kind: "heading", level: marks.length, text: parseInline(text) }, count: 1 };
}

function takeRule(line: string): Taken | undefined {
  return isRule(line) ? { block: { kind: "rule" }, count: 1 } : undefined;
}

function takeQuote(
  lines: readonly string[],
  at: number,
  inner: (lines: readonly string[]) => MarkdownBlock[],
): Taken | undefined {
  let end = at;
  while (end < lines.length && /^ {0,3}>/.test(lines[end]!)) end++;
  if (end === at) return undefined;
  const quoted = lines.slice(at, end).map((line) => line.replace(/^ *> ?/, ""));
  return { block: { kind: "quote", blocks: inner(quoted) }, count: end - at };
}

function takeTable(lines: readonly string[], at: number): Taken | undefined {
  if (!isTableStart(lines, at)) return undefined;
  let end = at + 2;
  while (end < lines.length && lines[end]!.includes("|")) end++;
  const rows = lines.slice(at + 2, end).map(cells);
  return { block: { kind: "table", head: cells(lines[at]!), rows }, count: end - at };
}

function isTableStart(lines: readonly string[], at: number): boolean {
  const below = lines[at + 1] ?? "";
  return lines[at]!.includes("|") && below.includes("|") && divider.test(below);
}

/** Its first line is taken whatever it looks like, so that the reader always moves on. */
function takeParagraph(lines: readonly string[], at: number): Taken {
  let end = at + 1;
  while (end < lines.length && !endsParagraph(lines, end)) end++;
  const text = lines.slice(at, end).map((line) => line.trimStart());
  return { block: { kind: "paragraph", text: parseInline(text.join("\n").trimEnd()) }, count: end - at };
}

/** A number begins a list within a paragraph only if it is 1: a line may begin with the year 1999. */
function endsParagraph(lines: readonly string[], at: number): boolean {
  const line = lines[at]!;
  return (
    line.trim() === "" ||
    fence.test(line) ||
    heading.test(line) ||
    isRule(line) ||
    /^ {0,3}>/.test(line) ||
    isListStart(line) ||
    isTableStart(lines, at)
  );
}

function cells(line: string): Inline[][] {
  return line
    .trim()
    .replace(/^\||(?<!\\)\|$/g, "")
    .split(/(?<!\\)\|/)
    .map((cell) => parseInline(cell.trim().replaceAll("\\|", "|")));
}

function withoutIndent(line: string, most: number): string {
  const own = line.length - line.trimStart().length;
  return line.slice(Math.min(own, most));
}

function withoutTabs(line: string): string {
  return line.replace(/^[ \t]+/, (space) => space.replaceAll("\t", "    "));
}
