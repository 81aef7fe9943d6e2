import { controlSigns, SqlTokens } from "./sql-tokens.ts";

type SqlValue = string | number | null;
type SqlRows = Map<string, Record<string, SqlValue>[]>;

/**
 * Parses the rows of the wanted tables in a dump of MySQL, MariaDB, SQLite (INSERT) or PostgreSQL (INSERT and COPY).
 * Runs nothing. Throws an error with the line that cannot be read, or whose wanted column only the database could
 * compute. `wanted` has the columns by table.
 */
export function parseSqlDump(text: string, wanted: ReadonlyMap<string, ReadonlySet<string>>): SqlRows {
  return new DumpReader(text, wanted).read();
}

/** A value that only the database can compute, such as `now()`, as written in the dump. */
class UnknownValue {
  readonly written: string;

  constructor(written: string) {
    this.written = written;
  }
}

class DumpReader {
  readonly #tokens: SqlTokens;
  readonly #wanted: ReadonlyMap<string, ReadonlySet<string>>;
  readonly #columns = new Map<string, string[]>();
  readonly #rows: SqlRows = new Map();

  constructor(text: string, wanted: ReadonlyMap<string, ReadonlySet<string>>) {
    this.#tokens = new SqlTokens(text);
    this.#wanted = wanted;
  }

  read(): SqlRows {
    const tokens = this.#tokens;
    while (tokens.peek().kind !== "end") {
      if (tokens.takeWord("CREATE")) this.#readCreate();
      else if (tokens.takeWord("INSERT") || tokens.takeWord("REPLACE")) this.#readInsert();
      else if (tokens.takeWord("COPY")) this.#readCopy();
      else this.#skipStatement();
    }
    return this.#rows;
  }

  /** Reads the order of the columns, for an INSERT that does not name them. */
  #readCreate(): void {
    const tokens = this.#tokens;
    if (tokens.takeWord("TABLE")) {
      for (const word of ["IF", "NOT", "EXISTS"]) tokens.takeWord(word);
      const table = this.#tableName();
      if (this.#wanted.has(table) && tokens.take("(")) this.#columns.set(table, this.#columnNames());
    }
    this.#skipStatement();
  }

  #columnNames(): string[] {
    const columns: string[] = [];
    do {
      const { kind } = this.#tokens.peek();
      const name = this.#name();
      const isColumn =
        kind !== "word" ||
        !/^(primary|unique|key|index|constraint|foreign|check|fulltext|exclude|like)$/i.test(name);
      if (isColumn) columns.push(name.toLowerCase());
    } while (this.#skipMember());
    return columns;
  }

  #readInsert(): void {
    const tokens = this.#tokens;
    while (!tokens.takeWord("INTO")) {
      if (tokens.peek().kind !== "word") return void this.#skipStatement();
      tokens.next();
    }
    const table = this.#tableName();
    if (!this.#wanted.has(table)) return void this.#skipStatement();
    const columns = this.#namesInBrackets() ?? this.#columns.get(table);
    if (columns === undefined)
      throw tokens.problem(`the columns of ${table} are not known: the dump has no CREATE TABLE`);
    if (tokens.takeWord("VALUES")) {
      do this.#add(table, columns, this.#valueList());
      while (tokens.take(","));
    }
    this.#skipStatement();
  }

  /** PostgreSQL: lines of fields, separated by tabs, up to a line with `\.` */
  #readCopy(): void {
    const table = this.#tableName();
    const columns = this.#namesInBrackets() ?? this.#columns.get(table) ?? [];
    for (const line of this.#tokens.takeCopiedLines()) {
      if (line !== "" && this.#wanted.has(table)) this.#add(table, columns, line.split("\t").map(copyField));
    }
  }

  #add(table: string, columns: readonly string[], values: readonly (SqlValue | UnknownValue)[]): void {
    if (values.length !== columns.length) {
      throw this.#tokens.problem(
        `a row of ${table} has ${values.length} values for ${columns.length} columns`,
      );
    }
    const row: Record<string, SqlValue> = {};
    for (const [at, column] of columns.entries()) {
      const value = values[at]!;
      if (!(value instanceof UnknownValue)) row[column] = value;
      else if (this.#wanted.get(table)?.has(column)) {
        throw this.#tokens.problem(
          `${table}.${column} is ${value.written}, which only the database can compute`,
        );
      }
    }
    const rows = this.#rows.get(table);
    if (rows === undefined) this.#rows.set(table, [row]);
    else rows.push(row);
  }

  #valueList(): (SqlValue | UnknownValue)[] {
    const tokens = this.#tokens;
    if (!tokens.take("(")) throw tokens.problem("a row does not begin with (");
    const values: (SqlValue | UnknownValue)[] = [];
    do values.push(this.#value());
    while (tokens.take(","));
    if (!tokens.take(")")) throw tokens.problem("a row does not end with )");
    return values;
  }

  #value(): SqlValue | UnknownValue {
    const tokens = this.#tokens;
    const { kind, text, start } = tokens.peek();
    if (kind === "sign" || kind === "name" || kind === "end")
      throw tokens.problem(`a value cannot be read at ${JSON.stringify(tokens.textFrom(start, 20))}`);
    tokens.next();
    const value =
      kind === "text"
        ? text
        : kind === "word"
          ? this.#word(text, start)
          : // An id may have more digits than a number can hold.
            String(Number(text)) === text
            ? Number(text)
            : text;
    // PostgreSQL: skips the type of the value, such as `character varying(64)[]`.
    while (tokens.take("::")) {
      this.#tableName();
      while (tokens.peek().kind === "word") tokens.next();
      if (tokens.take("(")) this.#skipMember();
      if (tokens.take("[")) tokens.take("]");
    }
    return value;
  }

  #word(word: string, start: number): SqlValue | UnknownValue {
    const tokens = this.#tokens;
    const known = { NULL: null, DEFAULT: null, TRUE: 1, FALSE: 0 }[word.toUpperCase()];
    if (known !== undefined) return known;
    if (!tokens.take("(")) return new UnknownValue(word);
    const compute = functions[word.toLowerCase()];
    if (compute === undefined) {
      while (this.#skipMember());
      return new UnknownValue(tokens.textFrom(start, 60));
    }
    const given: SqlValue[] = [];
    let unknown: UnknownValue | undefined;
    if (!tokens.take(")")) {
      do {
        const value = this.#value();
        if (value instanceof UnknownValue) unknown ??= value;
        else given.push(value);
      } while (tokens.take(","));
      if (!tokens.take(")")) throw tokens.problem(`${word}(…) has no )`);
    }
    return unknown ?? compute(given);
  }

  #name(): string {
    const tokens = this.#tokens;
    if (tokens.take("[")) return tokens.takeUpTo("]", "a name has no ]");
    const { kind, text } = tokens.peek();
    if (kind !== "word" && kind !== "name") throw tokens.problem("a name is missing");
    tokens.next();
    return text;
  }

  /** The table's name without its schema. */
  #tableName(): string {
    let name = this.#name();
    while (this.#tokens.take(".")) name = this.#name();
    return name.toLowerCase();
  }

  #namesInBrackets(): string[] | undefined {
    if (!this.#tokens.take("(")) return undefined;
    const names: string[] = [];
    do names.push(this.#name().toLowerCase());
    while (this.#tokens.take(","));
    this.#tokens.take(")");
    return names;
  }

  /** Skips to the next member of the current list. Returns false at its end. */
  #skipMember(): boolean {
    for (let depth = 0; ; ) {
      const { kind, text } = this.#tokens.next();
      if (kind === "end") return false;
      if (kind !== "sign") continue;
      if (text === "(") depth++;
      if (text === ")" && depth-- === 0) return false;
      if (text === "," && depth === 0) return true;
    }
  }

  #skipStatement(): void {
    let before = "";
    for (;;) {
      const { kind, text } = this.#tokens.next();
      if (kind === "end" || (kind === "sign" && text === ";")) return;
      if (before === "ENGINE" && text === "=") this.#tokens.noteMysql();
      before = kind === "word" ? text.toUpperCase() : "";
    }
  }
}

function copyField(field: string): SqlValue {
  return field === "\\N"
    ? null
    : field.replace(/\\(.)/g, (_whole, sign: string) => controlSigns[sign] ?? sign);
}

/** The functions that SQLite's `.dump` uses for texts with line ends and control characters. */
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
    (_whole, backslash: string | undefined, ...codes: (string | undefined)[]) =>
      backslash ?? String.fromCodePoint(Number.parseInt(codes.slice(0, 4).join(""), 16)),
  );
}
