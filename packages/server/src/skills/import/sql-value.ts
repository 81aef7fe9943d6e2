import { mysqlEscape, postgresEscape, type SqlScanner } from "./sql-scanner.ts";

export type SqlValue = string | number | null;

/** A value that only the database itself could have computed, such as `now()`. */
export class UnknownValue {
  /** As the dump writes it. */
  readonly written: string;

  constructor(written: string) {
    this.written = written;
  }
}

/** Reads one value of a row. Throws with the line for what is none. */
export function readSqlValue(scanner: SqlScanner): SqlValue | UnknownValue {
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
