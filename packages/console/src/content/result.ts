import type { CallLine, CallProgress, ToolResult } from "../api/index.ts";
import {
  type CodedError,
  callErrorText,
  estimateTokens,
  formatBytes,
  formatNumber,
  isRecord,
  t,
} from "../text/index.ts";

/** The part of a text that the model was not given: from `from` on, up to `to`. */
export interface Gap {
  readonly from: number;
  readonly to: number;
}

/**
 * The beginning of a result, its full length, the part that the model was not given, and the call whose record has the
 * rest. Cuts off the note for models, which follows the beginning of a truncated result.
 */
export function wholeOf({ content, metadata }: ToolResult, total = 0, callId?: string) {
  const { head, tail, total: all, callId: origin } = isRecord(metadata?.truncated) ? metadata.truncated : {};
  if (typeof head !== "number" || typeof all !== "number")
    return { text: content, total: Math.max(total, content.length), callId, gap: undefined };
  const gap: Gap = { from: head, to: typeof tail === "number" ? tail : all };
  const id = typeof origin === "string" ? origin : callId;
  return { text: content.slice(0, head), total: all, callId: id, gap };
}

/** Texts of more characters are estimated from their beginning. */
const MOST_TO_COUNT = 400_000;

/** About how many tokens the whole text of a result has, and how many of them the model was given. */
export function tokensOf(
  result: ToolResult,
  total?: number,
): { readonly whole: number; readonly given: number } {
  const { text, total: length, gap } = wholeOf(result, total);
  const known = text.slice(0, MOST_TO_COUNT);
  const tokensFor = (characters: number) =>
    known === "" ? 0 : Math.round(estimateTokens(known) * (characters / known.length));
  const whole = tokensFor(length);
  return { whole, given: gap === undefined ? whole : tokensFor(length - (gap.to - gap.from)) };
}

export interface Medium {
  readonly kind: "image" | "audio" | "video" | "file" | "link";
  readonly url: string;
  readonly name: string;
}

/** All attachments of a result. Files on other machines become links and are never fetched unasked. */
export function mediaOf({ attachments = [], blocks = [] }: ToolResult): Medium[] {
  const files = attachments.map(({ mime, url, filename }) => medium(mime, url, filename));
  const fromBlocks = blocks.flatMap((block) => partOf(block)?.medium ?? []);
  // A file in both lists is shown once.
  const seen = new Set<string>();
  return [...files, ...fromBlocks].filter(({ url }) => !seen.has(url) && seen.add(url));
}

/** A text or a medium of a result. */
export interface ResultPart {
  readonly text?: string;
  readonly medium?: Medium;
}

/**
 * The parts of a result of several blocks, in the order in which the tool gave them; further attachments come last.
 * Undefined for other results.
 */
export function partsOf(result: ToolResult): readonly ResultPart[] | undefined {
  const parts = (result.blocks ?? []).flatMap((block) => partOf(block) ?? []);
  if (parts.length < 2 || !parts.some(({ text }) => text !== undefined)) return undefined;
  const placed = new Set(parts.map((part) => part.medium?.url));
  const others = mediaOf(result).filter(({ url }) => !placed.has(url));
  return [...parts, ...others.map((one) => ({ medium: one }))];
}

/** A content block of MCP, as far as the console can show it. What a resource holds is read as a block of its own. */
function partOf(block: Readonly<Record<string, unknown>>): ResultPart | undefined {
  const { type, text, data, blob, mimeType, uri, name, resource } = block;
  if (type === "resource") return isRecord(resource) ? partOf({ ...resource, type: "content" }) : undefined;
  const mime = typeof mimeType === "string" ? mimeType : "application/octet-stream";
  const file = (bytes: string, shown?: string) => medium(mime, `data:${mime};base64,${bytes}`, shown);
  if ((type === "text" || type === "content") && typeof text === "string") return { text };
  if ((type === "image" || type === "audio") && typeof data === "string") return { medium: file(data) };
  if (type === "content" && typeof blob === "string")
    return {
      medium: file(
        blob,
        String(uri ?? mime)
          .split("/")
          .at(-1),
      ),
    };
  if (type === "resource_link" && typeof uri === "string")
    return { medium: medium("", uri, typeof name === "string" ? name : uri) };
  return undefined;
}

function medium(mime: string, url: string, name?: string): Medium {
  const shown = name ?? (mime || url);
  if (!url.startsWith("data:")) return { kind: "link", url: isSafeLink(url) ? url : "", name: name ?? url };
  const [family] = mime.split("/");
  // SVG is shown only as an image, where its scripts do not run.
  const kind = family === "image" || family === "audio" || family === "video" ? family : "file";
  return { kind, url, name: shown };
}

/**
 * The approximate size of a result in bytes: its text as UTF-8 and its attachments. Exact when the whole text is here.
 */
export function resultSize(result: ToolResult, total?: number): number {
  const whole = wholeOf(result, total);
  const shown = new TextEncoder().encode(whole.text).length;
  // Of a longer text only the length is known; its bytes are estimated from the beginning.
  const text = whole.text === "" ? whole.total : shown * (whole.total / whole.text.length);
  return mediaOf(result).reduce((sum, { url }) => sum + dataSize(url), Math.round(text));
}

/** Size and tokens of the whole result, and how much of it the model was given, for people. */
export function sizesOf(result: ToolResult, total?: number): string[] {
  const { whole, given } = tokensOf(result, total);
  return [
    formatBytes(resultSize(result, total)),
    ...(whole === 0 ? [] : [t("tools.tokens", { count: formatNumber(whole) })]),
    ...(given === whole ? [] : [t("tools.tokensGiven", { count: formatNumber(given) })]),
  ];
}

/** The size of a `data:` address in bytes; 0 for any other. */
export function dataSize(url: string): number {
  const comma = url.indexOf(",");
  if (!url.startsWith("data:") || comma === -1) return 0;
  const length = url.length - comma - 1;
  if (!url.slice(0, comma).endsWith(";base64")) return length;
  return Math.floor((length * 3) / 4) - (url.endsWith("==") ? 2 : url.endsWith("=") ? 1 : 0);
}

/**
 * Matches the message that the rack gives a model whose call was denied, and captures the person's reason.
 */
const denial =
  /^Running ".*?" was refused(?:: (?<reason>.*)|, without giving a reason)\. It did not run\. Do not repeat the call unchanged\.$/s;

/**
 * The error message of a call, for people. The one for denied calls is written for models, so it is reworded.
 */
export function messageOf(error: CodedError): string {
  const { code, message } = error;
  const found = code === "approval_denied" ? denial.exec(message) : null;
  if (found === null) return callErrorText(error) ?? message;
  const reason = found.groups?.reason;
  return reason === undefined ? t("errors.denied") : t("errors.deniedBecause", { reason });
}

/** Progress of a call from 0 to 1; undefined when unknown. */
export function shareOf({ progress, total }: CallProgress = {}): number | undefined {
  return progress === undefined || !total ? undefined : Math.min(1, progress / total);
}

/** How many lines are shown at each end of a long log. */
const SHOWN = 20;

/** The lines to show of a log. Before the line with index `at`, `hidden` lines are left out. */
export function foldLines(lines: readonly CallLine[], showsAll: boolean) {
  const hidden = lines.length - 2 * SHOWN;
  // Hiding fewer lines would save no space.
  if (showsAll || hidden < 5) return { lines, at: -1, hidden: 0 };
  return { lines: [...lines.slice(0, SHOWN), ...lines.slice(-SHOWN)], at: SHOWN, hidden };
}

/** Log lines in the order of their time. Messages of progress may arrive after lines that were written later. */
export function inTime(lines: readonly CallLine[]): readonly CallLine[] {
  return lines.toSorted((left, right) => left.at - right.at);
}

export function logAsText(lines: readonly CallLine[]): string {
  return lines.map(({ at, level, text }) => `${new Date(at).toISOString()} ${level} ${text}`).join("\n");
}

/** Longest block in characters: short enough to lay out without delay. */
const LONGEST = 32 * 1024;

/**
 * Cuts a text into blocks at line breaks, which are dropped because every block ends a line. A line is cut
 * only when it is longer than a block.
 */
export function intoBlocks(text: string): string[] {
  const blocks: string[] = [];
  let at = 0;
  while (text.length - at > LONGEST) {
    const lineBreak = text.lastIndexOf("\n", at + LONGEST);
    const end = lineBreak > at ? lineBreak : at + LONGEST;
    blocks.push(text.slice(at, end));
    at = lineBreak > at ? end + 1 : end;
  }
  blocks.push(text.slice(at));
  return blocks;
}

/** Allows links to pages and mailboxes; anything that could run code is refused. */
export function isSafeLink(href: string): boolean {
  return /^(https?:|mailto:)/i.test(href);
}
