import measure from "fast-string-truncated-width";
import { type JsonValue, toJsonValue } from "./statement.ts";

/** At most about this many characters of all rows together are collected. */
const MOST_CHARACTERS = 8 * 1_048_576;

const LONGEST_VALUE = 65_536;

/** Collects rows up to a limit, so that any result costs a bounded amount of memory. */
export class RowCollector {
  readonly collected: { rows: JsonValue[][]; isTruncated: boolean } = { rows: [], isTruncated: false };
  #characters = 0;
  readonly #limit: number;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Adds a row. Returns false when a limit was already reached: then the row is dropped. */
  add(row: readonly unknown[]): boolean {
    const { rows } = this.collected;
    if (rows.length === this.#limit || this.#characters > MOST_CHARACTERS) {
      this.collected.isTruncated = true;
      return false;
    }
    const values = row.map((value) => clip(toJsonValue(value)));
    rows.push(values);
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

/** Rows as an aligned Markdown table, numbers to the right. Cells are kept on one line, and long ones are clipped. */
export function textTable(columns: readonly string[], rows: readonly (readonly JsonValue[])[]): string {
  const cells = [columns, ...rows].map((row) => row.map(cellText));
  const shapes = columns.map((_name, index) => ({
    width: Math.max(3, ...cells.map((row) => measure(row[index]!).width)),
    isNumeric: rows.length > 0 && rows.every((row) => row[index] === null || typeof row[index] === "number"),
  }));
  const lines = cells.map((row) =>
    row.map((cell, index) => {
      const { width, isNumeric } = shapes[index]!;
      const space = " ".repeat(width - measure(cell).width);
      return isNumeric ? space + cell : cell + space;
    }),
  );
  const rule = shapes.map(({ width, isNumeric }) =>
    isNumeric ? `${"-".repeat(width - 1)}:` : "-".repeat(width),
  );
  return lines
    .toSpliced(1, 0, rule)
    .map((row) => `| ${row.join(" | ")} |`)
    .join("\n");
}

/** Rows for programs: one object each, keyed by column. */
export function asObjects(columns: readonly string[], rows: readonly (readonly JsonValue[])[]) {
  return rows.map((row) => Object.fromEntries(columns.map((name, index) => [name, row[index]!])));
}

function cellText(value: JsonValue): string {
  if (value === null) return "NULL";
  const text = typeof value === "string" ? value : (bytesText(value) ?? JSON.stringify(value));
  const flat = text
    .replace(/\r\n|[\r\n]/g, "⏎")
    .replace(/\t/g, " ")
    .replaceAll("|", "\\|");
  if (flat.length <= WIDEST_CELL) return flat;
  const cut = flat
    .slice(0, WIDEST_CELL)
    .toWellFormed()
    .replace(/\uFFFD$/, "");
  return `${cut}… (${text.length} characters)`;
}

/** The text for a binary value in the form that `toJsonValue` gives it. Undefined for any other value. */
function bytesText(value: JsonValue): string | undefined {
  const { bytes, base64 } = Object(value);
  if (bytes === undefined || base64 === undefined) return undefined;
  const start = Buffer.from(base64, "base64").subarray(0, 16).toString("hex");
  return `<${bytes} bytes: ${start}${bytes > 16 ? "…" : ""}>`;
}
