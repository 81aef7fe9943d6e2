/** A token of a dump. A `name` was quoted; `text` and `number` are parsed values. */
interface Token {
  readonly kind: "word" | "name" | "text" | "number" | "sign" | "end";
  readonly text: string;
  readonly start: number;
}

/** The pattern of one kind of token, and how its first group is read. */
interface TokenForm {
  readonly kind: Token["kind"];
  readonly pattern: RegExp;
  readonly read?: (inner: string) => string;
}

/** `\%` and `\_` keep their backslash, which LIKE needs. */
const mysqlSigns: Readonly<Record<string, string>> = {
  ...{ n: "\n", r: "\r", t: "\t", b: "\b" },
  ...{ "0": "\0", Z: "\x1a", "%": "\\%", _: "\\_" },
};
export const controlSigns: Readonly<Record<string, string>> = {
  n: "\n",
  r: "\r",
  t: "\t",
  b: "\b",
  f: "\f",
  v: "\v",
};

const mysqlText: TokenForm = {
  kind: "text",
  // A letter or a character set may stand before the text.
  pattern: /(?:N|_(?:utf8mb[34]|utf8|binary|latin1|ascii)\s*)?'([^'\\]*(?:(?:\\[\s\S]|'')[^'\\]*)*)'/iy,
  read: (inner) =>
    inner.replace(/''|\\([\s\S])/g, (_whole, sign?: string) =>
      sign === undefined ? "'" : (mysqlSigns[sign] ?? sign),
    ),
};
const plainText: TokenForm = {
  kind: "text",
  pattern: /(?:N|_(?:utf8mb[34]|utf8|binary|latin1|ascii)\s*)?'([^']*(?:''[^']*)*)'/iy,
  read: (inner) => inner.replaceAll("''", "'"),
};
/** PostgreSQL's dollar quotes: nothing inside is escaped. */
const dollarText: TokenForm = { kind: "text", pattern: /\$(?:[A-Za-z_]\w*)?\$/y };

/** In this order; texts come between those of `first` and those of `last`. */
const first: readonly TokenForm[] = [
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
const last: readonly TokenForm[] = [
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

/** The tokens of a dump, without blanks and comments. */
export class SqlTokens {
  readonly #text: string;
  #at = 0;
  #peeked: Token | undefined;
  /** Whether texts have MySQL's backslash escapes. Undefined while the dialect is not known. */
  #isMysql: boolean | undefined;

  constructor(text: string) {
    this.#text = text;
    this.#isMysql = dialectOf(text.slice(0, 10_000));
  }

  /** Called for syntax that only MySQL writes. The head of a dump takes precedence. */
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

  /** Matches a sticky expression at the current place, and moves behind it. */
  #match(sticky: RegExp): RegExpExecArray | undefined {
    sticky.lastIndex = this.#at;
    const found = sticky.exec(this.#text) ?? undefined;
    this.#at += found?.[0].length ?? 0;
    return found;
  }
}

/** Finds the dialect by the head of a dump: true for MySQL and MariaDB. */
function dialectOf(head: string): boolean | undefined {
  if (/^-- (?:MySQL|MariaDB) dump|^\/\*M?!\d{5,6}/m.test(head)) return true;
  const others =
    /^PRAGMA foreign_keys|^-- PostgreSQL database dump|^SET client_encoding|^COPY .* FROM stdin/im;
  return others.test(head) ? false : undefined;
}
