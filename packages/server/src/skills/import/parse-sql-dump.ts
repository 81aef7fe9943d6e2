import { controlSigns, SqlScanner } from "./sql-scanner.ts";
import { readSqlValue, type SqlValue, UnknownValue } from "./sql-value.ts";

export type SqlRows = Map<string, Record<string, SqlValue>[]>;

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
