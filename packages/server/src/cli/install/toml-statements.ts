/** A head of a table or a pair in TOML, with its whole lines. */
export interface TomlStatement {
  readonly kind: "table" | "array" | "pair";
  /** From the root on: of a pair, the table that it stands in and its key. */
  readonly path: readonly string[];
  readonly start: number;
  /** Behind the line end. */
  readonly end: number;
  /** Of a pair. Numbers, times and truth values are their texts, as `TomlScalar`. */
  readonly value?: unknown;
}

/** What is no text, array or table, as it is written. */
export class TomlScalar {
  readonly written: string;

  constructor(written: string) {
    this.written = written;
  }
}

/** Everything in the text but comments and blank lines. Throws `SyntaxError` with the line of the mistake. */
export function parseTomlStatements(text: string): TomlStatement[] {
  return new Reader(text).statements();
}

const bareKey = /[\w-]+/y;
const bareValue =
  /(?:true|false|[+-]?(?:inf|nan)|[+-]?\d[\w.+:-]*(?: \d\d:\d\d[\d:.+Zz-]*)?)(?=[\s,\]}#]|$)/y;
const escapes: Readonly<Record<string, string>> = {
  b: "\b",
  t: "\t",
  n: "\n",
  f: "\f",
  r: "\r",
  e: "\u001b",
  '"': '"',
  "\\": "\\",
};
const hexLengths: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

class Reader {
  readonly #text: string;
  #at: number;

  constructor(text: string) {
    this.#text = text;
    this.#at = text.startsWith("\uFEFF") ? 1 : 0;
  }

  statements(): TomlStatement[] {
    const found: TomlStatement[] = [];
    let table: readonly string[] = [];
    for (;;) {
      this.#skip(true);
      if (this.#at >= this.#text.length) return found;
      const start = this.#text.lastIndexOf("\n", this.#at - 1) + 1;
      if (this.#text[this.#at] === "[") {
        const kind = this.#text.startsWith("[[", this.#at) ? "array" : "table";
        const width = kind === "array" ? 2 : 1;
        this.#at += width;
        table = this.#key();
        this.#take("]".repeat(width));
        found.push({ kind, path: table, start, end: this.#lineEnd() });
      } else {
        const path = [...table, ...this.#key()];
        this.#take("=");
        this.#skip(false);
        const value = this.#value();
        found.push({ kind: "pair", path, start, end: this.#lineEnd(), value });
      }
    }
  }

  #key(): string[] {
    const parts: string[] = [];
    for (;;) {
      this.#skip(false);
      parts.push(this.#keyPart());
      this.#skip(false);
      if (this.#text[this.#at] !== ".") return parts;
      this.#at++;
    }
  }

  #keyPart(): string {
    const quote = this.#text[this.#at];
    if (quote === '"' || quote === "'") return this.#string(quote);
    return this.#match(bareKey);
  }

  #value(): unknown {
    const character = this.#text[this.#at];
    if (character === '"' || character === "'") {
      const three = character.repeat(3);
      return this.#text.startsWith(three, this.#at) ? this.#longString(three) : this.#string(character);
    }
    if (character === "[") return this.#array();
    if (character === "{") return this.#inlineTable();
    return new TomlScalar(this.#match(bareValue));
  }

  #array(): unknown[] {
    const items: unknown[] = [];
    this.#items("]", () => items.push(this.#value()));
    return items;
  }

  #inlineTable(): Record<string, unknown> {
    const table: Record<string, unknown> = {};
    this.#items("}", () => {
      const path = this.#key();
      this.#take("=");
      this.#skip(false);
      assign(table, path, this.#value());
    });
    return table;
  }

  #items(closing: string, item: () => void): void {
    this.#at++;
    this.#skip(true);
    while (this.#text[this.#at] !== closing) {
      item();
      this.#skip(true);
      if (this.#text[this.#at] === ",") this.#at++;
      else if (this.#text[this.#at] !== closing) throw this.#mistake();
      this.#skip(true);
    }
    this.#at++;
  }

  #string(quote: string): string {
    this.#at++;
    let value = "";
    while (this.#text[this.#at] !== quote) {
      const character = this.#text[this.#at];
      if (character === undefined || character === "\n") throw this.#mistake();
      value += quote === '"' && character === "\\" ? this.#escape() : character;
      this.#at++;
    }
    this.#at++;
    return value;
  }

  #longString(quotes: string): string {
    this.#at += 3;
    const first = /\r?\n/y;
    first.lastIndex = this.#at;
    if (first.test(this.#text)) this.#at = first.lastIndex;
    let value = "";
    for (;;) {
      const character = this.#text[this.#at];
      if (character === undefined) throw this.#mistake();
      if (this.#text.startsWith(quotes, this.#at)) break;
      if (quotes === '"""' && character === "\\") value += this.#escape(true);
      else value += character;
      this.#at++;
    }
    this.#at += 3;
    // Up to two quotes may stand directly before those that close it.
    while (this.#text[this.#at] === quotes[0]) {
      value += quotes[0];
      this.#at++;
    }
    return value;
  }

  /** Leaves the reader at its last character. */
  #escape(isLong = false): string {
    this.#at++;
    const letter = this.#text[this.#at] ?? "";
    const plain = escapes[letter];
    if (plain !== undefined) return plain;
    const length = hexLengths[letter];
    if (length !== undefined) {
      const digits = this.#text.slice(this.#at + 1, this.#at + 1 + length);
      const code = Number.parseInt(digits, 16);
      if (!/^[\da-fA-F]+$/.test(digits) || digits.length !== length || code > 0x10ffff) throw this.#mistake();
      this.#at += length;
      return String.fromCodePoint(code);
    }
    const blank = /[ \t]*\r?\n\s*/y;
    blank.lastIndex = this.#at;
    if (!isLong || !blank.test(this.#text)) throw this.#mistake();
    this.#at = blank.lastIndex - 1;
    return "";
  }

  /** Over blanks; with `lines` over line ends and comments too. */
  #skip(lines: boolean): void {
    const blank = lines ? /(?:\s|#[^\n]*)*/y : /[ \t]*/y;
    blank.lastIndex = this.#at;
    blank.test(this.#text);
    this.#at = blank.lastIndex;
  }

  /** Nothing but a comment may follow on the line. Answers where the next line begins. */
  #lineEnd(): number {
    const rest = /[ \t]*(?:#[^\n]*)?(?:\r?\n|$)/y;
    rest.lastIndex = this.#at;
    if (!rest.test(this.#text)) throw this.#mistake();
    this.#at = rest.lastIndex;
    return this.#at;
  }

  #match(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    if (found === undefined) throw this.#mistake();
    this.#at += found.length;
    return found;
  }

  #take(word: string): void {
    if (!this.#text.startsWith(word, this.#at)) throw this.#mistake();
    this.#at += word.length;
  }

  #mistake(): SyntaxError {
    const line = this.#text.slice(0, this.#at).split("\n").length;
    return new SyntaxError(`line ${line}: this is no TOML`);
  }
}

/** Puts a value at a path of keys. Throws `SyntaxError` when something else is there. */
export function assign(table: Record<string, unknown>, path: readonly string[], value: unknown): void {
  const [first = "", ...rest] = path;
  const isTaken = Object.hasOwn(table, first);
  if (rest.length === 0) {
    if (isTaken) throw new SyntaxError(`"${first}" is there twice`);
    table[first] = value;
    return;
  }
  if (!isTaken) table[first] = {};
  const inner = table[first];
  if (inner === null || typeof inner !== "object" || Array.isArray(inner) || inner instanceof TomlScalar) {
    throw new SyntaxError(`"${first}" is there twice`);
  }
  assign(inner as Record<string, unknown>, rest, value);
}
