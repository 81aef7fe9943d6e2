type SqlValue = string | number | null;
type SqlRows = Map<string, Record<string, SqlValue>[]>;

/**
 * The rows of the wanted tables in a dump of MySQL, MariaDB, SQLite (INSERT) or PostgreSQL (INSERT and COPY). It is
 * read, never run. Throws with the line of what it cannot read, and of a wanted column whose value only the database
 * could compute. `wanted` has the columns by their tables.
 */
export function parseSqlDump(text: string, wanted: ReadonlyMap<string, ReadonlySet<string>>): SqlRows {
  return new DumpReader(text, wanted).read();
}

/** A value that only the database itself could have computed, such as `now()`, as the dump writes it. */
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

  /** For the order of the columns, where an INSERT does not say it. */
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
    // PostgreSQL: what type it has, such as `character varying(64)[]`, says nothing more about it.
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

  /** Without the schema before it. */
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

  /** To the next member of the list that it stands in. False at its end. */
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
    (_whole, backslash: string | undefined, ...codes: (string | undefined)[]) =>
      backslash ?? String.fromCodePoint(Number.parseInt(codes.slice(0, 4).join(""), 16)),
  );
}

/** A piece of a dump. A `name` stood in quotes; `text` and `number` are values, read. */
interface Token {
  readonly kind: "word" | "name" | "text" | "number" | "sign" | "end";
  readonly text: string;
  readonly start: number;
}

/** How one kind of piece looks, and what is made of the part in brackets. */
interface Form {
  readonly kind: Token["kind"];
  readonly pattern: RegExp;
  readonly read?: (inner: string) => string;
}

/** `\%` and `\_` keep their backslash: they mean something to LIKE. */
const mysqlSigns: Readonly<Record<string, string>> = {
  ...{ n: "\n", r: "\r", t: "\t", b: "\b" },
  ...{ "0": "\0", Z: "\x1a", "%": "\\%", _: "\\_" },
};
const controlSigns: Readonly<Record<string, string>> = {
  n: "\n",
  r: "\r",
  t: "\t",
  b: "\b",
  f: "\f",
  v: "\v",
};

const mysqlText: Form = {
  kind: "text",
  // A text may bear a letter, or a character set, in front.
  pattern: /(?:N|_(?:utf8mb[34]|utf8|binary|latin1|ascii)\s*)?'([^'\\]*(?:(?:\\[\s\S]|'')[^'\\]*)*)'/iy,
  read: (inner) =>
    inner.replace(/''|\\([\s\S])/g, (_whole, sign?: string) =>
      sign === undefined ? "'" : (mysqlSigns[sign] ?? sign),
    ),
};
const plainText: Form = {
  kind: "text",
  pattern: /(?:N|_(?:utf8mb[34]|utf8|binary|latin1|ascii)\s*)?'([^']*(?:''[^']*)*)'/iy,
  read: (inner) => inner.replaceAll("''", "'"),
};
/** PostgreSQL, between dollars: nothing inside means anything else. */
const dollarText: Form = { kind: "text", pattern: /\$(?:[A-Za-z_]\w*)?\$/y };

/** In this order; texts come between those of `first` and those of `last`. */
const first: readonly Form[] = [
  {
    kind: "number",
    pattern: /b'([01]*)'/iy,
    read: (bits) => String(Number.parseInt(bits || "0", 2)),
  },
  {
    kind: "text",
    pattern: /(?:x'|0x)([\da-f]*)'?/iy,
    read: (digits) => Buffer.from(digits.length % 2 === 0 ? digits : `0${digits}`, "hex").toString("utf8"),
  },
  {
    kind: "text",
    pattern: /E'([^'\\]*(?:(?:\\[\s\S]|'')[^'\\]*)*)'/iy,
    read: (inner) =>
      inner.replace(
        /''|\\(?:(?:x([\da-fA-F]{1,2})|u([\da-fA-F]{4})|U([\da-fA-F]{8}))|([0-7]{1,3})|([\s\S]))/g,
        (_whole, ...[x, u, long, octal, sign]: (string | undefined)[]) => {
          if (sign !== undefined) return controlSigns[sign] ?? sign;
          if (octal !== undefined) return String.fromCodePoint(Number.parseInt(octal, 8));
          const code = x ?? u ?? long;
          return code === undefined
            ? "'"
            : String.fromCodePoint(Math.min(Number.parseInt(code, 16), 0x10ffff));
        },
      ),
  },
];
const last: readonly Form[] = [
  { kind: "name", pattern: /`([^`]*(?:``[^`]*)*)`/y, read: (inner) => inner.replaceAll("``", "`") },
  { kind: "name", pattern: /"([^"]*(?:""[^"]*)*)"/y, read: (inner) => inner.replaceAll('""', '"') },
  { kind: "number", pattern: /([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)/iy },
  { kind: "word", pattern: /([A-Za-z_][\w$]*)/y },
  { kind: "sign", pattern: /(::|[^'"`])/y },
];
const mysqlForms = [...first, mysqlText, ...last];
const otherForms = [...first, plainText, dollarText, ...last];

const blank = /(?:\s+|--[^\n]*|\/\*[\s\S]*?\*\/|\\(?:un)?restrict[^\n]*)+/y;
const mysqlBlank = /(?:\s+|--[^\n]*|#[^\n]*|\/\*[\s\S]*?\*\/|\\(?:un)?restrict[^\n]*)+/y;

/** The pieces of a dump one by one, with blanks and comments left out. */
class SqlTokens {
  readonly #text: string;
  #at = 0;
  #peeked: Token | undefined;
  /** MySQL escapes with backslashes; the others do not. Undefined: nothing has shown yet whose dump it is. */
  #isMysql: boolean | undefined;

  constructor(text: string) {
    this.#text = text;
    this.#isMysql = dialectOf(text.slice(0, 10_000));
  }

  /** For what only MySQL writes. The head of a dump knows better. */
  noteMysql(): void {
    this.#isMysql ??= true;
  }

  peek(): Token {
    this.#peeked ??= this.#read();
    return this.#peeked;
  }

  next(): Token {
    const token = this.peek();
    this.#peeked = undefined;
    return token;
  }

  take(sign: string): boolean {
    return this.#takeIf("sign", sign);
  }

  takeWord(word: string): boolean {
    return this.#takeIf("word", word);
  }

  /** What stands right here up to the end, which is then behind us. */
  takeUpTo(end: string, missing: string): string {
    const at = this.#text.indexOf(end, this.#at);
    if (at === -1) throw this.problem(missing);
    const found = this.#text.slice(this.#at, at);
    this.#at = at + end.length;
    return found;
  }

  /** The lines below a COPY. */
  takeCopiedLines(): string[] {
    this.#at = this.next().start;
    this.takeUpTo("\n", "a COPY has no end");
    this.#at--;
    return this.takeUpTo("\n\\.", "a COPY has no end").slice(1).split(/\r?\n/);
  }

  /** As the dump writes it, from there to what was read last. */
  textFrom(start: number, most: number): string {
    return this.#text.slice(start, Math.min(start + most, this.#at));
  }

  problem(reason: string): Error {
    const line = this.#text.slice(0, this.#peeked?.start ?? this.#at).split("\n").length;
    return new Error(`The dump cannot be read at line ${line}: ${reason}.`);
  }

  #takeIf(wanted: Token["kind"], value: string): boolean {
    const { kind, text } = this.peek();
    if (kind !== wanted || text.toUpperCase() !== value) return false;
    this.#peeked = undefined;
    return true;
  }

  #read(): Token {
    // In PostgreSQL and SQLite, # begins no comment.
    this.#match(this.#isMysql === false ? blank : mysqlBlank);
    const start = this.#at;
    if (start >= this.#text.length) return { kind: "end", text: "", start };
    for (const form of this.#isMysql === true ? mysqlForms : otherForms) {
      const found = this.#match(form.pattern);
      if (found === undefined) continue;
      const [whole, inner = ""] = found;
      if (whole.startsWith("`")) this.noteMysql();
      const text =
        form === dollarText
          ? this.takeUpTo(whole, `a text that begins with ${whole} has no end`)
          : (form.read?.(inner) ?? inner);
      return { kind: form.kind, text, start };
    }
    throw this.problem("a quote is not closed");
  }

  /** What a sticky expression finds right here, which is then behind us. */
  #match(sticky: RegExp): RegExpExecArray | undefined {
    sticky.lastIndex = this.#at;
    const found = sticky.exec(this.#text) ?? undefined;
    this.#at += found?.[0].length ?? 0;
    return found;
  }
}

/** Whose dump it is, by what it says of itself: true for MySQL and MariaDB. */
function dialectOf(head: string): boolean | undefined {
  if (/^-- (?:MySQL|MariaDB) dump|^\/\*M?!\d{5,6}/m.test(head)) return true;
  const others =
    /^PRAGMA foreign_keys|^-- PostgreSQL database dump|^SET client_encoding|^COPY .* FROM stdin/im;
  return others.test(head) ? false : undefined;
}
