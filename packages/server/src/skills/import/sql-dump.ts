type SqlValue = string | number | null;
type SqlRows = Map<string, Record<string, SqlValue | UnknownValue>[]>;

/**
 * Parses the rows of these tables in a dump of MySQL, MariaDB, SQLite (INSERT) or PostgreSQL (INSERT and COPY). Runs
 * nothing. Throws an error with the line that cannot be read.
 */
export function parseSqlDump(text: string, tables: readonly string[]): SqlRows {
  return new DumpReader(text, tables).read();
}

/** A value that only the database can compute, such as `now()`, as written in the dump. */
export class UnknownValue {
  readonly #written: string;
  readonly #line: () => number;

  constructor(written: string, line: () => number) {
    this.#written = written;
    this.#line = line;
  }

  problem(column: string): Error {
    return unreadable(this.#line(), `${column} is ${this.#written}, which only the database can compute`);
  }
}

function unreadable(line: number, reason: string): Error {
  return new Error(`The dump cannot be read at line ${line}: ${reason}.`);
}

/** A token of a dump. A `name` was quoted; `text` and `number` are parsed values. */
interface Token {
  readonly kind: "word" | "name" | "text" | "number" | "sign" | "end";
  readonly text: string;
  readonly start: number;
}

/** The pattern of one kind of token, and how its first group is read. */
type TokenForm = readonly [kind: Token["kind"], pattern: RegExp, read?: (inner: string) => string];

const controlSigns = { n: "\n", r: "\r", t: "\t", b: "\b" };
/** What follows a backslash in PostgreSQL. */
const postgresSigns: Readonly<Record<string, string>> = { ...controlSigns, f: "\f", v: "\v" };
/** `\%` and `\_` keep their backslash, which LIKE needs. */
const mysqlSigns: Readonly<Record<string, string>> = {
  ...{ ...controlSigns, "0": "\0", Z: "\x1a" },
  ...{ "%": "\\%", _: "\\_" },
};

/** A letter or a character set may stand before a text. */
const prefix = String.raw`(?:N|_(?:utf8mb[34]|utf8|binary|latin1|ascii)\s*)?`;
const escapedText = String.raw`'([^'\\]*(?:(?:\\[\s\S]|'')[^'\\]*)*)'`;

const mysqlText: TokenForm = [
  "text",
  new RegExp(prefix + escapedText, "iy"),
  (inner) => inner.replace(/''|\\([\s\S])/g, (_, sign?: string) => (sign ? (mysqlSigns[sign] ?? sign) : "'")),
];
const plainText: TokenForm = [
  "text",
  new RegExp(`${prefix}'([^']*(?:''[^']*)*)'`, "iy"),
  (inner) => inner.replaceAll("''", "'"),
];
/** PostgreSQL's dollar quotes: nothing inside is escaped. */
const dollarText: TokenForm = ["text", /\$(?:[A-Za-z_]\w*)?\$/y];

/** In this order; texts come between those of `first` and those of `last`. */
const first: readonly TokenForm[] = [
  ["number", /b'([01]*)'/iy, (bits) => String(Number.parseInt(bits || "0", 2))],
  [
    "text",
    /(?:x'|0x)([\da-f]*)'?/iy,
    (digits) => Buffer.from(digits.length % 2 === 0 ? digits : `0${digits}`, "hex").toString("utf8"),
  ],
  ["text", new RegExp(`E${escapedText}`, "iy"), readPostgresText],
];
const last: readonly TokenForm[] = [
  ["name", /`([^`]*(?:``[^`]*)*)`/y, (inner) => inner.replaceAll("``", "`")],
  ["name", /"([^"]*(?:""[^"]*)*)"/y, (inner) => inner.replaceAll('""', '"')],
  ["number", /([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)/iy],
  ["word", /([A-Za-z_][\w$]*)/y],
  ["sign", /(::|[^'"`])/y],
];
const mysqlForms = [...first, mysqlText, ...last];
const otherForms = [...first, plainText, dollarText, ...last];

const blank = /(?:\s+|--[^\n]*|\/\*[\s\S]*?\*\/|\\(?:un)?restrict[^\n]*)+/y;
const mysqlBlank = /(?:\s+|--[^\n]*|#[^\n]*|\/\*[\s\S]*?\*\/|\\(?:un)?restrict[^\n]*)+/y;

function readPostgresText(inner: string): string {
  return inner.replace(
    /''|\\(?:x([\da-fA-F]{1,2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([0-7]{1,3})|([\s\S]))/g,
    (_, ...[x, u, long, octal, sign]: (string | undefined)[]) => {
      if (sign !== undefined) return postgresSigns[sign] ?? sign;
      const code = x ?? u ?? long;
      if (code !== undefined) return String.fromCodePoint(Math.min(Number.parseInt(code, 16), 0x10ffff));
      return octal === undefined ? "'" : String.fromCodePoint(Number.parseInt(octal, 8));
    },
  );
}

/** Finds the dialect by the head of a dump: true for MySQL and MariaDB. */
function dialectOf(head: string): boolean | undefined {
  if (/^-- (?:MySQL|MariaDB) dump|^\/\*M?!\d{5,6}/m.test(head)) return true;
  const others =
    /^PRAGMA foreign_keys|^-- PostgreSQL database dump|^SET client_encoding|^COPY .* FROM stdin/im;
  return others.test(head) ? false : undefined;
}

/** The tokens of a dump, without blanks and comments. */
class SqlTokens {
  /** Whether texts have MySQL's backslash escapes. Undefined while the dialect is not known. */
  isMysql: boolean | undefined;
  readonly #text: string;
  #at = 0;
  #peeked: Token | undefined;

  constructor(text: string) {
    this.#text = text;
    this.isMysql = dialectOf(text.slice(0, 10_000));
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

  /** Moves behind the sign or word if it is next, and returns whether it was. */
  take(wanted: string): boolean {
    const { kind, text } = this.peek();
    const isNext = (kind === "sign" || kind === "word") && text.toUpperCase() === wanted;
    if (isNext) this.#peeked = undefined;
    return isNext;
  }

  /** Returns the text up to `end`, and moves behind it. */
  takeUpTo(end: string, missing: string): string {
    const at = this.#text.indexOf(end, this.#at);
    if (at === -1) throw this.problem(missing);
    const found = this.#text.slice(this.#at, at);
    this.#at = at + end.length;
    return found;
  }

  takeCopiedLines(): string[] {
    this.#at = this.next().start;
    this.takeUpTo("\n", "a COPY has no end");
    this.#at--;
    return this.takeUpTo("\n\\.", "a COPY has no end").slice(1).split(/\r?\n/);
  }

  /** The dump's own text from `start` to the current place. */
  textFrom(start: number, most: number): string {
    return this.#text.slice(start, Math.min(start + most, this.#at));
  }

  problem(reason: string): Error {
    return unreadable(this.#lineAt(this.#peeked?.start ?? this.#at), reason);
  }

  /** The value that is written from `start` to the current place. */
  unknownFrom(start: number): UnknownValue {
    return new UnknownValue(this.textFrom(start, 60), () => this.#lineAt(start));
  }

  #lineAt(place: number): number {
    return this.#text.slice(0, place).split("\n").length;
  }

  #read(): Token {
    // In PostgreSQL and SQLite, # begins no comment.
    this.#match(this.isMysql === false ? blank : mysqlBlank);
    const start = this.#at;
    if (start >= this.#text.length) return { kind: "end", text: "", start };
    for (const form of this.isMysql === true ? mysqlForms : otherForms) {
      const [kind, pattern, read] = form;
      const found = this.#match(pattern);
      if (found === undefined) continue;
      const [whole, inner = ""] = found;
      if (whole.startsWith("`")) this.isMysql ??= true;
      if (form !== dollarText) return { kind, text: read?.(inner) ?? inner, start };
      return { kind, text: this.takeUpTo(whole, `a text that begins with ${whole} has no end`), start };
    }
    throw this.problem("a quote is not closed");
  }

  /** Matches a sticky expression at the current place, and moves behind it. */
  #match(sticky: RegExp): RegExpExecArray | undefined {
    sticky.lastIndex = this.#at;
    const found = sticky.exec(this.#text) ?? undefined;
    this.#at += found?.[0].length ?? 0;
    return found;
  }
}

/** Words of CREATE TABLE that begin no column. */
const tableWords = /^(primary|unique|key|index|constraint|foreign|check|fulltext|exclude|like)$/i;

class DumpReader {
  readonly #tokens: SqlTokens;
  readonly #tables: ReadonlySet<string>;
  readonly #columns = new Map<string, string[]>();
  readonly #rows: SqlRows = new Map();

  constructor(text: string, tables: readonly string[]) {
    this.#tokens = new SqlTokens(text);
    this.#tables = new Set(tables);
  }

  read(): SqlRows {
    const tokens = this.#tokens;
    while (tokens.peek().kind !== "end") {
      if (tokens.take("COPY")) this.#readCopy();
      else {
        if (tokens.take("CREATE")) this.#readCreate();
        else if (tokens.take("INSERT") || tokens.take("REPLACE")) this.#readInsert();
        this.#skipStatement();
      }
    }
    return this.#rows;
  }

  /** Reads the order of the columns, for an INSERT that does not name them. */
  #readCreate(): void {
    const tokens = this.#tokens;
    if (!tokens.take("TABLE")) return;
    for (const word of ["IF", "NOT", "EXISTS"]) tokens.take(word);
    const table = this.#tableName();
    if (!this.#tables.has(table) || !tokens.take("(")) return;
    const columns: string[] = [];
    do {
      const { kind } = tokens.peek();
      const name = this.#name();
      if (kind !== "word" || !tableWords.test(name)) columns.push(name.toLowerCase());
    } while (this.#skipMember());
    this.#columns.set(table, columns);
  }

  #readInsert(): void {
    const tokens = this.#tokens;
    while (!tokens.take("INTO")) {
      if (tokens.peek().kind !== "word") return;
      tokens.next();
    }
    const table = this.#tableName();
    if (!this.#tables.has(table)) return;
    const columns = this.#namesInBrackets() ?? this.#columns.get(table);
    if (columns === undefined)
      throw tokens.problem(`the columns of ${table} are not known: the dump has no CREATE TABLE`);
    if (!tokens.take("VALUES")) return;
    do {
      if (!tokens.take("(")) throw tokens.problem("a row does not begin with (");
      const values = this.#values();
      if (!tokens.take(")")) throw tokens.problem("a row does not end with )");
      this.#add(table, columns, values);
    } while (tokens.take(","));
  }

  /** PostgreSQL: lines of fields, separated by tabs, up to a line with `\.` */
  #readCopy(): void {
    const table = this.#tableName();
    const columns = this.#namesInBrackets() ?? this.#columns.get(table) ?? [];
    for (const line of this.#tokens.takeCopiedLines()) {
      if (line !== "" && this.#tables.has(table)) this.#add(table, columns, line.split("\t").map(copyField));
    }
  }

  #add(table: string, columns: readonly string[], values: readonly (SqlValue | UnknownValue)[]): void {
    if (values.length !== columns.length)
      throw this.#tokens.problem(
        `a row of ${table} has ${values.length} values for ${columns.length} columns`,
      );
    const row = Object.fromEntries(columns.map((column, at) => [column, values[at]!]));
    const rows = this.#rows.get(table);
    if (rows === undefined) this.#rows.set(table, [row]);
    else rows.push(row);
  }

  #values(): (SqlValue | UnknownValue)[] {
    const values: (SqlValue | UnknownValue)[] = [];
    do values.push(this.#value());
    while (this.#tokens.take(","));
    return values;
  }

  #value(): SqlValue | UnknownValue {
    const tokens = this.#tokens;
    const { kind, text, start } = tokens.peek();
    if (kind === "sign" || kind === "name" || kind === "end")
      throw tokens.problem(`a value cannot be read at ${JSON.stringify(tokens.textFrom(start, 20))}`);
    tokens.next();
    let value: SqlValue | UnknownValue = text;
    if (kind === "word") value = this.#word(text, start);
    // An id may have more digits than a number can hold.
    else if (kind === "number" && String(Number(text)) === text) value = Number(text);
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
    const constant = { NULL: null, DEFAULT: null, TRUE: 1, FALSE: 0 }[word.toUpperCase()];
    if (constant !== undefined) return constant;
    if (!tokens.take("(")) return tokens.unknownFrom(start);
    const compute = functions[word.toLowerCase()];
    if (compute === undefined) {
      while (this.#skipMember());
      return tokens.unknownFrom(start);
    }
    if (tokens.take(")")) return compute([]);
    const given = this.#values();
    if (!tokens.take(")")) throw tokens.problem(`${word}(…) has no )`);
    const known: SqlValue[] = [];
    for (const value of given) {
      if (value instanceof UnknownValue) return value;
      known.push(value);
    }
    return compute(known);
  }

  #name(): string {
    const tokens = this.#tokens;
    if (tokens.take("[")) return tokens.takeUpTo("]", "a name has no ]");
    const { kind } = tokens.peek();
    if (kind !== "word" && kind !== "name") throw tokens.problem("a name is missing");
    return tokens.next().text;
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
      // Only MySQL writes this. The head of a dump takes precedence.
      if (before === "ENGINE" && text === "=") this.#tokens.isMysql ??= true;
      before = kind === "word" ? text.toUpperCase() : "";
    }
  }
}

function copyField(field: string): SqlValue {
  if (field === "\\N") return null;
  return field.replace(/\\(.)/g, (_, sign: string) => postgresSigns[sign] ?? sign);
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
    (_, backslash: string | undefined, ...codes: (string | undefined)[]) =>
      backslash ?? String.fromCodePoint(Number.parseInt(codes.slice(0, 4).join(""), 16)),
  );
}
