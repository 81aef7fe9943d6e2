import measure from "fast-string-truncated-width";
import { usageError } from "./cli-error.ts";

export { amount } from "../helpers/index.ts";

export interface TableOptions {
  readonly head?: readonly string[];
  /** Columns of the terminal; without it nothing is clipped. */
  readonly columns?: number | undefined;
  /** The column that is shortened when there is too little room. */
  readonly flexible?: number;
  /** Styles the header row. */
  readonly styleHead?: (text: string) => string;
}

const GAP = "  ";
const LEAST_ROOM = 12;
/**
 * Cells are padded at most to this width. When the output is no terminal, cells are not clipped, and one long
 * cell would widen every row.
 */
const WIDEST_PADDING = 80;

/** Lines of text in columns that are aligned on the screen, Chinese included. */
export function renderTable(rows: readonly (readonly string[])[], options: TableOptions = {}): string[] {
  const { head, columns, flexible = -1, styleHead = (text: string) => text } = options;
  const all = head === undefined ? rows : [head, ...rows];
  const count = Math.max(0, ...all.map((row) => row.length));
  const widths = Array.from({ length: count }, (_, index) =>
    Math.max(0, ...all.map((row) => displayWidth(row[index] ?? ""))),
  );
  const widest = widths[flexible];
  if (widest !== undefined) {
    const others = widths.reduce((sum, width) => sum + width + GAP.length, 0) - widest - GAP.length;
    const room = columns === undefined ? WIDEST_PADDING : Math.max(LEAST_ROOM, columns - others);
    widths[flexible] = Math.min(widest, room);
  }
  const fit = (cell: string, index: number) => {
    const width = widths[index] ?? 0;
    return padDisplay(index === flexible && columns !== undefined ? clipDisplay(cell, width) : cell, width);
  };
  return all.map((row) => {
    const line = row.map(fit).join(GAP).trimEnd();
    return row === head ? styleHead(line) : line;
  });
}

/** Anything but letters, digits and signs of ASCII and spaces. Most text has none, and then needs no measuring or cleaning. */
const unusual = /[^ -~]/;

/** Characters of width 0 that the measuring library counts as 1. */
const invisible = /[\u200b\u2060\ufeff]/g;

/** How many columns of a terminal the text takes; colours take none. */
export function displayWidth(text: string): number {
  if (!unusual.test(text)) return text.length;
  return measure(text.replace(invisible, "")).width;
}

export function padDisplay(text: string, width: number, side: "start" | "end" = "end"): string {
  const fill = " ".repeat(Math.max(0, width - displayWidth(text)));
  return side === "end" ? text + fill : fill + text;
}

/** Cuts the text to the width and adds `…`. The text must not contain colours. */
export function clipDisplay(text: string, room: number): string {
  if (displayWidth(text) <= room) return text;
  const { index } = measure(text, { limit: room, ellipsis: "…", ellipsisWidth: 1 });
  return `${text.slice(0, index).trimEnd()}…`;
}

/** Characters that control a terminal: control characters and marks of text direction, but not line ends and tabs. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are exactly what must be found.
const unsafe = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Makes foreign text safe to show on a terminal. */
export function printable(text: string): string {
  return text
    .replaceAll("\r\n", "\n")
    .replace(unsafe, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Besides what is unusual, spaces that are not between two words. */
const unusualInLine = /[^ -~]|^ | {2}| $/;

/** Like `printable`, but on one line. */
export function oneLine(text: string): string {
  if (!unusualInLine.test(text)) return text;
  return printable(text.replace(/\s+/g, " ").trim());
}

/** Like `oneLine`, but cut to `longest` characters. */
export function shorten(text: string, longest: number): string {
  const shown = oneLine(text);
  return shown.length > longest ? `${shown.slice(0, longest - 1)}…` : shown;
}

const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Milliseconds of `500ms`, `30s`, `1.5m`, `2h` or `7d`. The unit is never guessed. */
export function parseDuration(text: string, option: string): number {
  const [, amount, unit = ""] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text.trim()) ?? [];
  const milliseconds = Number(amount) * (units[unit] ?? Number.NaN);
  if (Number.isFinite(milliseconds)) return milliseconds;
  throw usageError(`${option} "${text}" is no duration. Write it with a unit, such as 500ms, 30s or 10m.`);
}

export function formatDuration(milliseconds: number): string {
  if (milliseconds < 10) return `${milliseconds.toFixed(1)} ms`;
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 60_000) return `${(milliseconds / 1000).toFixed(1)} s`;
  return `${Math.floor(milliseconds / 60_000)} min ${Math.round((milliseconds % 60_000) / 1000)} s`;
}

/** `2026-03-15T02:29:40Z`, or `-` for never. */
export function formatTime(milliseconds: number | undefined): string {
  return milliseconds === undefined ? "-" : `${new Date(milliseconds).toISOString().slice(0, 19)}Z`;
}

/** `TypeError at tools/price.ts:12` and the frames below it. The message is left out: it stands above. */
export function traceLines(
  { at, stack }: { readonly at: string; readonly stack: string },
  style: (how: "bold" | "dim", text: string) => string,
): string[] {
  const kind = /^\w+/.exec(stack)?.[0] ?? "Error";
  const frames = stack.split("\n").filter((line) => line.trimStart().startsWith("at "));
  return [
    style("bold", printable(`${kind} at ${at}`)),
    ...frames.map((line) => style("dim", printable(line))),
  ];
}
