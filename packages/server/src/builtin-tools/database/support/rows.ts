import measure from "fast-string-truncated-width";
import { type JsonValue, toJsonValue } from "./statement.ts";

/** The limit for the text of all rows together. */
const MOST_CHARACTERS = 8 * 1_048_576;

const LONGEST_VALUE = 65_536;

/** Collects rows up to a limit, so that any result costs a bounded amount of memory. */
export class RowCollector {
  readonly rows: JsonValue[][] = [];
  isTruncated = false;
  #characters = 0;
  readonly #limit: number;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Returns whether more rows are wanted. */
  add(row: readonly unknown[]): boolean {
    if (this.rows.length === this.#limit || this.#characters > MOST_CHARACTERS) {
      this.isTruncated = true;
      return false;
    }
    const values = row.map((value) => clip(toJsonValue(value)));
    this.rows.push(values);
    for (const value of values) this.#characters += sizeOf(value);
    return true;
  }
}

/** Column names made unique, because rows are also given as objects. */
export function uniqueColumns(names: readonly string[]): string[] {
  const taken = new Set<string>();
  return names.map((name) => {
    let unique = name;
    for (let count = 2; taken.has(unique); count++) unique = `${name}_${count}`;
    taken.add(unique);
    return unique;
  });
}

function clip(value: JsonValue): JsonValue {
  if (typeof value !== "string" || value.length <= LONGEST_VALUE) return value;
  return `${value.slice(0, LONGEST_VALUE)}… [${value.length} characters in all]`;
}

function sizeOf(value: JsonValue): number {
  if (typeof value === "string") return value.length;
  return typeof value === "object" && value !== null ? JSON.stringify(value).length : 8;
}

const WIDEST_CELL = 120;

/** Rows as an aligned Markdown table. Cells are kept on one line, and long ones are clipped. */
export function textTable(columns: readonly string[], rows: readonly (readonly JsonValue[])[]): string {
  const header = columns.map((name) => cellText(name));
  const body = rows.map((row) => row.map(cellText));
  const widths = header.map((cell, index) =>
    Math.max(3, widthOf(cell), ...body.map((row) => widthOf(row[index]!))),
  );
  const isNumeric = columns.map(
    (_name, index) => rows.length > 0 && rows.every((row) => isNumberOrNull(row[index])),
  );
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, index) => pad(cell, widths[index]!, isNumeric[index]!)).join(" | ")} |`;
  const rule = widths.map(
    (width, index) => "-".repeat(isNumeric[index] ? width - 1 : width) + (isNumeric[index] ? ":" : ""),
  );
  return [line(header), `| ${rule.join(" | ")} |`, ...body.map(line)].join("\n");
}

/** Rows for programs: one object each, keyed by column. */
export function asObjects(columns: readonly string[], rows: readonly (readonly JsonValue[])[]) {
  return rows.map((row) => Object.fromEntries(columns.map((name, index) => [name, row[index]!])));
}

function cellText(value: JsonValue): string {
  if (value === null) return "NULL";
  const text =
    typeof value === "string" ? value : isBytes(value) ? describeBytes(value) : JSON.stringify(value);
  const flat = text
    .replace(/\r\n|[\r\n]/g, "⏎")
    .replace(/\t/g, " ")
    .replaceAll("|", "\\|");
  if (flat.length <= WIDEST_CELL) return flat;
  return `${flat
    .slice(0, WIDEST_CELL)
    .toWellFormed()
    .replace(/\uFFFD$/, "")}… (${text.length} characters)`;
}

function isBytes(value: JsonValue): value is { readonly bytes: number; readonly base64: string } {
  return typeof value === "object" && value !== null && "bytes" in value && "base64" in value;
}

function describeBytes({ bytes, base64 }: { readonly bytes: number; readonly base64: string }): string {
  const start = Buffer.from(base64, "base64").subarray(0, 16).toString("hex");
  return `<${bytes} bytes: ${start}${bytes > 16 ? "…" : ""}>`;
}

function isNumberOrNull(value: JsonValue | undefined): boolean {
  return typeof value === "number" || value === null;
}

function widthOf(text: string): number {
  return measure(text).width;
}

function pad(text: string, width: number, toTheRight: boolean): string {
  const space = " ".repeat(width - widthOf(text));
  return toTheRight ? space + text : text + space;
}
