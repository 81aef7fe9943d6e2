import { toJsonValue } from "./json-value.ts";
import type { JsonValue } from "./statement.ts";

/** Rows with this much text in all are enough for anyone who reads them. */
const MOST_CHARACTERS = 8 * 1_048_576;

/** Longest text of a single value. */
const LONGEST_VALUE = 65_536;

/** Takes rows until there are enough, so that a result of any size costs a bounded amount of memory. */
export class RowCollector {
  readonly rows: JsonValue[][] = [];
  isTruncated = false;
  #characters = 0;
  readonly #limit: number;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Answers whether more rows are wanted. */
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
