import { controlSigns, mysqlEscape, postgresEscape, SqlScanner } from "./sql-scanner.ts";

type SqlRows = Map<string, Record<string, SqlValue>[]>;

/**
 * The rows of the wanted tables in a dump of MySQL, MariaDB, SQLite (INSERT) or PostgreSQL (INSERT and COPY). It is
 * read, never run. Throws with the line of what it cannot read, and of a wanted column whose value only the database
 * could compute. `wanted` has the columns by their tables.
 */
export function parseSqlDump(text: string, wanted: ReadonlyMap<string, ReadonlySet<string>>): SqlRows {
  return new DumpReader(text, wanted).read();
}

class DumpReader {
  readonly #scanner: SqlScanner;
  readonly #wanted: ReadonlyMap<string, ReadonlySet<string>>;
  readonly #columns = new Map<string, string[]>();
  readonly #rows: SqlRows = new Map();

  constructor(text: string, wanted: ReadonlyMap<string, ReadonlySet<string>>) {
    this.#scanner = new SqlScanner(text);
    this.#wanted = wanted;
  }

  read(): SqlRows {
    const scanner = this.#scanner;
    while (!scanner.isAtEnd) {
      const verb = scanner.word()?.toUpperCase();
      if (verb === "CREATE") this.#readCreate();
      else if (verb === "INSERT" || verb === "REPLACE") this.#readInsert();
      else if (verb === "COPY") this.#readCopy();
      else scanner.skipStatement();
    }
    return this.#rows;
  }

  /** For the order of the columns, where an INSERT does not say it. */
  #readCreate(): void {
    const scanner = this.#scanner;
    if (scanner.word()?.toUpperCase() !== "TABLE") {
      scanner.skipStatement();
      return;
    }
    const save = scanner.at;
    if (!["IF", "NOT", "EXISTS"].every((part) => scanner.word()?.toUpperCase() === part)) scanner.at = save;
    const table = scanner.tableName();
    if (this.#wanted.has(table) && scanner.take("(")) this.#columns.set(table, this.#columnNames());
    const start = scanner.at;
    scanner.skipStatement();
    const options = scanner.text.slice(start, scanner.at).split(")").at(-1) ?? "";
    if (/\bENGINE\s*=/i.test(options)) scanner.noteMysql();
  }

  #columnNames(): string[] {
    const scanner = this.#scanner;
    const columns: string[] = [];
    for (;;) {
      const isQuoted = /["`[]/.test(scanner.peek());
      const name = scanner.name();
      const isColumn =
        isQuoted ||
        !/^(primary|unique|key|index|constraint|foreign|check|fulltext|exclude|like)$/i.test(name);
      if (isColumn) columns.push(name.toLowerCase());
      if (!scanner.skipToComma()) return columns;
    }
  }

  #readInsert(): void {
    const scanner = this.#scanner;
    for (let next = scanner.word()?.toUpperCase(); next !== "INTO"; next = scanner.word()?.toUpperCase()) {
      if (next === undefined) {
        scanner.skipStatement();
        return;
      }
    }
    const table = scanner.tableName();
    if (!this.#wanted.has(table)) {
      scanner.skipStatement();
      return;
    }
    const columns = scanner.peek() === "(" ? scanner.nameList() : this.#columns.get(table);
    if (columns === undefined)
      throw scanner.problem(`the columns of ${table} are not known: the dump has no CREATE TABLE`);
    if (scanner.word()?.toUpperCase() !== "VALUES") {
      scanner.skipStatement();
      return;
    }
    do this.#add(table, columns, this.#valueList());
    while (scanner.take(","));
    scanner.skipStatement();
  }

  /** PostgreSQL: lines of fields, separated by tabs, up to a line with `\.` */
  #readCopy(): void {
    const scanner = this.#scanner;
    const { text } = scanner;
    const table = scanner.tableName();
    const columns = scanner.peek() === "(" ? scanner.nameList() : (this.#columns.get(table) ?? []);
    const start = text.indexOf("\n", scanner.at) + 1;
    const end = text.indexOf("\n\\.", start - 1);
    if (start === 0 || end === -1) throw scanner.problem("a COPY has no end");
    if (this.#wanted.has(table)) {
      for (const line of text.slice(start, end).split("\n")) {
        if (line !== "") this.#add(table, columns, line.replace(/\r$/, "").split("\t").map(copyField));
      }
    }
    scanner.at = end + 3;
  }

  #add(table: string, columns: readonly string[], values: readonly (SqlValue | UnknownValue)[]): void {
    if (values.length !== columns.length) {
      throw this.#scanner.problem(
        `a row of ${table} has ${values.length} values for ${columns.length} columns`,
      );
    }
    const row: Record<string, SqlValue> = {};
    for (const [at, column] of columns.entries()) {
      const value = values[at]!;
      if (!(value instanceof UnknownValue)) row[column] = value;
      else if (this.#wanted.get(table)?.has(column)) {
        throw this.#scanner.problem(
          `${table}.${column} is ${value.written}, which only the database can compute`,
        );
      }
    }
    const rows = this.#rows.get(table);
    if (rows === undefined) this.#rows.set(table, [row]);
    else rows.push(row);
  }

  #valueList(): (SqlValue | UnknownValue)[] {
    const scanner = this.#scanner;
    if (!scanner.take("(")) throw scanner.problem("a row does not begin with (");
    const values: (SqlValue | UnknownValue)[] = [];
    do values.push(readSqlValue(scanner));
    while (scanner.take(","));
    if (!scanner.take(")")) throw scanner.problem("a row does not end with )");
    return values;
  }
}

function copyField(field: string): SqlValue {
  if (field === "\\N") return null;
  return field.replace(/\\(.)/g, (_whole, sign: string) => controlSigns[sign] ?? sign);
}

type SqlValue = string | number | null;

/** A value that only the database itself could have computed, such as `now()`. */
class UnknownValue {
  /** As the dump writes it. */
  readonly written: string;

  constructor(written: string) {
    this.written = written;
  }
}

/** Reads one value of a row. Throws with the line for what is none. */
function readSqlValue(scanner: SqlScanner): SqlValue | UnknownValue {
  const value = readPrimary(scanner);
  // PostgreSQL: what type it has says nothing more about it.
  while (scanner.take("::")) {
    scanner.tableName();
    // Such as `character varying`.
    while (scanner.word() !== undefined);
    if (scanner.take("(")) scanner.skipToComma();
    scanner.take("[]");
  }
  return value;
}

function readPrimary(scanner: SqlScanner): SqlValue | UnknownValue {
  const sign = scanner.peek();
  if (sign === "'") return scanner.quoted("'", scanner.hasEscapes ? mysqlEscape : undefined);
  if (sign === "$") {
    const text = scanner.dollarQuoted();
    if (text !== undefined) return text;
  }
  const bits = scanner.match(/b'[01]*'/iy);
  if (bits !== undefined) return Number.parseInt(bits.slice(2, -1) || "0", 2);
  const bytes = scanner.match(/x'[\da-f]*'|0x[\da-f]+/iy);
  if (bytes !== undefined) return textOfBytes(bytes.replace(/^0?x'?|'$/gi, ""));
  const prefix = scanner.match(/(?:[EN]|_(?:utf8mb[34]|utf8|binary|latin1|ascii)\s*)(?=')/iy);
  if (prefix !== undefined) {
    const isPostgres = /^e/i.test(prefix);
    return scanner.quoted("'", isPostgres ? postgresEscape : scanner.hasEscapes ? mysqlEscape : undefined);
  }
  const digits = scanner.match(/[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?/iy);
  if (digits !== undefined) {
    // An id may have more digits than a number can hold.
    return String(Number(digits)) === digits ? Number(digits) : digits;
  }
  return readWord(scanner);
}

function readWord(scanner: SqlScanner): SqlValue | UnknownValue {
  const name = scanner.word();
  if (name === undefined) {
    const here = JSON.stringify(scanner.text.slice(scanner.at, scanner.at + 20));
    throw scanner.problem(`a value cannot be read at ${here}`);
  }
  const start = scanner.at - name.length;
  const known = { NULL: null, DEFAULT: null, TRUE: 1, FALSE: 0 }[name.toUpperCase()];
  if (known !== undefined) return known;
  if (!scanner.take("(")) return new UnknownValue(name);
  const compute = functions[name.toLowerCase()];
  if (compute === undefined) {
    while (scanner.skipToComma());
    return new UnknownValue(scanner.text.slice(start, Math.min(scanner.at, start + 60)));
  }
  const given: (SqlValue | UnknownValue)[] = [];
  if (!scanner.take(")")) {
    do given.push(readSqlValue(scanner));
    while (scanner.take(","));
    if (!scanner.take(")")) throw scanner.problem(`${name}(…) has no )`);
  }
  const unknown = given.find((value) => value instanceof UnknownValue);
  if (unknown !== undefined) return unknown;
  // Just seen that none of them is unknown.
  return compute(given as SqlValue[]);
}

/** Those by which `.dump` of SQLite writes texts with line ends and control signs. */
const functions: Readonly<Record<string, (given: readonly SqlValue[]) => SqlValue>> = {
  replace: ([text, from, to]) => {
    if (text === null || from === null || to === null) return null;
    return from === "" ? String(text) : String(text).replaceAll(String(from), () => String(to));
  },
  char: (points) => String.fromCodePoint(...points.map(Number)),
  unistr: ([text]) => (text === null || text === undefined ? null : unistr(String(text))),
};

function unistr(text: string): string {
  return text.replace(
    /\\(?:(\\)|u([\da-f]{4})|U([\da-f]{8})|\+([\da-f]{6})|([\da-f]{4}))/gi,
    (_whole, backslash: string | undefined, ...codes: (string | undefined)[]) => {
      const code = codes.slice(0, 4).find((one) => one !== undefined);
      return backslash ?? String.fromCodePoint(Number.parseInt(code!, 16));
    },
  );
}

function textOfBytes(digits: string): string {
  return Buffer.from(digits.length % 2 === 0 ? digits : `0${digits}`, "hex").toString("utf8");
}
