export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

export type StatementParameters = readonly JsonValue[] | Readonly<Record<string, JsonValue>>;

export interface Statement {
  readonly sql: string;
  readonly params: StatementParameters;
  readonly limit: number;
  /** Milliseconds. */
  readonly timeout: number;
  /** `false`: the database itself must refuse every change. */
  readonly isWrite: boolean;
}

/** The result of a statement. Every value is safe for JSON. */
export interface StatementResult {
  /** In the order of the statement, made unique. */
  readonly columns: readonly string[];
  /** Values in the order of the columns. */
  readonly rows: readonly (readonly JsonValue[])[];
  readonly isTruncated: boolean;
  /** Null for a statement that inserts, updates and deletes no rows. */
  readonly affectedRows: number | null;
  readonly lastInsertId: number | string | null;
}

/**
 * Runs statements on one kind of database. `run` opens and closes its own connection. It rejects with the database's
 * own error. When `signal` aborts, the database stops the statement and undoes its changes. A commit that has begun is
 * not stopped, so a rejection by `signal` always means that nothing was changed.
 */
export interface DatabaseEngine {
  readonly name: string;
  run(statement: Statement, signal: AbortSignal): Promise<StatementResult>;
}

/** First words that the reading tool accepts. The database refuses a change after them (`WITH … DELETE`). */
const readingWords = /^(SELECT|WITH|VALUES|TABLE|SHOW|EXPLAIN|DESCRIBE|DESC|PRAGMA)$/;

/** Statements that would leave the tool's own transaction, or the database. */
const refusedWords =
  /^(ABORT|ATTACH|BEGIN|COMMIT|COPY|DETACH|END|HANDLER|LOAD|LOCK|PREPARE|RELEASE|ROLLBACK|SAVEPOINT|SET|START|UNLOCK|USE|XA)$/;

/**
 * Throws for a statement that the tool must not run, before any database sees it. The databases refuse such
 * statements as well.
 */
export function checkStatement(sql: string, isWrite: boolean): void {
  const word = leadingWord(sql);
  if (word === "") throw new Error("The sql holds no statement. Give exactly one SQL statement.");
  if (!isWrite && !readingWords.test(word)) {
    throw new Error(
      `${word} is not a reading statement, and internal_database_query only reads. Use internal_database_update to change data.`,
    );
  }
  if (isWrite && refusedWords.test(word)) {
    throw new Error(
      `${word} cannot be used here: the statement already runs in a transaction of its own, which is committed when it succeeds and rolled back when it fails.`,
    );
  }
}

/** The first word of a statement in upper case, past comments and opening brackets. */
export function leadingWord(sql: string): string {
  // MySQL runs the content of comments that begin with "/*!", so those are not skipped.
  const start = /^(?:[\s(;]|(?:--|#)[^\n]*(?:\n|$)|\/\*(?!!)[\s\S]*?\*\/)*/.exec(sql)?.[0].length ?? 0;
  return /^[A-Za-z]+|^\S/.exec(sql.slice(start))?.[0].toUpperCase() ?? "";
}

/** Whether what follows a statement is comments and semicolons only. */
export function isBlank(sql: string): boolean {
  return /^[\s;]*$/.test(sql.replace(/--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/g, ""));
}

type Dialect = "sqlite" | "postgres" | "mysql";

/**
 * Matches string literals, quoted names and comments, in which placeholders do not count, and then the
 * placeholders: `named` has a name, `numbered` a number, and `next` takes the next value. An unclosed quote
 * reaches to the end, as databases read it; that also keeps the search linear.
 */
const tokens: Readonly<Record<Dialect, RegExp>> = {
  sqlite:
    /'(?:[^']|'')*(?:'|$)|"(?:[^"]|"")*(?:"|$)|`(?:[^`]|``)*(?:`|$)|\[[^\]]*(?:\]|$)|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|[?$](?<numbered>\d+)|[:@$](?<named>[A-Za-z_]\w*)|(?<next>\?)/g,
  // After a word, a number or a bracket the colon belongs to an array slice.
  postgres:
    /\b[eE]'(?:[^'\\]|\\[\s\S]|'')*(?:'|$)|'(?:[^']|'')*(?:'|$)|"(?:[^"]|"")*(?:"|$)|\$(?<tag>[A-Za-z_]\w*)?\$[\s\S]*?(?:\$\k<tag>\$|$)|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|::|\$(?<numbered>\d+)|(?<![\w\][)]):(?<named>[A-Za-z_]\w*)/g,
  mysql:
    /'(?:[^'\\]|\\[\s\S]|'')*(?:'|$)|"(?:[^"\\]|\\[\s\S]|"")*(?:"|$)|`(?:[^`]|``)*(?:`|$)|(?:#|--(?=\s|$))[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|:(?<named>[A-Za-z_]\w*)|(?<next>\?)/g,
};

/** How each dialect writes a placeholder; positions count from 1. */
const placeholderFor: Readonly<Record<Dialect, (position: number) => string>> = {
  sqlite: (position) => `?${position}`,
  postgres: (position) => `$${position}`,
  mysql: () => "?",
};

export interface BoundSql {
  readonly sql: string;
  readonly values: readonly JsonValue[];
}

/**
 * The statement with the dialect's own placeholders, and the values in their order. Throws for parameters that do not
 * fit: some databases would silently use NULL.
 */
export function bindParameters(dialect: Dialect, sql: string, params: StatementParameters): BoundSql {
  const list = isList(params) ? params : undefined;
  const named: Readonly<Record<string, JsonValue>> = isList(params) ? {} : params;
  const values = list === undefined ? [] : [...list];
  const positions = new Map<string, number>();
  let count = 0;
  const bound = sql.replace(tokens[dialect], (token, ...rest) => {
    // The named groups are the last argument, and at most one of them is set.
    const { named: name, numbered, next } = rest.at(-1) as Partial<Record<string, string>>;
    if (list !== undefined) {
      if (name !== undefined)
        throw new Error(
          `The statement uses ${token}, so params must be an object, for example {"${name}": …}.`,
        );
      if (next !== undefined) count++;
      if (numbered === undefined) return token;
      count = Math.max(count, Number(numbered));
      return placeholderFor[dialect](Number(numbered));
    }
    if (numbered !== undefined || next !== undefined)
      throw new Error(
        `The statement uses ${token}, so params must be an array with a value for each placeholder.`,
      );
    if (name === undefined) return token;
    const value = Object.hasOwn(named, name) ? named[name] : undefined;
    if (value === undefined)
      throw new Error(`The statement uses ${token}, but params has no "${name}". Add it to params.`);
    // MySQL's placeholders have no numbers, so every use needs its own value.
    const known = dialect === "mysql" ? undefined : positions.get(name);
    const position = known ?? values.push(value);
    positions.set(name, position);
    return placeholderFor[dialect](position);
  });
  if (list !== undefined && count !== list.length) {
    throw new Error(
      `The statement has ${count} placeholders, but params has ${list.length} values. Give one for each.`,
    );
  }
  const unused = Object.keys(named).filter((name) => !positions.has(name));
  if (unused.length === 0) return { sql: bound, values };
  const names = unused.map((name) => `"${name}"`).join(", ");
  throw new Error(`params has ${names}, which the statement does not use.`);
}

function isList(params: StatementParameters): params is readonly JsonValue[] {
  return Array.isArray(params);
}

const SHOWN_BYTES = 1_024;

/** Turns any value of a database driver into a JSON value. */
export function toJsonValue(value: unknown): JsonValue {
  if (value === null || value === undefined) return null;
  if (typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number") return Number.isFinite(value) ? value : String(value);
  if (typeof value === "bigint") return toSafeInteger(value);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (ArrayBuffer.isView(value)) return describeBytes(value);
  if (Array.isArray(value)) return value.map(toJsonValue);
  if (typeof value !== "object") return String(value);
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, toJsonValue(one)]));
}

/** A number if it is exact, otherwise its digits as text. */
export function toSafeInteger(value: bigint): number | string {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value.toString();
}

function describeBytes(view: ArrayBufferView): JsonValue {
  const bytes = Buffer.from(view.buffer, view.byteOffset, view.byteLength);
  const shown = bytes.subarray(0, SHOWN_BYTES);
  return {
    bytes: bytes.length,
    base64: shown.toString("base64"),
    ...(shown.length < bytes.length && { isCut: true }),
  };
}
