import type { ToolError } from "../error/tool-error.ts";
import type { CallFrame } from "./frame.ts";

const REDACTED = "[redacted]";

/** A shorter value would mask half of any text; nobody's secret has three characters. */
const SHORTEST = 4;
/** Shorter values are found as they are written only: in any case, they would stand in many a text by chance. */
const SHORTEST_IN_ANY_CASE = 6;
/** How much of a value is looked for at first: a pattern of whole keys and certificates would be too large. */
const BEGINNING = 40;

/**
 * Known secret values, made ready for being found in texts, in any mix of upper and lower case: one pass over a text,
 * however many there are. Iterating it gives the values.
 */
export class SecretMask implements Iterable<string> {
  static readonly empty = new SecretMask([]);

  readonly #values: readonly string[];
  readonly #short: readonly string[];
  /** All others, in lower case. */
  readonly #folded: readonly string[];
  /** Says quickly, and without a copy of the text, that none of those is in it, which is nearly always so. */
  readonly #beginnings: RegExp | undefined;

  constructor(values: Iterable<string>) {
    this.#values = [...new Set(values)].filter((value) => value.length >= SHORTEST && value !== REDACTED);
    this.#short = this.#values.filter((value) => value.length < SHORTEST_IN_ANY_CASE);
    const long = this.#values.filter((value) => value.length >= SHORTEST_IN_ANY_CASE);
    this.#folded = [...new Set(long.map(inLowerCase))];
    if (long.length > 0) this.#beginnings = new RegExp(long.map(toPattern).join("|"), "i");
  }

  static of(values: Iterable<string>): SecretMask {
    if (values instanceof Set && values.size === 0) return SecretMask.empty;
    return values instanceof SecretMask ? values : new SecretMask(values);
  }

  get isEmpty(): boolean {
    return this.#values.length === 0;
  }

  [Symbol.iterator](): Iterator<string> {
    return this.#values[Symbol.iterator]();
  }

  /** Whether any of the values is in the text. */
  finds(text: string): boolean {
    if (this.#short.some((value) => text.includes(value))) return true;
    if (this.#beginnings?.test(text) !== true) return false;
    const folded = inLowerCase(text);
    return this.#folded.some((value) => folded.includes(value));
  }

  /** The text with every value masked; the same text when there is none in it. */
  apply(text: string): string {
    return this.finds(text) ? this.#masked(text) : text;
  }

  /** What values cover is masked as one, where they overlap or stand side by side: no rest of a value is left. */
  #masked(text: string): string {
    const folded = inLowerCase(text);
    const covered = new Uint8Array(text.length);
    for (const value of this.#short) cover(covered, text, value);
    for (const value of this.#folded) cover(covered, folded, value);
    let masked = "";
    let end = 0;
    for (let at = covered.indexOf(1); at !== -1; at = covered.indexOf(1, end)) {
      masked += text.slice(end, at) + REDACTED;
      const next = covered.indexOf(0, at);
      end = next === -1 ? text.length : next;
    }
    return masked + text.slice(end);
  }
}

function cover(covered: Uint8Array, text: string, value: string): void {
  for (let at = text.indexOf(value); at !== -1; at = text.indexOf(value, at + value.length))
    covered.fill(1, at, at + value.length);
}

/**
 * In lower case, with every character at the place where it was. Of all characters, İ becomes two, and Σ another one at
 * the end of a word.
 */
function inLowerCase(text: string): string {
  const lower = text.toLowerCase();
  if (lower.length === text.length && !lower.includes("ς")) return lower;
  return text.replaceAll("İ", "i").toLowerCase().replaceAll("ς", "σ");
}

function toPattern(value: string): string {
  return value.slice(0, BEGINNING).replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}

const DEEPEST = 500;
/** `[redacted]` in base64. */
const REDACTED_BYTES = "W3JlZGFjdGVkXQ==";

/**
 * The value with every known secret in its texts and keys masked. What holds none is given back as it is, not copied.
 * For plain JSON; nothing else is looked into.
 */
export function maskValue<Value>(value: Value, mask: SecretMask): Value {
  return mask.isEmpty ? value : (masked(value, mask, "", 0) as Value); // Only texts change, into texts.
}

function masked(value: unknown, mask: SecretMask, key: string, depth: number): unknown {
  if (typeof value === "string") return maskedText(value, mask, key);
  if (typeof value !== "object" || value === null) return value;
  // What lies so deep is not looked at, so it is not shown either.
  if (depth >= DEEPEST) return "[too deep]";
  return Array.isArray(value) ? maskedList(value, mask, depth) : maskedObject(value, mask, depth);
}

/** Bytes with a part replaced would be none: they are withheld as a whole. */
function maskedText(text: string, mask: SecretMask, key: string): string {
  if (!mask.finds(text)) return text;
  if (key === "data" || key === "blob") return isBase64(text) ? REDACTED_BYTES : mask.apply(text);
  return /^data:[^,]{0,200};base64,/i.test(text)
    ? `data:text/plain;base64,${REDACTED_BYTES}`
    : mask.apply(text);
}

function isBase64(text: string): boolean {
  return /^[\w+/-]+={0,2}$/.test(text);
}

function maskedList(list: readonly unknown[], mask: SecretMask, depth: number): unknown {
  let copy: unknown[] | undefined;
  for (let at = 0; at < list.length; at++) {
    const item = masked(list[at], mask, "", depth + 1);
    if (item === list[at]) continue;
    copy ??= [...list];
    copy[at] = item;
  }
  return copy ?? list;
}

function maskedObject(object: object, mask: SecretMask, depth: number): unknown {
  const entries = Object.entries(object);
  let isChanged = false;
  for (const entry of entries) {
    const [key, item] = entry;
    const shownKey = mask.apply(key);
    const shown = masked(item, mask, key, depth + 1);
    if (shownKey === key && shown === item) continue;
    isChanged = true;
    entry[0] = shownKey;
    entry[1] = shown;
  }
  return isChanged ? Object.fromEntries(entries) : object;
}

const DEEPEST_ARGUMENT = 64;

/** Words of a key that make its value secret whatever it is. */
const secretWords = new Set(
  "password passwd passphrase pass pwd secret secrets credential credentials authorization cookie cookies bearer auth apikey".split(
    " ",
  ),
);
/** Pairs of words that do. */
const secretPairs = new Set([
  "api key",
  "private key",
  "access key",
  "secret key",
  "signing key",
  "encryption key",
]);

/** Words of a query parameter that do, beside those of a key. */
const secretParameters = new Set(["token", "key", "signature", "sig"]);

export interface RedactOptions {
  /** Secret values themselves; every occurrence inside a text is masked. */
  readonly values?: Iterable<string>;
  /** More of them, made ready once for many texts. */
  readonly known?: SecretMask;
  /** Is given what was masked for its key or its place in a text, to mask it where it is repeated. */
  readonly found?: Set<string>;
}

/**
 * A copy of the value that may be logged: secrets masked by key, by value and by their place in a text, circular and
 * very deep parts replaced, everything plain JSON. Never throws and never changes what it is given.
 */
export function redact(value: unknown, options: RedactOptions = {}): unknown {
  const { values, known = SecretMask.empty, found } = options;
  try {
    const given = values === undefined ? SecretMask.empty : SecretMask.of(values);
    return copy(value, { known, given, found }, [], 0);
  } catch {
    return "[unreadable]";
  }
}

interface Mask {
  readonly known: SecretMask;
  readonly given: SecretMask;
  readonly found: Set<string> | undefined;
}

function copy(given: unknown, mask: Mask, ancestors: object[], depth: number): unknown {
  const value = typeof given === "object" && given !== null ? unpacked(given) : given;
  if (typeof value === "string") return maskText(value, mask);
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "function" || typeof value === "symbol") return `[${typeof value}]`;
  if (typeof value !== "object" || value === null) return value;
  if (ancestors.includes(value)) return "[circular]";
  if (depth >= DEEPEST_ARGUMENT) return "[too deep]";
  if (value instanceof Uint8Array || value instanceof ArrayBuffer) return `[${value.byteLength} bytes]`;
  ancestors.push(value);
  const result = Array.isArray(value)
    ? value.map((item) => copy(item, mask, ancestors, depth + 1))
    : copyObject(value, mask, ancestors, depth);
  ancestors.pop();
  return result;
}

/** JSON would make `{}` of them. */
function unpacked(value: object): unknown {
  if (value instanceof Map) return Object.fromEntries(value);
  return value instanceof Set ? [...value] : value;
}

function copyObject(value: object, mask: Mask, ancestors: object[], depth: number): unknown {
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === "function") return copy(toJSON.call(value), mask, ancestors, depth + 1);
  const result: Record<string, unknown> = {};
  for (const key of Object.keys(value)) {
    if (key === "__proto__") continue;
    const item = (value as Record<string, unknown>)[key];
    if (!isSecret(key, item)) {
      result[key] = copy(item, mask, ancestors, depth + 1);
      continue;
    }
    result[key] = REDACTED;
    if (mask.found !== undefined) collect(item, mask.found, new Set());
  }
  return result;
}

function isSecret(key: string, item: unknown): boolean {
  if (item === undefined || item === null || typeof item === "boolean") return false;
  const holds = heldBy(key);
  // `token` also counts things (`max_tokens`), so only its texts are secret.
  return holds === "secrets" || (holds === "tokens" && typeof item === "string");
}

type Held = "secrets" | "tokens" | "anything";

/** The same few keys come with every call, and taking them apart costs more than all the rest. */
const known = new Map<string, Held>();
const MOST_KNOWN = 2_000;

function heldBy(key: string): Held {
  const before = known.get(key);
  if (before !== undefined) return before;
  const words = wordsOf(key);
  const isNamed = words.some(
    (word, index) => secretWords.has(word) || secretPairs.has(`${words[index - 1]} ${word}`),
  );
  const held = isNamed ? "secrets" : words.at(-1) === "token" ? "tokens" : "anything";
  // Keys may be data: they must not pile up.
  if (known.size >= MOST_KNOWN) known.clear();
  known.set(key, held);
  return held;
}

/** `X-Api-Key`, `apiKey` and `api_key` are the same two words. */
function wordsOf(key: string): string[] {
  return key
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u);
}

/** The texts of something secret, however it is packed. */
function collect(item: unknown, found: Set<string>, seen: Set<unknown>): void {
  const value = typeof item === "object" && item !== null ? unpacked(item) : item;
  if (typeof value === "string" || typeof value === "number" || typeof value === "bigint") {
    found.add(String(value));
  } else if (typeof value === "object" && value !== null && !ArrayBuffer.isView(value) && !seen.has(value)) {
    seen.add(value);
    for (const part of Object.values(value)) collect(part, found, seen);
  }
}

function maskText(text: string, { known, given, found }: Mask): string {
  let masked = given.apply(known.apply(text));
  if (masked.includes("://")) {
    masked = masked.replace(password, (_, before: string, secret: string) => {
      found?.add(secret);
      return `${before}${REDACTED}@`;
    });
  }
  // Prose can stand in these places ("Bearer tokens"), and must not be masked wherever else it stands.
  const hide = (secret: string): string => {
    if (looksRandom(secret)) found?.add(secret);
    return REDACTED;
  };
  if (masked.includes("=")) {
    masked = masked.replace(parameter, (whole, before: string, name: string, secret: string) =>
      isSecretParameter(name) ? `${before}${name}=${hide(secret)}` : whole,
    );
  }
  return masked.replace(
    scheme,
    (whole, before: string, header: string | undefined, name: string, secret: string) =>
      header === undefined && name.toLowerCase() === "basic" && !looksRandom(secret)
        ? whole
        : `${before}${hide(secret)}`,
  );
}

/** In `scheme://user:password@host`; the user may stay. */
const password = /(:\/\/[^\s/?#@:"']*:)([^\s/?#"']+)@/g;
const parameter = /([?&])([\w.%-]{1,64})=([^&#\s"'<>]+)/g;
const scheme = /\b((authorization\W{1,4})?(bearer|basic) {1,4})([\w.~+/=-]{4,})/gi;

function isSecretParameter(name: string): boolean {
  return isSecret(name, name) || wordsOf(name).some((word) => secretParameters.has(word));
}

/** As keys and base64 do, and words do not. */
function looksRandom(text: string): boolean {
  return text.length >= 8 && /\d|[a-z][A-Z]|=$/.test(text);
}

/** Arguments as others may see them. Made once for all who are told of a call. */
export interface ShownInput {
  readonly source: unknown;
  readonly known: SecretMask;
  readonly input: Record<string, unknown>;
  /** The secrets that were masked in it. */
  readonly found: ReadonlySet<string>;
}

/**
 * The arguments with secrets masked; what came, in a field of its own, when it never became arguments. `found` is
 * given the secrets.
 */
export function visibleInput(frame: CallFrame, found?: Set<string>): Record<string, unknown> {
  const shown = shownInput(frame, sourceOf(frame));
  if (found !== undefined) for (const secret of shown.found) found.add(secret);
  return shown.input;
}

const none: ReadonlySet<string> = new Set();
/** Taken by the next arguments that hold a secret, which most do not. */
let spare = new Set<string>();

export function shownInput(frame: CallFrame, source: unknown): ShownInput {
  const known = frame.host.settings.secrets();
  const before = frame.shown;
  if (before !== undefined && before.source === source && before.known === known) return before;
  const found = spare;
  const input = toRecord(redact(source, { known, found }));
  if (found.size > 0) spare = new Set();
  const shown = { source, known, input, found: found.size > 0 ? found : none };
  frame.shown = shown;
  return shown;
}

/** What the call was given: the arguments once they fit the schema, and until then what came. */
export function sourceOf({ status, startedAt, input, raw }: CallFrame): unknown {
  return status !== "pending" && startedAt > 0 ? input : raw;
}

/** The secrets of the call's own arguments, which its result or error may repeat. */
export function ownSecrets(error: ToolError | undefined, found: Set<string>): Iterable<string> {
  // Of large arguments only a masked extract is remembered; the error still has them.
  if (error !== undefined) redact(error.input, { found });
  return found;
}

function toRecord(plain: unknown): Record<string, unknown> {
  if (typeof plain === "object" && plain !== null && !Array.isArray(plain))
    return plain as Record<string, unknown>;
  return plain === undefined || plain === null ? {} : { raw: plain };
}
