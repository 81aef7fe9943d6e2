export type SqlValue = string | number | null;
export type SqlRows = Map<string, Record<string, SqlValue>[]>;

/**
 * The rows of the wanted tables in a dump of MySQL, MariaDB, SQLite (INSERT) or PostgreSQL (INSERT and COPY). It is
 * read, never run. Throws with the line of what it cannot read.
 */
export function parseSqlDump(text: string, wanted: ReadonlySet<string>): SqlRows {
  return new DumpReader(text, wanted).read();
}

const word = /[A-Za-z_][\w$]*/y;

class DumpReader {
  readonly #text: string;
  readonly #wanted: ReadonlySet<string>;
  /** MySQL escapes with backslashes; the others do not. */
  readonly #hasEscapes: boolean;
  readonly #columns = new Map<string, string[]>();
  readonly #rows: SqlRows = new Map();
  #at = 0;

  constructor(text: string, wanted: ReadonlySet<string>) {
    this.#text = text;
    this.#wanted = wanted;
    this.#hasEscapes = /`|ENGINE\s*=|-- (?:MySQL|MariaDB) dump/i.test(text.slice(0, 200_000));
  }

  read(): SqlRows {
    for (this.#skipBlank(); this.#at < this.#text.length; this.#skipBlank()) {
      const verb = this.#word()?.toUpperCase();
      if (verb === "CREATE") this.#readCreate();
      else if (verb === "INSERT" || verb === "REPLACE") this.#readInsert();
      else if (verb === "COPY") this.#readCopy();
      else this.#skipStatement();
    }
    return this.#rows;
  }

  /** For the order of the columns, where an INSERT does not say it. */
  #readCreate(): void {
    if (this.#word()?.toUpperCase() !== "TABLE") {
      this.#skipStatement();
      return;
    }
    const save = this.#at;
    if (!["IF", "NOT", "EXISTS"].every((part) => this.#word()?.toUpperCase() === part)) this.#at = save;
    const table = this.#tableName();
    if (!this.#wanted.has(table) || !this.#take("(")) {
      this.#skipStatement();
      return;
    }
    const columns: string[] = [];
    for (;;) {
      const isQuoted = /["`[]/.test(this.#peek());
      const name = this.#name();
      const isColumn =
        isQuoted || !/^(primary|unique|key|index|constraint|foreign|check|fulltext)$/i.test(name);
      if (isColumn) columns.push(name.toLowerCase());
      if (!this.#skipToComma()) break;
    }
    this.#columns.set(table, columns);
    this.#skipStatement();
  }

  #readInsert(): void {
    for (let next = this.#word()?.toUpperCase(); next !== "INTO"; next = this.#word()?.toUpperCase()) {
      if (next === undefined) {
        this.#skipStatement();
        return;
      }
    }
    const table = this.#tableName();
    if (!this.#wanted.has(table)) {
      this.#skipStatement();
      return;
    }
    const columns = this.#peek() === "(" ? this.#nameList() : this.#columns.get(table);
    if (columns === undefined)
      throw this.#problem(`the columns of ${table} are not known: the dump has no CREATE TABLE`);
    if (this.#word()?.toUpperCase() !== "VALUES") {
      this.#skipStatement();
      return;
    }
    do this.#add(table, columns, this.#valueList());
    while (this.#take(","));
    this.#skipStatement();
  }

  /** PostgreSQL: lines of fields, separated by tabs, up to a line with `\.` */
  #readCopy(): void {
    const table = this.#tableName();
    const columns = this.#peek() === "(" ? this.#nameList() : (this.#columns.get(table) ?? []);
    const start = this.#text.indexOf("\n", this.#at) + 1;
    const end = this.#text.indexOf("\n\\.", start - 1);
    if (start === 0 || end === -1) throw this.#problem("a COPY has no end");
    if (this.#wanted.has(table)) {
      for (const line of this.#text.slice(start, end).split("\n")) {
        if (line !== "") this.#add(table, columns, line.replace(/\r$/, "").split("\t").map(copyField));
      }
    }
    this.#at = end + 3;
  }

  #add(table: string, columns: readonly string[], values: readonly SqlValue[]): void {
    if (values.length !== columns.length) {
      throw this.#problem(`a row of ${table} has ${values.length} values for ${columns.length} columns`);
    }
    const row = Object.fromEntries(columns.map((column, at) => [column, values[at]!]));
    this.#rows.set(table, [...(this.#rows.get(table) ?? []), row]);
  }

  #valueList(): SqlValue[] {
    if (!this.#take("(")) throw this.#problem("a row does not begin with (");
    const values: SqlValue[] = [];
    do values.push(this.#value());
    while (this.#take(","));
    if (!this.#take(")")) throw this.#problem("a row does not end with )");
    return values;
  }

  #value(): SqlValue {
    const sign = this.#peek();
    if (sign === "'") return this.#quoted("'", this.#hasEscapes);
    const prefix = /(?:[EN]|_utf8mb4\s*)(?=')/iy;
    prefix.lastIndex = this.#at;
    const found = prefix.exec(this.#text)?.[0];
    if (found !== undefined) {
      this.#at += found.length;
      return this.#quoted("'", this.#hasEscapes || /e/i.test(found));
    }
    const number = /-?\d+(?:\.\d+)?(?:e[+-]?\d+)?/iy;
    number.lastIndex = this.#at;
    const digits = number.exec(this.#text)?.[0];
    if (digits !== undefined) {
      this.#at += digits.length;
      return Number(digits);
    }
    const name = this.#word()?.toUpperCase();
    if (name === "NULL") return null;
    if (name === "TRUE") return 1;
    if (name === "FALSE") return 0;
    // `now()` and the like: nothing that we keep.
    if (name !== undefined && this.#take("(")) {
      while (!this.#take(")")) this.#at++;
      return null;
    }
    if (name !== undefined) return null;
    throw this.#problem(
      `a value cannot be read at ${JSON.stringify(this.#text.slice(this.#at, this.#at + 20))}`,
    );
  }

  #quoted(quote: string, hasEscapes: boolean): string {
    const parts: string[] = [];
    let at = this.#at + 1;
    for (;;) {
      const next = at >= this.#text.length ? -1 : nextSign(this.#text, at, quote, hasEscapes);
      if (next === -1) throw this.#problem("a quote is not closed");
      parts.push(this.#text.slice(at, next));
      if (this.#text[next] === "\\") {
        parts.push(unescaped(this.#text[next + 1] ?? ""));
        at = next + 2;
      } else if (this.#text[next + 1] === quote) {
        parts.push(quote);
        at = next + 2;
      } else {
        this.#at = next + 1;
        return parts.join("");
      }
    }
  }

  #nameList(): string[] {
    this.#take("(");
    const names: string[] = [];
    do names.push(this.#name().toLowerCase());
    while (this.#take(","));
    this.#take(")");
    return names;
  }

  /** Without the schema before it. */
  #tableName(): string {
    let name = this.#name();
    while (this.#take(".")) name = this.#name();
    return name.toLowerCase();
  }

  #name(): string {
    const sign = this.#peek();
    if (sign === "`" || sign === '"') return this.#quoted(sign, false);
    if (sign === "[") {
      const end = this.#text.indexOf("]", this.#at);
      const name = this.#text.slice(this.#at + 1, end);
      this.#at = end + 1;
      return name;
    }
    const name = this.#word();
    if (name === undefined) throw this.#problem("a name is missing");
    return name;
  }

  #word(): string | undefined {
    this.#skipBlank();
    word.lastIndex = this.#at;
    const found = word.exec(this.#text)?.[0];
    this.#at += found?.length ?? 0;
    return found;
  }

  #peek(): string {
    this.#skipBlank();
    return this.#text[this.#at] ?? "";
  }

  #take(sign: string): boolean {
    if (this.#peek() !== sign) return false;
    this.#at++;
    return true;
  }

  /** To the next member of the list that it stands in. False at its end. */
  #skipToComma(): boolean {
    let depth = 0;
    for (;;) {
      const sign = this.#peek();
      if (sign === "") return false;
      if (sign === "'" || sign === '"' || sign === "`") {
        this.#quoted(sign, this.#hasEscapes && sign === "'");
        continue;
      }
      this.#at++;
      if (sign === "(") depth++;
      if (sign === ")" && depth-- === 0) return false;
      if (sign === "," && depth === 0) return true;
    }
  }

  #skipStatement(): void {
    for (let sign = this.#peek(); sign !== "" && sign !== ";"; sign = this.#peek()) {
      if (sign === "'" || sign === '"' || sign === "`") this.#quoted(sign, this.#hasEscapes && sign === "'");
      else this.#at++;
    }
    this.#at++;
  }

  #skipBlank(): void {
    const blank = /(?:\s+|--[^\n]*|#[^\n]*|\/\*[\s\S]*?\*\/|\\(?:un)?restrict[^\n]*)+/y;
    blank.lastIndex = this.#at;
    this.#at += blank.exec(this.#text)?.[0].length ?? 0;
  }

  #problem(reason: string): Error {
    const line = this.#text.slice(0, this.#at).split("\n").length;
    return new Error(`The dump cannot be read at line ${line}: ${reason}.`);
  }
}

function nextSign(text: string, from: number, quote: string, hasEscapes: boolean): number {
  const end = text.indexOf(quote, from);
  if (!hasEscapes) return end;
  const backslash = text.indexOf("\\", from);
  return backslash !== -1 && (end === -1 || backslash < end) ? backslash : end;
}

const escapes: Readonly<Record<string, string>> = {
  n: "\n",
  r: "\r",
  t: "\t",
  b: "\b",
  f: "\f",
  v: "\v",
  "0": "\0",
  Z: "\x1a",
};

function unescaped(sign: string): string {
  return escapes[sign] ?? sign;
}

function copyField(field: string): SqlValue {
  if (field === "\\N") return null;
  return field.replace(/\\(.)/g, (_whole, sign: string) => unescaped(sign));
}
