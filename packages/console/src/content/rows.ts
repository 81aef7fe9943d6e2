import { isRecord } from "../text/index.ts";

export type Row = Readonly<Record<string, unknown>>;

/** A list of objects in a value, and where it is: `orders`, `result.items`; empty when it is the value itself. */
export interface FoundRows {
  readonly path: string;
  readonly rows: readonly Row[];
}

const MOST_TABLES = 10;
/** Objects and lists that are looked into; more would delay the page. */
const MOST_LOOKED_AT = 2_000;

/** The lists of objects in a value, outermost first. Lists inside of found rows stay cells. */
export function rowsIn(value: unknown): FoundRows[] {
  const found: FoundRows[] = [];
  const waiting: { readonly path: string; readonly value: unknown }[] = [{ path: "", value }];
  for (let looked = 0; looked < waiting.length && looked < MOST_LOOKED_AT; looked++) {
    const { path, value: part } = waiting[looked]!;
    if (isRows(part)) {
      if (found.push({ path, rows: part }) === MOST_TABLES) break;
    } else if (typeof part === "object" && part !== null)
      for (const [key, inner] of Object.entries(part))
        if (typeof inner === "object" && inner !== null)
          waiting.push({ path: path === "" ? key : `${path}.${key}`, value: inner });
  }
  return found;
}

function isRows(value: unknown): value is readonly Row[] {
  return Array.isArray(value) && value.length > 0 && value.every((row) => isRecord(row) && !isEmpty(row));
}

function isEmpty(row: Row): boolean {
  for (const _key in row) return false;
  return true;
}

/** The keys of all rows, in the order in which they first occur. */
export function columnsOf(rows: readonly Row[]): string[] {
  const columns = new Set<string>();
  for (const row of rows) for (const key of Object.keys(row)) columns.add(key);
  return [...columns];
}

/** A cell as text: a text as it is, anything else as JSON; empty for null and for what is missing. */
export function cellText(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

export interface Order {
  readonly column: string;
  readonly isDown: boolean;
}

/** The rows that have the text in a cell, in the wanted order. Empty cells come last in either direction. */
export function arrange(rows: readonly Row[], wanted: string, order: Order | undefined): readonly Row[] {
  const text = wanted.trim().toLowerCase();
  const fitting =
    text === ""
      ? rows
      : rows.filter((row) => Object.values(row).some((cell) => cellText(cell).toLowerCase().includes(text)));
  if (order === undefined) return fitting;
  const sign = order.isDown ? -1 : 1;
  return fitting.toSorted((left, right) => {
    const [one, other] = [left[order.column], right[order.column]];
    const [text, otherText] = [cellText(one), cellText(other)];
    if (text === "" || otherText === "") return Number(text === "") - Number(otherText === "");
    if (typeof one === "number" && typeof other === "number") return sign * (one - other);
    return sign * collator.compare(text, otherText);
  });
}
const collator = new Intl.Collator(undefined, { numeric: true });

/** The rows as CSV (RFC 4180), with a first line of column names. Texts that a spreadsheet would run stay texts. */
export function asCsv(rows: readonly Row[], columns: readonly string[]): string {
  const lines = rows.map((row) => columns.map((column) => csvCell(row[column])).join(","));
  return [columns.map(csvCell).join(","), ...lines].join("\r\n");
}

function csvCell(value: unknown): string {
  const isFormula = typeof value === "string" && /^[=+\-@\t\r]/.test(value);
  const text = isFormula ? `'${value}` : cellText(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
