import { createHash } from "node:crypto";
import type { ConnectionOptions } from "mysql2";
import { parse, v7 } from "uuid";
import { toStorableText } from "../helpers/index.ts";

export { toStorableText };

/**
 * Why an approval rule with this pattern cannot be stored, as a sentence; undefined when it can. A pattern
 * that the store shortened would match no tool any more, and calls that the rule denies would be allowed.
 */
export function problemOfRulePattern(pattern: string): string | undefined {
  if (toKey(pattern) === pattern) return undefined;
  return "The pattern of a rule has at most 200 characters, no blank at its end, and neither NUL nor half of a surrogate pair in it.";
}

export const skillToolTypes = ["http", "script", "builtin"] as const;

export type SkillToolType = (typeof skillToolTypes)[number];

/** Base-36 digits of an id; enough until the year 2500. */
const DIGITS = 24;

/**
 * A new id for a row that people and models may see: a UUID of version 7 in lower-case letters and digits, so that it
 * can be a tool's name with every provider, grows with time, and begins with a letter.
 */
export function newId(): string {
  const number = BigInt(`0x${Buffer.from(parse(v7())).toString("hex")}`);
  return `t${number.toString(36).padStart(DIGITS, "0")}`;
}

/**
 * Turns a text by which rows are looked up (an id, a name, a session) into its key. A text that is too long,
 * or that some engine would store or compare differently, is shortened and gets its hash as a suffix. The
 * same text always gives the same key.
 */
export function toKey(text: string): string {
  // MySQL ignores blanks at the end when it compares.
  const isKept =
    text.length <= LONGEST_KEY && !text.includes("\0") && !text.endsWith(" ") && text.isWellFormed();
  if (isKept) return text;
  const hash = createHash("sha256").update(text, "utf16le").digest("hex").slice(0, 32);
  return `${toStorableText(text.slice(0, LONGEST_KEY - 40)).trimEnd()}~${hash}`;
}

/** Shortens a text that is only shown, and by which no row is looked up. */
export function toLabel(text: string): string {
  if (text.length <= LONGEST_LABEL) return toStorableText(text);
  return `${toStorableText(text.slice(0, LONGEST_LABEL))}…`;
}

/**
 * The name of a secret that is stored for one token, given by the token's id. No tool is given it: only what acts for that
 * token reads it.
 */
export function tokenSecretName(token: string, name: string): string {
  return `token.${token}.${name}`;
}

/** Begins the ids of handoffs that only mark a request to `/v1`. */
export const REQUEST_MARK = "run_";

/**
 * How many records of calls, and bytes of them, are held in memory for the store before new calls are
 * refused.
 */
export const mostHeld = { records: 10_000, bytes: 64 * 1024 * 1024 } as const;

/**
 * Reads the connection options from the URL by hand, so that its query string cannot switch on options of the
 * driver that are off here.
 */
export function mysqlAddress(url: string): ConnectionOptions {
  const { hostname, port, username, password, pathname, searchParams } = new URL(url);
  const socketPath = searchParams.get("socketPath") ?? searchParams.get("socket");
  const ssl = searchParams.get("ssl") ?? searchParams.get("sslmode") ?? searchParams.get("ssl-mode");
  const isEncrypted = ssl !== null && !/^(false|0|disabled?|prefer(red)?)$/i.test(ssl);
  return {
    host: hostname.replace(/^\[|\]$/g, ""),
    port: port === "" ? 3306 : Number(port),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: decodeURIComponent(pathname.slice(1)),
    ...(socketPath === null ? {} : { socketPath }),
    ...(isEncrypted ? { ssl: {} } : {}),
    multipleStatements: false,
    // A server must not be able to ask for files of this machine.
    flags: ["-LOCAL_FILES"],
  };
}

const LONGEST_KEY = 200;
const LONGEST_LABEL = 250;
