import MarkdownIt, { type Token } from "markdown-it";
import { isSafeLink } from "./result.ts";

/** A node of a Markdown page: an element, or text when the tag is empty. HTML tags stay text. */
export interface MarkdownNode {
  readonly tag: string;
  readonly text?: string;
  readonly children: readonly MarkdownNode[];
  readonly href?: string;
  readonly start?: number;
  readonly isDone?: boolean;
  /** Of a cell, as its column is aligned. */
  readonly align?: string;
}

/** Models never mean indented code, underlined headings or link definitions, so lines that look like them stay text. */
const reader = new MarkdownIt({ html: false, linkify: false }).disable(["code", "lheading", "reference"]);
reader.normalizeLink = (address) => address;
reader.normalizeLinkText = (address) => address.replace(/^mailto:/i, "");
// `data:` pictures are accepted here, so that the parser recognises them; `leafOf` shows only their names.
reader.validateLink = (address) => isSafeLink(address) || /^data:image\//i.test(address);

/** A text with more `![` is not parsed, because many unfinished pictures make the parser slow. */
const MOST_PICTURES = 5_000;

export function parseMarkdown(text: string): readonly MarkdownNode[] {
  if (text.split("![").length > MOST_PICTURES) return [{ tag: "p", children: [textOf(text)] }];
  return treeOf(reader.parse(withNestedLists(text), {}));
}

/** Turns the parser's flat list of opening and closing tokens into a tree. */
function treeOf(tokens: readonly Token[], isInLink = false): readonly MarkdownNode[] {
  let at = 0;
  const read = (inLink: boolean): MarkdownNode[] => {
    const nodes: MarkdownNode[] = [];
    for (let token = tokens[at++]; token !== undefined && token.nesting !== -1; token = tokens[at++]) {
      if (token.nesting === 1) nodes.push(...elementOf(token, read(inLink || token.tag === "a"), inLink));
      else nodes.push(...leafOf(token, inLink));
    }
    return joined(nodes);
  };
  return read(isInLink);
}

function elementOf(token: Token, children: readonly MarkdownNode[], isInLink: boolean): MarkdownNode[] {
  const { tag } = token;
  if (tag === "a") return linkTo(String(token.attrGet("href") ?? ""), children, isInLink);
  if (tag === "ol") return [{ tag, children, start: Number(token.attrGet("start") ?? 1) }];
  const [, align] = /text-align:\s*(\w+)/.exec(String(token.attrGet("style") ?? "")) ?? [];
  if (align !== undefined) return [{ tag, children, align }];
  return [tag === "li" ? itemOf(children) : { tag, children }];
}

function leafOf(token: Token, isInLink: boolean): readonly MarkdownNode[] {
  switch (token.type) {
    case "inline":
      return treeOf(token.children ?? [], isInLink);
    case "fence":
      return [{ tag: "pre", text: token.content.replace(/\n$/, ""), children: [] }];
    case "code_inline":
      return [{ tag: "code", text: token.content, children: [] }];
    case "hr":
      return [{ tag: "hr", children: [] }];
    case "softbreak":
    case "hardbreak":
      return [textOf("\n")];
    case "image": {
      // Pictures become links, so that the browser fetches nothing from other servers. A picture whose
      // address is missing or not a safe link becomes its name.
      const href = String(token.attrGet("src") ?? "");
      return linkTo(href, [textOf(token.content || href.slice(0, 80))], isInLink);
    }
    default:
      return isInLink ? [textOf(token.content)] : withAddresses(token.content);
  }
}

function itemOf(children: readonly MarkdownNode[]): MarkdownNode {
  const [first, ...rest] = children;
  const [words, ...others] = first?.tag === "p" ? first.children : [];
  const [, box, after = ""] = (words?.tag === "" && /^\[([ xX])\] +(.*)$/s.exec(words.text ?? "")) || [];
  if (box === undefined) return { tag: "li", children };
  const paragraph = { tag: "p", children: [textOf(after), ...others] };
  return { tag: "li", isDone: box !== " ", children: [paragraph, ...rest] };
}

/**
 * A link; without text it shows its address. Inside another link or with an unsafe address, only the text.
 */
function linkTo(href: string, children: readonly MarkdownNode[], isInLink: boolean): MarkdownNode[] {
  const shown = children.length === 0 ? [textOf(href)] : children;
  return isInLink || !isSafeLink(href) ? [...shown] : [{ tag: "a", href, children: shown }];
}

/** A bare web address. It ends at white space, quotes and Chinese punctuation. */
const address = /(?<![A-Za-z0-9_])https?:\/\/[^\s<>"'`*，。；：！？、（）「」『』《》【】]+/g;

function withAddresses(text: string): MarkdownNode[] {
  const parts: MarkdownNode[] = [];
  let at = 0;
  for (const { 0: found, index } of text.matchAll(address)) {
    let href = found;
    // Punctuation at the end of the sentence and unbalanced brackets are not part of the address.
    const isBalanced = () => href.split("(").length >= href.split(")").length;
    while (/[.,;:!?\])}~_|]$/.test(href) && !(href.endsWith(")") && isBalanced())) href = href.slice(0, -1);
    if (!/:\/\/./.test(href)) continue;
    parts.push(textOf(text.slice(at, index)), { tag: "a", href, children: [textOf(href)] });
    at = index + href.length;
  }
  return [...parts, textOf(text.slice(at))];
}

function textOf(text: string): MarkdownNode {
  return { tag: "", text, children: [] };
}

/** Joins adjacent texts and drops empty ones. */
function joined(nodes: readonly MarkdownNode[]): MarkdownNode[] {
  const result: MarkdownNode[] = [];
  for (const node of nodes) {
    const last = result.at(-1);
    if (node.tag === "" && last?.tag === "") result[result.length - 1] = textOf(`${last.text}${node.text}`);
    else if (node.tag !== "" || node.text !== "") result.push(node);
  }
  return result;
}

/**
 * Models indent lists inside a numbered item by two spaces, but Markdown asks for the width of the marker.
 * Indents these lists as far as Markdown asks.
 */
function withNestedLists(text: string): string {
  const open: { readonly marker: number; readonly text: number; readonly shift: number }[] = [];
  let fence = "";
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  return lines
    .map((raw) => {
      const line = raw.replace(/^[ \t]+/, (space) => space.replaceAll("\t", "    "));
      const indent = line.length - line.trimStart().length;
      const [, sign = "", space = " "] = /^ *([-*+]|\d{1,9}[.)])( +|$)/.exec(line) ?? [];
      const isItem = sign !== "" && fence === "";
      if (line.trim() === "") return line;
      // An item ends at a line that is indented by less than two spaces more than the item's marker.
      while (open.length > 0 && indent < open.at(-1)!.marker + 2) open.pop();
      const around = open.at(-1);
      const shift = (around?.shift ?? 0) + (isItem ? Math.max(0, (around?.text ?? 0) - indent) : 0);
      if (isItem)
        open.push({ marker: indent, text: indent + sign.length + Math.max(1, space.length), shift });
      const [mark = ""] = /^ *(`{3,}|~{3,})/.exec(line)?.slice(1) ?? [];
      if (mark !== "") fence = fence === "" ? mark : mark.startsWith(fence) ? "" : fence;
      return " ".repeat(shift) + line;
    })
    .join("\n");
}
