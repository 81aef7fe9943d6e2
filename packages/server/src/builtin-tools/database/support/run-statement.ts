import type { InternalToolContext } from "../../../calls/index.ts";
import {
  checkStatement,
  type DeclaredDatabase,
  type JsonValue,
  openDeclared,
  type StatementParameters,
  type StatementResult,
  toJsonValue,
} from "./statement.ts";

const USUAL_LIMIT = 100;
const MOST_ROWS = 10_000;
const USUAL_TIMEOUT = 30_000;
export const LONGEST_TIMEOUT = 10 * 60_000;

export interface StatementArguments {
  readonly database?: string;
  readonly sql: string;
  readonly params?: StatementParameters;
  readonly limit?: number;
  readonly timeout?: number;
}

/** The parameters that both tools take. */
export const statementSchema = {
  type: "object",
  properties: {
    database: {
      type: "string",
      description: "Name of a database that the workspace declares. May be left out when there is only one.",
    },
    sql: {
      type: "string",
      minLength: 1,
      maxLength: 1_000_000,
      description: "One SQL statement, in the database's own dialect.",
    },
    params: {
      anyOf: [{ type: "array" }, { type: "object" }],
      description:
        "Values for placeholders; never write values into the sql. An array for ? (SQLite, MySQL) or $1 (PostgreSQL), an object for :name (all).",
    },
    limit: {
      type: "integer",
      minimum: 1,
      maximum: MOST_ROWS,
      default: USUAL_LIMIT,
      description: "Most rows to give back.",
    },
    timeout: {
      type: "integer",
      minimum: 1,
      maximum: LONGEST_TIMEOUT,
      default: USUAL_TIMEOUT,
      description: "Milliseconds after which the statement is stopped.",
    },
  },
  required: ["sql"],
  additionalProperties: false,
} as const;

export interface RanStatement extends StatementResult {
  readonly database: string;
  readonly elapsed: number;
}

/** Runs what a tool was asked to run. Whatever goes wrong, the message names the database and hides its password. */
export async function runStatement(
  args: StatementArguments,
  ctx: InternalToolContext,
  isWrite: boolean,
): Promise<RanStatement> {
  const { sql, params = [], limit = USUAL_LIMIT } = args;
  const timeout = Math.min(args.timeout ?? USUAL_TIMEOUT, LONGEST_TIMEOUT);
  checkStatement(sql, isWrite);
  const declared = await openDeclared(ctx.workspace, args.database, isWrite);
  const expired = AbortSignal.timeout(timeout);
  const startedAt = performance.now();
  try {
    const statement = { sql, params, limit: Math.min(limit, MOST_ROWS), timeout, isWrite };
    const result = await declared.engine.run(statement, AbortSignal.any([ctx.signal, expired]));
    return { ...result, database: declared.name, elapsed: Math.round(performance.now() - startedAt) };
  } catch (error) {
    if (ctx.signal.aborted) throw ctx.signal.reason;
    if (expired.aborted) throw tookTooLong(declared.name, timeout, isWrite);
    throw failure(declared, error);
  }
}

function tookTooLong(name: string, timeout: number, isWrite: boolean): Error {
  const undone = isWrite ? " and its changes undone" : "";
  return new Error(
    `The statement on "${name}" took longer than ${timeout} ms and was stopped${undone}. Narrow it, or raise timeout.`,
  );
}

/** The database's own words, without what must stay secret. The original is not kept as a cause: it may hold more. */
function failure({ name, engine, secrets }: DeclaredDatabase, error: unknown): Error {
  const { message, detail, hint, code } = describeError(error);
  const said = [message, detail, hint].filter(Boolean).join(" ");
  const safe = secrets.reduce(
    (text, secret) => text.replaceAll(secret, "[hidden]"),
    said || code || "unknown error",
  );
  return new Error(`${engine.name} ("${name}"): ${explain(safe)}`);
}

interface DatabaseComplaint {
  readonly message?: string;
  readonly detail?: string;
  readonly hint?: string;
  readonly code?: string;
}

function describeError(error: unknown): DatabaseComplaint {
  // A refused connection to several addresses of one host says nothing itself; its parts do.
  if (error instanceof AggregateError && error.errors.length > 0) return describeError(error.errors[0]);
  return error instanceof Error ? (error as Error & DatabaseComplaint) : { message: String(error) };
}

function explain(message: string): string {
  if (/readonly database|read-only transaction|READ ONLY transaction/i.test(message)) {
    return `${message}. This tool only reads; use internal_database_update to change data.`;
  }
  if (/^not authorized$|not authorized to use|^authorization denied/i.test(message)) {
    return `${message}. A statement may not attach other files, control transactions, load extensions or change settings.`;
  }
  return message;
}

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

const WIDEST_CELL = 120;

/** Rows as an aligned Markdown table. Cells are kept on one line, and long ones are clipped. */
export function textTable(columns: readonly string[], rows: readonly (readonly JsonValue[])[]): string {
  const header = columns.map((name) => cellText(name));
  const body = rows.map((row) => row.map(cellText));
  const widths = header.map((cell, index) =>
    Math.max(3, displayWidth(cell), ...body.map((row) => displayWidth(row[index]!))),
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

/** East Asian characters take two columns. */
function displayWidth(text: string): number {
  let width = 0;
  for (const character of text)
    width +=
      /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]/.test(
        character,
      )
        ? 2
        : 1;
  return width;
}

function pad(text: string, width: number, toTheRight: boolean): string {
  const space = " ".repeat(width - displayWidth(text));
  return toTheRight ? space + text : text + space;
}
