import { describingSchemas, isRecord, type JsonType, propertiesOf, typesOf } from "../schema/visit.ts";
import type { ToolResult } from "../tool/result.ts";
import { callIdAt, modelText, type ToolCallRequest, type ToolDefinition } from "./tools.ts";

/** The text of a model without native tool calls, split into calls and prose. */
export interface TagText {
  readonly calls: ToolCallRequest[];
  /** The text without the calls. */
  readonly text: string;
  /** The name of an incomplete call at the end of the text. */
  readonly unfinished?: string;
}

/**
 * Reads the calls in the text of a model without native tool calls: `<tool_action name="read_file" type="builtin"><path
 * value="a.txt"/></tool_action>`, or the same with `<action>`. A parameter may also be `<path>a.txt</path>`. All
 * arguments are strings; `fromTagArguments` converts them. Leaves out unclosed calls, and calls in code blocks, code
 * spans and quotations.
 */
export function parseTagCalls(text: string): ToolCallRequest[] {
  return readTagText(text).calls;
}

/**
 * Splits the text into calls and prose; see `parseTagCalls`. If the model wrote a `<tool_output>` itself
 * after a call, leaves out that tag and everything after it, because only the rack writes results.
 */
export function readTagText(text: string): TagText {
  const calls: ToolCallRequest[] = [];
  const kept: string[] = [];
  const unclosed = new Set<string>();
  const isQuoted = quotationIn(text);
  const notable =
    /(?:^|(?<=\n))[ \t>]*(?:(`{3,})(?=[^`\n]*(?:\n|$))|(~{3,}))|(`+)|<(?:(tool_action|action)(?=[\s/>])|tool_output(?=[\s>]))/g;
  let from = 0;
  let open: { readonly at: number; readonly name: string } | undefined;
  const keepUntil = (end: number, next: number) => {
    kept.push(text.slice(from, end));
    from = next;
    notable.lastIndex = next;
  };
  for (let match = notable.exec(text); match !== null; match = notable.exec(text)) {
    const [, ticks, tildes, span, kind] = match;
    const fence = ticks ?? tildes;
    if (fence !== undefined) notable.lastIndex = endOfFence(text, notable.lastIndex, fence);
    else if (span !== undefined) notable.lastIndex = endOfSpan(text, notable.lastIndex, span.length);
    if (fence !== undefined || span !== undefined || isQuoted(match.index)) continue;
    if (kind === undefined) {
      if (calls.length === 0) continue;
      keepUntil(match.index, text.length);
      break;
    }
    const tag = readTag(text, match.index);
    const name =
      tag?.attributes.get("name") ??
      /^<\w+\s+name\s*=\s*["']?([\w.-]*)/.exec(text.slice(match.index, match.index + 300))?.[1];
    const closing = `</${kind}>`;
    const end =
      tag === undefined || unclosed.has(kind)
        ? undefined
        : tag.isClosed
          ? tag.end
          : findClosing(text, tag, closing);
    if (tag === undefined || end === undefined) {
      if (tag !== undefined) unclosed.add(kind);
      // In a call, parameters follow the tag. If words follow, the text only mentions the tag.
      const isCall = tag === undefined || /^\s*(?:<|$)/.test(text.slice(tag.end, tag.end + 200));
      if (name !== undefined && isCall) open ??= { at: match.index, name };
      continue;
    }
    open = undefined;
    if (!tag.isClosed && !text.startsWith(closing, end)) {
      keepUntil(match.index, end);
      continue;
    }
    const next = tag.isClosed ? end : end + closing.length;
    if (name === undefined) {
      notable.lastIndex = next;
      continue;
    }
    keepUntil(match.index, next);
    const body = tag.isClosed ? "" : text.slice(tag.end, end);
    calls.push({ id: callIdAt(calls.length), name, arguments: readParameters(body) });
  }
  if (open === undefined) return { calls, text: kept.join("") + text.slice(from) };
  return { calls, text: kept.join("") + text.slice(from, open.at), unfinished: open.name };
}

/**
 * The result of a tag call as text for the next message to the model. Tags of this format inside the result
 * are escaped.
 */
export function toTagResult(name: string, result: ToolResult): string {
  const status = result.type === "error" ? "error" : "ok";
  const text = modelText(result, result.attachments).replaceAll(ownTag, "&lt;");
  const shown = name.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
  return `<tool_output name="${shown}" status="${status}">\n${text}\n</tool_output>`;
}

const ownTag = /<(?=\s*(?:\/\s*)?(?:tool_output|tool_action|action)(?![\w-]))/gi;

/**
 * Converts arguments of a tag call to the types of the tool's schema. A string that cannot be converted stays, so that
 * validation can report it.
 */
export function fromTagArguments(args: unknown, definition: Pick<ToolDefinition, "inputSchema">): unknown {
  const root = definition.inputSchema;
  const properties = propertiesOf(root);
  if (!isRecord(args)) return args;
  return Object.fromEntries(
    Object.entries(args).map(([key, value]) => {
      const property = Object.hasOwn(properties, key) ? properties[key] : undefined;
      const types = describingSchemas(property, root).flatMap((schema) => typesOf(schema) ?? []);
      return [key, typeof value === "string" ? toType(value, types) : value];
    }),
  );
}

/** The end of the code block that `fence` opened; an unclosed block takes up the rest of the text. */
function endOfFence(text: string, from: number, fence: string): number {
  const closing = new RegExp(`\\n[ \\t>]*${fence}${fence[0]}*[ \\t]*(?=\\n|$)`, "g");
  closing.lastIndex = from;
  return closing.exec(text) === null ? text.length : closing.lastIndex;
}

/**
 * The end of the code span: the same number of backticks in the same paragraph. Returns `from` if there are
 * none, because then it is not a span.
 */
function endOfSpan(text: string, from: number, length: number): number {
  const notable = /`+|\n[ \t]*\n/g;
  notable.lastIndex = from;
  for (let match = notable.exec(text); match !== null; match = notable.exec(text)) {
    if (match[0].startsWith("\n")) return from;
    if (match[0].length === length) return notable.lastIndex;
  }
  return from;
}

/**
 * Returns a function that tells whether a position is quoted: by a quotation mark before it, or because its
 * line begins with `>`. The function must be called with increasing positions.
 */
function quotationIn(text: string): (at: number) => boolean {
  let line = 0;
  let seen = 0;
  return (at) => {
    line = text.slice(seen, at).lastIndexOf("\n") + 1 === 0 ? line : text.lastIndexOf("\n", at - 1) + 1;
    seen = at;
    return (
      /["'“‘„«「『]/.test(text.charAt(at - 1)) ||
      /^[ \t]{0,40}>/.test(text.slice(line, Math.min(at, line + 41)))
    );
  };
}

interface Tag {
  readonly name: string;
  readonly attributes: ReadonlyMap<string, string>;
  readonly isClosed: boolean;
  readonly end: number;
}

/** The tag that begins at a position; undefined when there is none or it does not end. */
function readTag(text: string, start: number): Tag | undefined {
  const head = /<([\p{L}_][\p{L}\p{N}_.-]*)/uy;
  head.lastIndex = start;
  const name = head.exec(text)?.[1];
  if (name === undefined) return undefined;
  const attributes = new Map<string, string>();
  const token = /\s*(?:(\/?)>|([^\s=/<>"']+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>/]+)))?|\/)/y;
  token.lastIndex = head.lastIndex;
  for (let match = token.exec(text); match !== null; match = token.exec(text)) {
    if (match[1] !== undefined) return { name, attributes, isClosed: match[1] === "/", end: token.lastIndex };
    if (match[2] !== undefined) attributes.set(match[2], decode(match[3] ?? match[4] ?? match[5] ?? ""));
  }
  return undefined;
}

/**
 * The position of the closing tag or, for an unfinished call, of the next call's opening tag; undefined when neither
 * follows. Reads whole tags, so that a quoted value may contain the closing tag.
 */
function findClosing(text: string, opened: Tag, closing: string): number | undefined {
  let next = text.indexOf("<", opened.end);
  while (next >= 0 && !text.startsWith(closing, next)) {
    const tag = readTag(text, next);
    if (tag?.name === opened.name) return next;
    next = text.indexOf("<", tag?.end ?? next + 1);
  }
  return next < 0 ? undefined : next;
}

function readParameters(body: string): Record<string, unknown> {
  const parameters: [string, string][] = [];
  for (let start = body.indexOf("<"); start >= 0; ) {
    const tag = readTag(body, start);
    let position = tag?.end ?? start + 1;
    if (tag !== undefined) {
      const closing = `</${tag.name}>`;
      const end = tag.isClosed ? -1 : body.indexOf(closing, tag.end);
      const value = tag.attributes.get("value") ?? (end < 0 ? undefined : decode(body.slice(tag.end, end)));
      const name = tag.name === "param" ? (tag.attributes.get("name") ?? tag.name) : tag.name;
      if (value !== undefined) parameters.push([name, value]);
      if (end >= 0) position = end + closing.length;
    }
    start = body.indexOf("<", position);
  }
  return Object.fromEntries(parameters);
}

const entities: Readonly<Record<string, string>> = { quot: '"', apos: "'", lt: "<", gt: ">", amp: "&" };

function decode(text: string): string {
  return text.replaceAll(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(\w{2,4}));/gi, (whole, decimal, hex, name) => {
    if (name !== undefined) return entities[name] ?? whole;
    const code = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal);
    return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}

function toType(text: string, types: readonly JsonType[]): unknown {
  if (types.length === 0 || types.includes("string")) return text;
  const trimmed = text.trim();
  const isNumber = types.includes("number") || types.includes("integer");
  if (isNumber && trimmed !== "" && Number.isFinite(Number(trimmed))) return Number(trimmed);
  if (types.includes("boolean") && /^(true|false)$/i.test(trimmed)) return trimmed.toLowerCase() === "true";
  if (types.includes("null") && trimmed === "null") return null;
  if (!types.includes("object") && !types.includes("array")) return text;
  try {
    const value: unknown = JSON.parse(trimmed);
    return typeof value === "object" && value !== null ? value : text;
  } catch {
    return text;
  }
}
