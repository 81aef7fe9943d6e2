import type { ToolErrorResponse } from "../error/codes.ts";
import type { RawResult, ToolResult } from "../tool/result.ts";

const REDACTED = "[redacted]";
/** `[redacted]` as a JSON text. */
const HIDDEN_JSON = JSON.stringify(REDACTED);
/** `[redacted]` in base64. */
const REDACTED_BYTES = "W3JlZGFjdGVkXQ==";

/** Shorter values are not masked: they occur in almost any text, and nobody's secret has three characters. */
const SHORTEST = 4;
/**
 * Shorter values are found only in their exact case: with case ignored, they would occur in many texts by
 * chance.
 */
const SHORTEST_IN_ANY_CASE = 6;
/**
 * How many characters of each value the first search looks for: a pattern of whole keys and certificates
 * would be too large.
 */
const BEGINNING = 40;
/**
 * How deep `apply` searches a value; `shown` searches `DEEPEST_SHOWN` deep. Deeper parts are replaced by a
 * word, because they could contain secrets.
 */
const DEEPEST = 500;
const DEEPEST_SHOWN = 64;

/**
 * Hides a set of secret values, in any mix of upper and lower case. One pass finds out whether a text
 * contains any of them, however many there are. Iterating a mask gives its values.
 */
export class Mask implements Iterable<string> {
  static readonly none = new Mask([]);

  readonly #values: readonly string[];
  readonly #short: readonly string[];
  /** The values that are not in `#short`, in lower case. */
  readonly #folded: readonly string[];
  /**
   * Finds the beginning of any value in `#folded`. Nearly every text has none, which this tells quickly and
   * without a copy of the text.
   */
  readonly #beginnings: RegExp | undefined;
  /** Whether a number can contain one of the values: such a value has only characters of numbers. */
  readonly #hasNumeric: boolean;
  /** Another mask, whose values are hidden too. */
  readonly #other: Mask | undefined;
  readonly isEmpty: boolean;

  constructor(values: Iterable<string>, other?: Mask) {
    this.#values = [...new Set(values)].filter(
      (value) => value.length >= SHORTEST && !REDACTED.includes(value.toLowerCase()),
    );
    this.#short = this.#values.filter((value) => value.length < SHORTEST_IN_ANY_CASE);
    const long = this.#values.filter((value) => value.length >= SHORTEST_IN_ANY_CASE);
    this.#folded = [...new Set(long.map(inLowerCase))];
    if (long.length > 0) this.#beginnings = new RegExp(long.map(toPattern).join("|"), "i");
    this.#hasNumeric = this.#values.some((value) => /^[\d.e+-]+$/i.test(value));
    this.#other = other?.isEmpty === false ? other : undefined;
    this.isEmpty = this.#values.length === 0 && this.#other === undefined;
  }

  /** A mask that hides these values too. */
  and(values: ReadonlySet<string>): Mask {
    return values.size === 0 ? this : new Mask(values, this);
  }

  *[Symbol.iterator](): Generator<string> {
    yield* this.#values;
    if (this.#other !== undefined) yield* this.#other;
  }

  /** Whether any of the values is in the text. */
  finds(text: string): boolean {
    if (this.#short.length > 0 && this.#short.some((value) => text.includes(value))) return true;
    if (this.#beginnings?.test(text) === true) {
      const folded = inLowerCase(text);
      if (this.#folded.some((value) => folded.includes(value))) return true;
    }
    return this.#other?.finds(text) === true;
  }

  /** Whether any of the values is in the number as JSON writes it. */
  hidesNumber(value: number): boolean {
    if (this.#hasNumeric && this.#values.some((hidden) => String(value).includes(hidden))) return true;
    return this.#other?.hidesNumber(value) === true;
  }

  /**
   * The text with every value masked; the same text when it contains none. An object or list written as JSON
   * stays valid JSON.
   */
  inText(text: string): string {
    if (!this.finds(text)) return text;
    return (/^\s*[{[]/.test(text) ? this.#inJson(text) : undefined) ?? this.#inPlainText(text);
  }

  /**
   * The value with every secret in its texts, numbers and keys masked. Parts without a secret are returned as
   * they are, not copied. Expects plain JSON.
   */
  apply<Value>(value: Value): Value {
    return this.isEmpty ? value : (masked(value, this, "", 0, false) as Value); // The shape stays.
  }

  /**
   * Like `apply`, for a message of MCP: what the protocol fixes, such as names of members, types and roles, is
   * not masked.
   */
  inMessage<Value>(message: Value): Value {
    return this.isEmpty ? message : (masked(message, this, "", 0, true) as Value); // The shape stays.
  }

  /** Masks what the tool produced of a result: never its type, nor the MIME types of what it holds. */
  inResult<Result extends RawResult | ToolResult>(result: Result): Result {
    if (this.isEmpty) return result;
    const { content, type, structured, attachments, blocks, metadata } = result;
    const { title, error }: Partial<RawResult & ToolResult> = result;
    const data = structured === undefined ? undefined : this.apply(structured);
    // In JSON, a secret may be written with escapes.
    const isJson = type === "json" && (data !== structured || this.finds(content));
    const text = (isJson ? this.#inJson(content) : undefined) ?? this.inText(content);
    // Where the text is hidden as a whole, the value that it was made of is too.
    const isHidden = text === HIDDEN_JSON && text !== content;
    const shown = {
      content: text,
      structured: data !== undefined && isHidden ? REDACTED : data,
      attachments: attachments === undefined ? undefined : this.inMessage(attachments),
      blocks: blocks === undefined ? undefined : this.inMessage(blocks),
      metadata: metadata === undefined ? undefined : this.apply(metadata),
      title: title === undefined ? undefined : this.inText(title),
      error: error === undefined ? undefined : this.inError(error),
    };
    const isChanged =
      shown.content !== content ||
      shown.structured !== structured ||
      shown.attachments !== attachments ||
      shown.blocks !== blocks ||
      shown.metadata !== metadata ||
      shown.title !== title ||
      shown.error !== error;
    if (!isChanged) return result;
    const known = Object.entries(shown).filter(([, value]) => value !== undefined);
    return { ...result, ...Object.fromEntries(known) };
  }

  /** Masks what a tool may have said in an error: never its name, its code or the names of its details. */
  inError(error: ToolErrorResponse): ToolErrorResponse {
    if (this.isEmpty) return error;
    const { message, details } = error;
    if (details === undefined) return { ...error, message: this.inText(message) };
    const parts = Object.entries(details).map(([key, value]) => [key, this.apply(value)]);
    return {
      ...error,
      message: this.inText(message),
      details: { ...Object.fromEntries(parts), input: this.apply(details.input), toolName: details.toolName },
    };
  }

  /**
   * A copy of the value that may be logged: secrets masked by key, by value and by their place in a text,
   * circular and very deep parts replaced, everything plain JSON. Adds to `found` what was masked because of
   * its key or its place, so that it can be masked where it occurs again. Never throws and never changes the
   * value.
   */
  shown(value: unknown, found?: Set<string>): unknown {
    try {
      return copy(value, this, found, [], 0);
    } catch {
      return "[unreadable]";
    }
  }

  /**
   * Masks the texts, keys and numbers in a JSON text, and keeps how it is laid out. Returns undefined when it is
   * no JSON. A secret that goes beyond one text, such as a whole key file, hides everything.
   */
  #inJson(json: string): string | undefined {
    try {
      JSON.parse(json);
    } catch {
      return undefined;
    }
    let key = "";
    const shown = json.replace(jsonParts, (part, colon: string | undefined) => {
      const held = key;
      key = "";
      if (part === "{" || part === "[") return part;
      if (!part.startsWith('"')) {
        return this.hidesNumber(Number(part)) || this.finds(part) ? HIDDEN_JSON : part;
      }
      const text: string = JSON.parse(colon === undefined ? part : part.slice(0, -colon.length));
      if (colon !== undefined) key = text;
      const hidden = this.finds(text) ? maskedText(text, this, held) : text;
      return hidden === text ? part : JSON.stringify(hidden) + (colon ?? "");
    });
    return this.finds(shown) ? HIDDEN_JSON : shown;
  }

  /** Masks values that overlap or stand side by side as one, so that no part of a value is left. */
  #inPlainText(whole: string): string {
    const text = this.#other?.inText(whole) ?? whole;
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

/**
 * Secret values: a function that returns them, or an object with their list. Both are read again for every
 * use, so the values may change.
 */
export type SecretValues = (() => Iterable<string>) | { readonly list: readonly string[] };

/**
 * Returns a function that gives the mask of the current secrets and makes a new one only when they have
 * changed. If the host fails to give its secrets, the last known ones are masked, so that no call loses its
 * record.
 */
export function readyMask(secrets: SecretValues): () => Mask {
  /** The list that was read last, if it is frozen and can never change. */
  let fixed: Iterable<string> | undefined;
  let values: readonly string[] = [];
  let mask = Mask.none;
  return () => {
    try {
      const now = typeof secrets === "function" ? secrets() : secrets.list;
      if (now === fixed) return mask;
      const list = [...now];
      if (list.length !== values.length || list.some((value, at) => value !== values[at])) {
        mask = new Mask(list);
        values = list;
      }
      fixed = Object.isFrozen(now) ? now : undefined;
    } catch {
      // The mask of the last known secrets stays.
    }
    return mask;
  };
}

/**
 * A copy of the value that may be logged. Every occurrence of `values` inside a text is masked too. Adds to
 * `found` what was masked because of its key or its place in a text, so that it can be masked where it occurs
 * again.
 */
export function redact(
  value: unknown,
  { values, found }: { readonly values?: Iterable<string>; readonly found?: Set<string> } = {},
): unknown {
  return (values === undefined ? Mask.none : new Mask(values)).shown(value, found);
}

/** A text with the colon behind it when it is a key, a number, or the beginning of an object or a list. */
const jsonParts = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?|-?\d[\d.eE+-]*|[{[]/g;

/** Members of MCP messages and attachments whose values the protocol fixes. */
const fixedMembers = new Set(["type", "mime", "mimeType", "role", "audience"]);
/** Members of MCP messages with data of any shape. */
const dataMembers = new Set(["_meta", "structuredContent", "arguments"]);

function cover(covered: Uint8Array, text: string, value: string): void {
  for (let at = text.indexOf(value); at !== -1; at = text.indexOf(value, at + value.length))
    covered.fill(1, at, at + value.length);
}

/**
 * The text in lower case, with every character at the same index. Two characters need care: `İ` would become
 * two, and `Σ` would become another letter at the end of a word.
 */
function inLowerCase(text: string): string {
  const lower = text.toLowerCase();
  if (lower.length === text.length && !lower.includes("ς")) return lower;
  return text.replaceAll("İ", "i").toLowerCase().replaceAll("ς", "σ");
}

function toPattern(value: string): string {
  return value.slice(0, BEGINNING).replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}

function masked(value: unknown, mask: Mask, key: string, depth: number, isMessage: boolean): unknown {
  if (typeof value === "string") return mask.finds(value) ? maskedText(value, mask, key) : value;
  if (typeof value === "number") return mask.hidesNumber(value) ? REDACTED : value;
  if (typeof value !== "object" || value === null) return value;
  if (depth >= DEEPEST) return "[too deep]";
  if (Array.isArray(value)) {
    let copy: unknown[] | undefined;
    for (let at = 0; at < value.length; at++) {
      const item = masked(value[at], mask, "", depth + 1, isMessage);
      if (item === value[at]) continue;
      copy ??= [...value];
      copy[at] = item;
    }
    return copy ?? value;
  }
  const entries = Object.entries(value);
  let isChanged = false;
  for (const entry of entries) {
    const [key, item] = entry;
    if (isMessage && fixedMembers.has(key)) continue;
    if (!isMessage && mask.finds(key)) entry[0] = mask.inText(key);
    entry[1] = masked(item, mask, key, depth + 1, isMessage && !dataMembers.has(key));
    isChanged ||= entry[0] !== key || entry[1] !== item;
  }
  return isChanged ? Object.fromEntries(entries) : value;
}

/**
 * Masks a text that contains a secret. Base64 with a part replaced would be invalid, so it is replaced as a
 * whole.
 */
function maskedText(text: string, mask: Mask, key: string): string {
  const isBytes = (key === "data" || key === "blob") && /^[\w+/-]+={0,2}$/.test(text);
  if (isBytes) return REDACTED_BYTES;
  const isDataUrl = key !== "data" && key !== "blob" && /^data:[^,]{0,200};base64,/i.test(text);
  return isDataUrl ? `data:text/plain;base64,${REDACTED_BYTES}` : mask.inText(text);
}

/** Words of a key that make its value secret whatever it is. */
const secretWords = new Set(
  "password passwd passphrase pass pwd secret secrets credential credentials authorization cookie cookies bearer auth apikey".split(
    " ",
  ),
);
/** Pairs of words in a key that make its value secret. */
const secretPairs = new Set([
  "api key",
  "private key",
  "access key",
  "secret key",
  "signing key",
  "encryption key",
]);

/** Further words that make the value of a query parameter secret. */
const secretParameters = new Set(["token", "key", "signature", "sig"]);

type Found = Set<string> | undefined;

function copy(given: unknown, mask: Mask, found: Found, ancestors: object[], depth: number): unknown {
  const value = given instanceof Map || given instanceof Set ? unpacked(given) : given;
  if (typeof value === "string") return shownText(value, mask, found);
  if (typeof value === "number") return mask.hidesNumber(value) ? REDACTED : value;
  if (typeof value === "bigint") return mask.inText(value.toString());
  if (typeof value === "function" || typeof value === "symbol") return `[${typeof value}]`;
  if (typeof value !== "object" || value === null) return value;
  if (ancestors.includes(value)) return "[circular]";
  if (depth >= DEEPEST_SHOWN) return "[too deep]";
  if (value instanceof Uint8Array || value instanceof ArrayBuffer) return `[${value.byteLength} bytes]`;
  ancestors.push(value);
  let result: unknown;
  if (Array.isArray(value)) result = value.map((item) => copy(item, mask, found, ancestors, depth + 1));
  else {
    const source = value as Record<string, unknown>; // Only its own keys are read.
    const { toJSON } = source;
    if (typeof toJSON === "function") result = copy(toJSON.call(value), mask, found, ancestors, depth + 1);
    else {
      const members: Record<string, unknown> = {};
      for (const key of Object.keys(source)) {
        if (key === "__proto__") continue;
        const item = source[key];
        if (!isSecret(key, item)) {
          members[key] = copy(item, mask, found, ancestors, depth + 1);
          continue;
        }
        members[key] = REDACTED;
        if (found !== undefined) collect(item, found, new Set());
      }
      result = members;
    }
  }
  ancestors.pop();
  return result;
}

/** Converts a map to an object and a set to a list, because JSON would make `{}` of both. */
function unpacked(value: object): unknown {
  if (value instanceof Map) return Object.fromEntries(value);
  return value instanceof Set ? [...value] : value;
}

function isSecret(key: string, item: unknown): boolean {
  if (item === undefined || item === null || typeof item === "boolean") return false;
  const holds = known.get(key) ?? heldBy(key);
  // A key that ends in `token` may also hold a count, so only a text is secret there.
  return holds === "secrets" || (holds === "tokens" && typeof item === "string");
}

/** Whether texts under this name are masked, whatever they are. */
export function isSecretName(name: string): boolean {
  return isSecret(name, name);
}

type Held = "secrets" | "tokens" | "anything";

/**
 * What each known key holds. Cached, because the same few keys come with every call, and splitting a key into
 * words costs more than all the rest.
 */
const known = new Map<string, Held>();
const MOST_KNOWN = 2_000;

function heldBy(key: string): Held {
  const words = wordsOf(key);
  const isNamed = words.some(
    (word, index) => secretWords.has(word) || secretPairs.has(`${words[index - 1]} ${word}`),
  );
  const held = isNamed ? "secrets" : words.at(-1) === "token" ? "tokens" : "anything";
  // Keys may come from data, so the cache must not grow without end.
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

/** Adds all texts and numbers of a secret value to `found`, at any depth. */
function collect(item: unknown, found: Set<string>, seen: Set<unknown>): void {
  const value = typeof item === "object" && item !== null ? unpacked(item) : item;
  if (typeof value === "string" || typeof value === "number" || typeof value === "bigint") {
    found.add(String(value));
  } else if (typeof value === "object" && value !== null && !ArrayBuffer.isView(value) && !seen.has(value)) {
    seen.add(value);
    for (const part of Object.values(value)) collect(part, found, seen);
  }
}

function shownText(text: string, mask: Mask, found: Found): string {
  let masked = mask.inText(text);
  if (masked.includes("://")) {
    masked = masked.replace(password, (_, before: string, secret: string) => {
      found?.add(secret);
      return `${before}${REDACTED}@`;
    });
  }
  // Ordinary words can stand in these places ("Bearer tokens"); they are masked here, but not wherever else
  // they occur.
  const hide = (secret: string): string => {
    if (looksRandom(secret)) found?.add(secret);
    return REDACTED;
  };
  if (masked.includes("=")) {
    masked = masked.replace(parameter, (whole, before: string, name: string, secret: string) =>
      isSecret(name, name) || wordsOf(name).some((word) => secretParameters.has(word))
        ? `${before}${name}=${hide(secret)}`
        : whole,
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

/** The password in `scheme://user:password@host`; the user is not masked. */
const password = /(:\/\/[^\s/?#@:"']*:)([^\s/?#"']+)@/g;
const parameter = /([?&])([\w.%-]{1,64})=([^&#\s"'<>]+)/g;
const scheme = /\b((authorization\W{1,4})?(bearer|basic) {1,4})([\w.~+/=-]{4,})/gi;

/** Whether a text looks like a key or base64, and not like a word. */
function looksRandom(text: string): boolean {
  return text.length >= 8 && /\d|[a-z][A-Z]|=$/.test(text);
}
