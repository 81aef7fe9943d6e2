import MarkdownIt, { type Token } from "markdown-it";
import { isSafeLink } from "./result.ts";

/** A part of a line of Markdown. What has parts of its own may hold further marks. */
export type Inline =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "code"; readonly text: string }
  | { readonly kind: "strong" | "emphasis" | "strike"; readonly parts: readonly Inline[] }
  | { readonly kind: "link"; readonly parts: readonly Inline[]; readonly href: string };

export interface ListItem {
  /** Of a list of tasks: whether it is done. */
  readonly isDone?: boolean;
  readonly blocks: readonly MarkdownBlock[];
}

/** A text in Markdown, as the parts that a page is made of. There is no HTML in it: tags stay text. */
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

/**
 * Models write neither indented code, nor headings that are underlined, nor definitions of links, but lines that look
 * like them. Such lines stay text.
 */
const reader = new MarkdownIt({ html: false, linkify: false }).disable(["code", "lheading", "reference"]);
reader.normalizeLink = (address) => address;
reader.normalizeLinkText = (address) => address.replace(/^mailto:/i, "");
// A picture within the text itself is taken for a link here, and shown as its name below.
reader.validateLink = (address) => isSafeLink(address) || /^data:image\//i.test(address);

/** The search for the ends of pictures that have none takes ever longer; nobody shows so many. */
const MOST_PICTURES = 5_000;

export function parseMarkdown(text: string): MarkdownBlock[] {
  if (text.split("![").length > MOST_PICTURES) return [{ kind: "paragraph", text: [textOf(text)] }];
  return new Tree(reader.parse(withNestedLists(text), {})).blocks();
}

/** Makes a tree of the parser's flat list of tokens, in which `…_open` and `…_close` stand around what is inside. */
class Tree {
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  /** The blocks up to the end of the one that they are in. */
  blocks(end?: string): MarkdownBlock[] {
    const blocks: MarkdownBlock[] = [];
    for (let token = this.#next(); token !== undefined && token.type !== end; token = this.#next()) {
      blocks.push(this.#block(token));
    }
    return blocks;
  }

  #next(): Token | undefined {
    return this.#tokens[this.#at++];
  }

  #block(token: Token): MarkdownBlock {
    switch (token.type) {
      case "heading_open":
        return {
          kind: "heading",
          level: Number(token.tag.slice(1)),
          text: this.#inlineUntil("heading_close"),
        };
      case "fence":
        return { kind: "code", text: token.content.replace(/\n$/, "") };
      case "bullet_list_open":
        return { kind: "list", items: this.#items("bullet_list_close") };
      case "ordered_list_open":
        return {
          kind: "list",
          start: Number(token.attrGet("start") ?? 1),
          items: this.#items("ordered_list_close"),
        };
      case "blockquote_open":
        return { kind: "quote", blocks: this.blocks("blockquote_close") };
      case "table_open":
        return this.#table();
      case "hr":
        return { kind: "rule" };
      default:
        return { kind: "paragraph", text: this.#inlineUntil("paragraph_close") };
    }
  }

  #items(end: string): ListItem[] {
    const items: ListItem[] = [];
    while (this.#next()?.type === "list_item_open") items.push(itemOf(this.blocks("list_item_close")));
    this.#expect(end);
    return items;
  }

  #table(): MarkdownBlock {
    const rows: Inline[][][] = [];
    for (
      let token = this.#next();
      token !== undefined && token.type !== "table_close";
      token = this.#next()
    ) {
      if (token.type === "tr_open") rows.push([]);
      if (token.type === "inline") rows.at(-1)?.push(inlineOf(token));
    }
    const [head = [], ...body] = rows;
    return { kind: "table", head, rows: body };
  }

  #inlineUntil(end: string): Inline[] {
    const token = this.#next();
    const parts = token?.type === "inline" ? inlineOf(token) : [];
    if (token?.type !== end) this.#expect(end);
    return parts;
  }

  #expect(type: string): void {
    while (this.#at <= this.#tokens.length && this.#tokens[this.#at - 1]?.type !== type) this.#at++;
  }
}

/** `[x]` at the beginning of an item makes a task of it. */
function itemOf(blocks: readonly MarkdownBlock[]): ListItem {
  const [first, ...rest] = blocks;
  const [text, ...others] = first?.kind === "paragraph" ? first.text : [];
  const [, box, after = ""] = (text?.kind === "text" && /^\[([ xX])\] +(.*)$/s.exec(text.text)) || [];
  if (box === undefined) return { blocks };
  const paragraph: MarkdownBlock = { kind: "paragraph", text: [{ kind: "text", text: after }, ...others] };
  return { isDone: box !== " ", blocks: [paragraph, ...rest] };
}

const marks: Readonly<Record<string, "strong" | "emphasis" | "strike" | "link">> = {
  strong_open: "strong",
  em_open: "emphasis",
  s_open: "strike",
  link_open: "link",
};

function inlineOf({ children }: Token): Inline[] {
  const tokens = children ?? [];
  let at = 0;
  const read = (end?: string, isInLink = false): Inline[] => {
    const parts: Inline[] = [];
    for (let token = tokens[at++]; token !== undefined && token.type !== end; token = tokens[at++]) {
      const kind = marks[token.type];
      if (kind === "link") {
        const inner = read("link_close", true);
        parts.push(...linkTo(String(token.attrGet("href") ?? ""), inner, isInLink));
      } else if (kind !== undefined) {
        parts.push({ kind, parts: read(token.type.replace("open", "close"), isInLink) });
      } else if (token.type === "code_inline") parts.push({ kind: "code", text: token.content });
      else if (token.type === "image") parts.push(...pictureOf(token, isInLink));
      else if (token.type === "softbreak" || token.type === "hardbreak") parts.push(textOf("\n"));
      else parts.push(...(isInLink ? [textOf(token.content)] : withAddresses(token.content)));
    }
    return joined(parts);
  };
  return read();
}

/** A picture would be fetched from elsewhere, so it is a link to it; one that leads nowhere is what it is called. */
function pictureOf(token: Token, isInLink: boolean): Inline[] {
  const href = String(token.attrGet("src") ?? "");
  return linkTo(href, [textOf(token.content || href.slice(0, 80))], isInLink);
}

/** A link has no link inside, and an empty one is called by its address. */
function linkTo(href: string, parts: readonly Inline[], isInLink: boolean): Inline[] {
  const shown = parts.length === 0 ? [textOf(href)] : parts;
  return isInLink || !isSafeLink(href) ? [...shown] : [{ kind: "link", parts: shown, href }];
}

/** Ends where a sentence around it goes on, in Chinese too. */
const address = /(?<![A-Za-z0-9_])https?:\/\/[^\s<>"'`*，。；：！？、（）「」『』《》【】]+/g;

/** A text with the addresses in it made into links. */
function withAddresses(text: string): Inline[] {
  const parts: Inline[] = [];
  let at = 0;
  for (const { 0: found, index } of text.matchAll(address)) {
    let href = found;
    // What ends the sentence around it is not part of it, nor is a bracket that was opened before it.
    while (/[.,;:!?\])}~_|]$/.test(href) && !(href.endsWith(")") && isBalanced(href)))
      href = href.slice(0, -1);
    if (!/:\/\/./.test(href)) continue;
    parts.push(textOf(text.slice(at, index)), { kind: "link", parts: [textOf(href)], href });
    at = index + href.length;
  }
  return [...parts, textOf(text.slice(at))];
}

function isBalanced(text: string): boolean {
  return text.split("(").length >= text.split(")").length;
}

function textOf(text: string): Inline {
  return { kind: "text", text };
}

/** Texts that follow each other become one, and empty ones go. */
function joined(parts: readonly Inline[]): Inline[] {
  const result: Inline[] = [];
  for (const part of parts) {
    const last = result.at(-1);
    if (part.kind === "text" && last?.kind === "text")
      result[result.length - 1] = textOf(last.text + part.text);
    else if (part.kind !== "text" || part.text !== "") result.push(part);
  }
  return result;
}

/**
 * Models indent the lists within a numbered item by two, where Markdown asks for as much as the text of the item. Such
 * lists, and what is in them, are moved to where they are meant to be.
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
      // A line that is not indented ends the items around it, unless it goes on with their sentence.
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
