import type { ListItem, MarkdownBlock, Taken } from "./markdown.ts";

const marker = /^( *)([-*+]|\d{1,9}[.)])(?:( +)(.*))?$/;
/** What is indented by so much belongs to the item above, even if the text of that begins further to the right. */
const LEAST_INDENT = 2;

export function isRule(line: string): boolean {
  return /^ {0,3}([-*_])(?: *\1){2,} *$/.test(line);
}

/** Whether a line ends the paragraph before it because a list begins. */
export function isListStart(line: string): boolean {
  const [, , sign, , text = ""] = marker.exec(line) ?? [];
  return sign !== undefined && text !== "" && (!isNumber(sign) || Number.parseInt(sign, 10) === 1);
}

/**
 * The list that begins in a line, with all that belongs to its items: lines that are indented, lists of their own, and
 * lines that go on with a sentence. Blank lines between items do not end it.
 */
export function takeList(
  lines: readonly string[],
  at: number,
  inner: (lines: readonly string[]) => MarkdownBlock[],
): Taken | undefined {
  const first = marker.exec(lines[at]!);
  if (first === null) return undefined;
  const indent = first[1]!.length;
  const isNumbered = isNumber(first[2]!);
  const items: ListItem[] = [];
  let next = at;
  while (next < lines.length) {
    const begun = marker.exec(lines[next]!);
    if (begun === null || begun[1]!.length < indent || isNumber(begun[2]!) !== isNumbered) break;
    if (isRule(lines[next]!)) break;
    const end = endOfItem(lines, next, begun[1]!.length);
    items.push(itemOf(lines.slice(next, end), begun, inner));
    next = skipBlank(lines, end);
  }
  const start = isNumbered ? { start: Number.parseInt(first[2]!, 10) } : {};
  return { block: { kind: "list", ...start, items }, count: next - at };
}

/** The line after the last one of an item that begins in a line and whose marker is indented by `indent`. */
function endOfItem(lines: readonly string[], start: number, indent: number): number {
  let end = start + 1;
  let isFence = false;
  for (let at = start + 1; at < lines.length; at++) {
    const line = lines[at]!;
    if (line.trim() === "") continue;
    const isInside = indentOf(line) >= indent + LEAST_INDENT;
    // Somebody goes on with the sentence of the item without indenting it.
    const isLazy = !isFence && at === end && !marker.test(line) && !/^ *([`~]{3}|#{1,6} |>|\|)/.test(line);
    if (!isInside && (!isLazy || isRule(line))) break;
    if (/^ *(`{3}|~{3})/.test(line)) isFence = !isFence;
    end = at + 1;
  }
  return end;
}

function itemOf(
  lines: readonly string[],
  begun: RegExpExecArray,
  inner: (lines: readonly string[]) => MarkdownBlock[],
): ListItem {
  const [, indent = "", sign = "", space = " ", text = ""] = begun;
  const [, box, rest = text] = /^\[([ xX])\] +(.*)$/.exec(text) ?? [];
  const inside = lines
    .slice(1)
    .filter((line) => indentOf(line) >= indent.length + LEAST_INDENT && line.trim() !== "");
  // Where the rest is indented by less than the text, by so much: what is nested in it keeps its distance.
  const inset = Math.min(indent.length + sign.length + space.length, ...inside.map(indentOf));
  const below = lines.slice(1).map((line) => line.slice(Math.min(indentOf(line), inset)));
  const blocks = inner([rest, ...below]);
  return box === undefined ? { blocks } : { isDone: box !== " ", blocks };
}

function skipBlank(lines: readonly string[], from: number): number {
  let at = from;
  while (at < lines.length && lines[at]!.trim() === "") at++;
  return at;
}

function isNumber(sign: string): boolean {
  return /^\d/.test(sign);
}

function indentOf(line: string): number {
  return line.length - line.trimStart().length;
}
