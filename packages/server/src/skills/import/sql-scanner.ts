const word = /[A-Za-z_][\w$]*/y;

/** Walks through the text of a dump: names, quoted texts and signs, with blanks and comments left out. */
export class SqlScanner {
  readonly text: string;
  at = 0;
  /** MySQL escapes with backslashes; the others do not. Undefined: nothing has shown yet whose dump it is. */
  #isMysql: boolean | undefined;

  constructor(text: string) {
    this.text = text;
    this.#isMysql = dialectOf(text.slice(0, 10_000));
  }

  get hasEscapes(): boolean {
    return this.#isMysql === true;
  }

  /** For what only MySQL writes. The head of a dump knows better. */
  noteMysql(): void {
    this.#isMysql ??= true;
  }

  get isAtEnd(): boolean {
    this.#skipBlank();
    return this.at >= this.text.length;
  }

  word(): string | undefined {
    this.#skipBlank();
    return this.match(word);
  }

  /** What a sticky expression finds right here, which is then behind us. */
  match(sticky: RegExp): string | undefined {
    sticky.lastIndex = this.at;
    const found = sticky.exec(this.text)?.[0];
    this.at += found?.length ?? 0;
    return found;
  }

  peek(): string {
    this.#skipBlank();
    return this.text[this.at] ?? "";
  }

  take(sign: string): boolean {
    this.#skipBlank();
    if (!this.text.startsWith(sign, this.at)) return false;
    this.at += sign.length;
    return true;
  }

  name(): string {
    const sign = this.peek();
    if (sign === "`") this.noteMysql();
    if (sign === "`" || sign === '"') return this.quoted(sign);
    if (sign === "[") {
      const end = this.text.indexOf("]", this.at);
      if (end === -1) throw this.problem("a name has no ]");
      const name = this.text.slice(this.at + 1, end);
      this.at = end + 1;
      return name;
    }
    const name = this.word();
    if (name === undefined) throw this.problem("a name is missing");
    return name;
  }

  /** Without the schema before it. */
  tableName(): string {
    let name = this.name();
    while (this.take(".")) name = this.name();
    return name.toLowerCase();
  }

  nameList(): string[] {
    this.take("(");
    const names: string[] = [];
    do names.push(this.name().toLowerCase());
    while (this.take(","));
    this.take(")");
    return names;
  }

  /** A text in quotes, which are doubled to stand for themselves. */
  quoted(quote: string, readEscape?: Unescape): string {
    const parts: string[] = [];
    let at = this.at + 1;
    for (;;) {
      const next = nextSign(this.text, at, quote, readEscape !== undefined);
      if (next === -1) throw this.problem("a quote is not closed");
      parts.push(this.text.slice(at, next));
      if (this.text[next] === "\\" && readEscape !== undefined) {
        const { value, length } = readEscape(this.text, next + 1);
        parts.push(value);
        at = next + 1 + length;
      } else if (this.text[next + 1] === quote) {
        parts.push(quote);
        at = next + 2;
      } else {
        this.at = next + 1;
        return parts.join("");
      }
    }
  }

  /** PostgreSQL: `$$…$$` or `$name$…$name$`, with nothing inside that means anything else. */
  dollarQuoted(): string | undefined {
    // In MySQL it is at most a delimiter.
    if (this.hasEscapes || /[\w$]/.test(this.text[this.at - 1] ?? "")) return undefined;
    const start = this.at;
    const tag = this.match(/\$(?:[A-Za-z_]\w*)?\$/y);
    if (tag === undefined) return undefined;
    const end = this.text.indexOf(tag, this.at);
    if (end === -1) {
      this.at = start;
      throw this.problem(`a text that begins with ${tag} has no end`);
    }
    const value = this.text.slice(this.at, end);
    this.at = end + tag.length;
    return value;
  }

  /** To the next member of the list that it stands in. False at its end. */
  skipToComma(): boolean {
    let depth = 0;
    for (;;) {
      const sign = this.peek();
      if (sign === "") return false;
      if (this.#skipQuoted(sign)) continue;
      this.at++;
      if (sign === "(") depth++;
      if (sign === ")" && depth-- === 0) return false;
      if (sign === "," && depth === 0) return true;
    }
  }

  skipStatement(): void {
    for (let sign = this.peek(); sign !== "" && sign !== ";"; sign = this.peek()) {
      if (!this.#skipQuoted(sign)) this.at++;
    }
    this.at++;
  }

  problem(reason: string): Error {
    const line = this.text.slice(0, this.at).split("\n").length;
    return new Error(`The dump cannot be read at line ${line}: ${reason}.`);
  }

  #skipQuoted(sign: string): boolean {
    if (sign === "`") this.noteMysql();
    if (sign === "$") return this.dollarQuoted() !== undefined;
    if (sign !== "'" && sign !== '"' && sign !== "`") return false;
    const isEscaped =
      sign === "'" && (this.hasEscapes || /\bE$/i.test(this.text.slice(this.at - 2, this.at)));
    this.quoted(sign, isEscaped ? mysqlEscape : undefined);
    return true;
  }

  #skipBlank(): void {
    // In PostgreSQL and SQLite, # begins no comment.
    this.match(this.#isMysql === false ? blank : mysqlBlank);
  }
}

const blank = /(?:\s+|--[^\n]*|\/\*[\s\S]*?\*\/|\\(?:un)?restrict[^\n]*)+/y;
const mysqlBlank = /(?:\s+|--[^\n]*|#[^\n]*|\/\*[\s\S]*?\*\/|\\(?:un)?restrict[^\n]*)+/y;

/** Whose dump it is, by what it says of itself: true for MySQL and MariaDB. */
function dialectOf(head: string): boolean | undefined {
  if (/^-- (?:MySQL|MariaDB) dump|^\/\*M?!\d{5,6}/m.test(head)) return true;
  if (
    /^PRAGMA foreign_keys|^-- PostgreSQL database dump|^SET client_encoding|^COPY .* FROM stdin/im.test(head)
  )
    return false;
  return undefined;
}

/** What a backslash and the signs from here on stand for, and how many signs those are. */
export type Unescape = (text: string, at: number) => { readonly value: string; readonly length: number };

export const controlSigns: Readonly<Record<string, string>> = {
  n: "\n",
  r: "\r",
  t: "\t",
  b: "\b",
  f: "\f",
  v: "\v",
};

/** `\%` and `\_` keep their backslash: they mean something to LIKE. */
export const mysqlEscape: Unescape = (text, at) => {
  const sign = text[at] ?? "";
  const known = { n: "\n", r: "\r", t: "\t", b: "\b", "0": "\0", Z: "\x1a", "%": "\\%", _: "\\_" }[sign];
  return { value: known ?? sign, length: 1 };
};

/** `E'…'` of PostgreSQL. */
export const postgresEscape: Unescape = (text, at) => {
  const code = /x[\da-f]{1,2}|u[\da-f]{4}|U[\da-f]{8}|[0-7]{1,3}/iy;
  code.lastIndex = at;
  const found = code.exec(text)?.[0];
  if (found === undefined) return { value: controlSigns[text[at] ?? ""] ?? text[at] ?? "", length: 1 };
  const isOctal = /^\d/.test(found);
  const point = Number.parseInt(isOctal ? found : found.slice(1), isOctal ? 8 : 16);
  return { value: String.fromCodePoint(Math.min(point, 0x10ffff)), length: found.length };
};

function nextSign(text: string, from: number, quote: string, hasEscapes: boolean): number {
  if (from >= text.length) return -1;
  const end = text.indexOf(quote, from);
  if (!hasEscapes) return end;
  const backslash = text.indexOf("\\", from);
  return backslash !== -1 && (end === -1 || backslash < end) ? backslash : end;
}
