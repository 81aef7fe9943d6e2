type SqlValue = string | number | null;
type SqlRows = Map<string, Record<string, SqlValue | UnknownValue>[]>;

/**
 * Parses the rows of `tables` in a dump of MySQL, MariaDB, SQLite (INSERT) or PostgreSQL (INSERT and COPY).
 * Runs no SQL. Throws an error with the line that cannot be read.
 */
export function parseSqlDump(text: string, tables: readonly string[]): SqlRows {
  return new DumpReader(text, tables).read();
}

/** A value that only the database can compute, such as `now()`. */
export class UnknownValue {
  /** Makes the error for a column that needs the value. */
  readonly problem: (column: string) => Error;

  constructor(problem: (column: string) => Error) {
    this.problem = problem;
  }
}

/** A token of a dump. `name` is a quoted identifier; of `text` and `number`, `text` is the parsed value. */
interface Token {
  readonly kind: "word" | "name" | "text" | "number" | "sign" | "end";
  readonly text: string;
  readonly start: number;
}

/** The pattern of one kind of token, and how its first group is read. */
type TokenForm = readonly [kind: Token["kind"], pattern: RegExp, read?: (inner: string) => string];

const controlSigns = { n: "\n", r: "\r", t: "\t", b: "\b" };
/** The characters that PostgreSQL's escapes stand for, by the sign after the backslash. */
const postgresSigns: Readonly<Record<string, string>> = { ...controlSigns, f: "\f", v: "\v" };
/** The same for MySQL. `\%` and `\_` keep their backslash, which LIKE needs. */
const mysqlSigns: Readonly<Record<string, string>> = {
  ...{ ...controlSigns, "0": "\0", Z: "\x1a" },
  ...{ "%": "\\%", _: "\\_" },
};

/** The letter or character set that may stand before a quoted text. */
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
/** The beginning of PostgreSQL's dollar quotes, inside which nothing is escaped. */
const dollarText: TokenForm = ["text", /\$(?:[A-Za-z_]\w*)?\$/y];

// The forms of tokens are tried in this order: `first`, those of texts, `last`.
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

/**
 * Finds the dialect by the head of a dump: true for MySQL and MariaDB, false for PostgreSQL and SQLite,
 * undefined when the head does not tell.
 */
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

  /** If the next token is this sign or word, moves behind it. Returns whether it was. */
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

  problem(reason: string, at = this.#peeked?.start ?? this.#at): Error {
    const line = this.#text.slice(0, at).split("\n").length;
    return new Error(`The dump cannot be read at line ${line}: ${reason}.`);
  }

  /** Makes an unknown value from the text between `start` and the current place. */
  unknownFrom(start: number): UnknownValue {
    const written = this.textFrom(start, 60);
    return new UnknownValue((column) =>
      this.problem(`${column} is ${written}, which only the database can compute`, start),
    );
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

/** Words in CREATE TABLE that begin an index or constraint instead of a column. */
const tableWords = /^(primary|unique|key|index|constraint|foreign|check|fulltext|exclude|like)$/i;

class DumpReader extends SqlTokens {
  readonly #tables: ReadonlySet<string>;
  readonly #columns = new Map<string, string[]>();
  readonly #rows: SqlRows = new Map();

  constructor(text: string, tables: readonly string[]) {
    super(text);
    this.#tables = new Set(tables);
  }

  read(): SqlRows {
    while (this.peek().kind !== "end") {
      if (this.take("COPY")) this.#readCopy();
      else {
        if (this.take("CREATE")) this.#readCreate();
        else if (this.take("INSERT") || this.take("REPLACE")) this.#readInsert();
        this.#skipStatement();
      }
    }
    return this.#rows;
  }

  /** Reads the order of the columns, for an INSERT that does not name them. */
  #readCreate(): void {
    if (!this.take("TABLE")) return;
    for (const word of ["IF", "NOT", "EXISTS"]) this.take(word);
    const table = this.#tableName();
    if (!this.#tables.has(table) || !this.take("(")) return;
    const columns: string[] = [];
    do {
      const { kind } = this.peek();
      const name = this.#name();
      if (kind !== "word" || !tableWords.test(name)) columns.push(name.toLowerCase());
    } while (this.#skipMember());
    this.#columns.set(table, columns);
  }

  #readInsert(): void {
    while (!this.take("INTO")) {
      if (this.peek().kind !== "word") return;
      this.next();
    }
    const table = this.#tableName();
    if (!this.#tables.has(table)) return;
    const columns = this.#namesInBrackets() ?? this.#columns.get(table);
    if (columns === undefined)
      throw this.problem(`the columns of ${table} are not known: the dump has no CREATE TABLE`);
    if (!this.take("VALUES")) return;
    do {
      if (!this.take("(")) throw this.problem("a row does not begin with (");
      const values = this.#values();
      if (!this.take(")")) throw this.problem("a row does not end with )");
      this.#add(table, columns, values);
    } while (this.take(","));
  }

  /** Reads a COPY of PostgreSQL: lines of fields, separated by tabs, up to a line with `\.` */
  #readCopy(): void {
    const table = this.#tableName();
    const columns = this.#namesInBrackets() ?? this.#columns.get(table) ?? [];
    for (const line of this.takeCopiedLines()) {
      if (line !== "" && this.#tables.has(table)) this.#add(table, columns, line.split("\t").map(copyField));
    }
  }

  #add(table: string, columns: readonly string[], values: readonly (SqlValue | UnknownValue)[]): void {
    if (values.length !== columns.length)
      throw this.problem(`a row of ${table} has ${values.length} values for ${columns.length} columns`);
    const row = Object.fromEntries(columns.map((column, at) => [column, values[at]!]));
    const rows = this.#rows.get(table);
    if (rows === undefined) this.#rows.set(table, [row]);
    else rows.push(row);
  }

  #values(): (SqlValue | UnknownValue)[] {
    const values: (SqlValue | UnknownValue)[] = [];
    do values.push(this.#value());
    while (this.take(","));
    return values;
  }

  #value(): SqlValue | UnknownValue {
    const { kind, text, start } = this.peek();
    if (kind === "sign" || kind === "name" || kind === "end")
      throw this.problem(`a value cannot be read at ${JSON.stringify(this.textFrom(start, 20))}`);
    this.next();
    let value: SqlValue | UnknownValue = text;
    if (kind === "word") value = this.#word(text, start);
    // A number stays a text when it has more digits than JavaScript's numbers can hold, as ids may have.
    else if (kind === "number" && String(Number(text)) === text) value = Number(text);
    // PostgreSQL: skips the type of the value, such as `character varying(64)[]`.
    while (this.take("::")) {
      this.#tableName();
      while (this.peek().kind === "word") this.next();
      if (this.take("(")) this.#skipMember();
      if (this.take("[")) this.take("]");
    }
    return value;
  }

  #word(word: string, start: number): SqlValue | UnknownValue {
    const constant = { NULL: null, DEFAULT: null, TRUE: 1, FALSE: 0 }[word.toUpperCase()];
    if (constant !== undefined) return constant;
    if (!this.take("(")) return this.unknownFrom(start);
    const compute = functions[word.toLowerCase()];
    if (compute === undefined) {
      while (this.#skipMember());
      return this.unknownFrom(start);
    }
    if (this.take(")")) return compute([]);
    const given = this.#values();
    if (!this.take(")")) throw this.problem(`${word}(…) has no )`);
    const known: SqlValue[] = [];
    for (const value of given) {
      if (value instanceof UnknownValue) return value;
      known.push(value);
    }
    return compute(known);
  }

  #name(): string {
    if (this.take("[")) return this.takeUpTo("]", "a name has no ]");
    const { kind } = this.peek();
    if (kind !== "word" && kind !== "name") throw this.problem("a name is missing");
    return this.next().text;
  }

  /** The table's name without its schema. */
  #tableName(): string {
    let name = this.#name();
    while (this.take(".")) name = this.#name();
    return name.toLowerCase();
  }

  #namesInBrackets(): string[] | undefined {
    if (!this.take("(")) return undefined;
    const names: string[] = [];
    do names.push(this.#name().toLowerCase());
    while (this.take(","));
    this.take(")");
    return names;
  }

  /** Skips to the next member of the current list. Returns false at its end. */
  #skipMember(): boolean {
    for (let depth = 0; ; ) {
      const { kind, text } = this.next();
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
      const { kind, text } = this.next();
      if (kind === "end" || (kind === "sign" && text === ";")) return;
      // Only MySQL writes `ENGINE=`. A dialect that the head of the dump tells takes precedence.
      if (before === "ENGINE" && text === "=") this.isMysql ??= true;
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
