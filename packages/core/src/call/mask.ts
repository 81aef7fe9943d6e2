const REDACTED = "[redacted]";
/** `[redacted]` in base64. */
const REDACTED_BYTES = "W3JlZGFjdGVkXQ==";

/** Shorter values are not masked: they would occur everywhere. */
const SHORTEST = 4;
/** Shorter values are matched with their case, or they would match by chance. */
const SHORTEST_IN_ANY_CASE = 6;
/** Characters of each value in the first search pattern: whole certificates would make it too large. */
const BEGINNING = 40;
/** Deeper parts are not searched, so they are not shown either. */
const DEEPEST = 500;
const DEEPEST_SHOWN = 64;

/**
 * Masks secret values in texts, without regard to case, in one pass however many there are. Iterating gives the values.
 */
export class Mask implements Iterable<string> {
  static readonly none = new Mask([]);

  readonly #values: readonly string[];
  readonly #short: readonly string[];
  /** The longer values, in lower case. */
  readonly #folded: readonly string[];
  /** A quick test that nearly always shows that none of the longer values is in the text. */
  readonly #beginnings: RegExp | undefined;
  /** A further mask that applies too. */
  readonly #other: Mask | undefined;

  constructor(values: Iterable<string>, other?: Mask) {
    this.#values = [...new Set(values)].filter((value) => value.length >= SHORTEST && value !== REDACTED);
    this.#short = this.#values.filter((value) => value.length < SHORTEST_IN_ANY_CASE);
    const long = this.#values.filter((value) => value.length >= SHORTEST_IN_ANY_CASE);
    this.#folded = [...new Set(long.map(inLowerCase))];
    if (long.length > 0) this.#beginnings = new RegExp(long.map(toPattern).join("|"), "i");
    this.#other = other?.isEmpty === false ? other : undefined;
  }

  /** A mask that hides these values too. */
  and(values: ReadonlySet<string>): Mask {
    return values.size === 0 ? this : new Mask(values, this);
  }

  get isEmpty(): boolean {
    return this.#values.length === 0 && this.#other === undefined;
  }

  *[Symbol.iterator](): Generator<string> {
    yield* this.#values;
    if (this.#other !== undefined) yield* this.#other;
  }

  /** Whether the text contains any value. */
  finds(text: string): boolean {
    return this.#finds(text) || this.#other?.finds(text) === true;
  }

  /** Masks every value; returns the same text when there is none. */
  inText(text: string): string {
    const masked = this.#other === undefined ? text : this.#other.inText(text);
    return this.#finds(masked) ? this.#masked(masked) : masked;
  }

  /**
   * Masks every secret in the texts and keys of plain JSON. Returns the same object when there is none. Looks into
   * nothing but plain JSON.
   */
  apply<Value>(value: Value): Value {
    return this.isEmpty ? value : (masked(value, this, "", 0) as Value); // Only texts change, into texts.
  }

  /**
   * A copy for logs: secrets masked by key, by value and by their place in a text; circular and very deep parts
   * replaced; everything plain JSON. Adds to `found` what was masked by key or place, so that it can be masked
   * elsewhere. Never throws and never changes the value.
   */
  shown(value: unknown, found?: Set<string>): unknown {
    try {
      return copy(value, this, found, [], 0);
    } catch {
      return "[unreadable]";
    }
  }

  /**
   * Merges a person's edits of a masked copy into the original: parts that the person left as shown keep their original
   * value, so that no tool runs with a mask instead of a secret.
   */
  static restore(edited: unknown, shown: unknown, sent: unknown): unknown {
    if (isSame(edited, shown)) return sent;
    if (!isObject(edited) || !isObject(shown) || !isObject(sent)) return edited;
    const entries = Object.entries(edited).map(([key, value]) => [
      key,
      Object.hasOwn(shown, key) && Object.hasOwn(sent, key)
        ? Mask.restore(value, shown[key], sent[key])
        : value,
    ]);
    return Object.fromEntries(entries);
  }

  #finds(text: string): boolean {
    if (this.#short.length > 0 && this.#short.some((value) => text.includes(value))) return true;
    if (this.#beginnings?.test(text) !== true) return false;
    const folded = inLowerCase(text);
    return this.#folded.some((value) => folded.includes(value));
  }

  /** Overlapping and adjacent values become one mask, so that no rest of a value is left. */
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

/** A copy for logs without these values; see `Mask.shown`. */
export function redact(value: unknown, { values, found }: RedactOptions = {}): unknown {
  return (values === undefined ? Mask.none : new Mask(values)).shown(value, found);
}

export interface RedactOptions {
  /** Secret values; every occurrence in a text is masked. */
  readonly values?: Iterable<string>;
  /** Gets what was masked by its key or its place in a text. */
  readonly found?: Set<string>;
}

function cover(covered: Uint8Array, text: string, value: string): void {
  for (let at = text.indexOf(value); at !== -1; at = text.indexOf(value, at + value.length))
    covered.fill(1, at, at + value.length);
}

/**
 * Lower case of the same length, so that positions stay. Plain lower-casing makes two characters of İ, and another Σ at
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

function masked(value: unknown, mask: Mask, key: string, depth: number): unknown {
  if (typeof value === "string") return mask.finds(value) ? maskedText(value, mask, key) : value;
  if (typeof value !== "object" || value === null) return value;
  if (depth >= DEEPEST) return "[too deep]";
  if (Array.isArray(value)) {
    let copy: unknown[] | undefined;
    for (let at = 0; at < value.length; at++) {
      const item = masked(value[at], mask, "", depth + 1);
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
    entry[0] = mask.inText(key);
    entry[1] = masked(item, mask, key, depth + 1);
    isChanged ||= entry[0] !== key || entry[1] !== item;
  }
  return isChanged ? Object.fromEntries(entries) : value;
}

/** Base64 with a masked part would be invalid, so it is replaced as a whole. */
function maskedText(text: string, mask: Mask, key: string): string {
  const isBytes = (key === "data" || key === "blob") && /^[\w+/-]+={0,2}$/.test(text);
  if (isBytes) return REDACTED_BYTES;
  const isDataUrl = key !== "data" && key !== "blob" && /^data:[^,]{0,200};base64,/i.test(text);
  return isDataUrl ? `data:text/plain;base64,${REDACTED_BYTES}` : mask.inText(text);
}

/** Words in a key that make any value secret. */
const secretWords = new Set(
  "password passwd passphrase pass pwd secret secrets credential credentials authorization cookie cookies bearer auth apikey".split(
    " ",
  ),
);
/** Pairs of such words. */
const secretPairs = new Set([
  "api key",
  "private key",
  "access key",
  "secret key",
  "signing key",
  "encryption key",
]);

/** Further such words in query parameters. */
const secretParameters = new Set(["token", "key", "signature", "sig"]);

type Found = Set<string> | undefined;

function copy(given: unknown, mask: Mask, found: Found, ancestors: object[], depth: number): unknown {
  const value = typeof given === "object" && given !== null ? unpacked(given) : given;
  if (typeof value === "string") return shownText(value, mask, found);
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "function" || typeof value === "symbol") return `[${typeof value}]`;
  if (typeof value !== "object" || value === null) return value;
  if (ancestors.includes(value)) return "[circular]";
  if (depth >= DEEPEST_SHOWN) return "[too deep]";
  if (value instanceof Uint8Array || value instanceof ArrayBuffer) return `[${value.byteLength} bytes]`;
  ancestors.push(value);
  const result = Array.isArray(value)
    ? value.map((item) => copy(item, mask, found, ancestors, depth + 1))
    : copyObject(value, mask, found, ancestors, depth);
  ancestors.pop();
  return result;
}

/** JSON would turn maps and sets into `{}`. */
function unpacked(value: object): unknown {
  if (value instanceof Map) return Object.fromEntries(value);
  return value instanceof Set ? [...value] : value;
}

function copyObject(value: object, mask: Mask, found: Found, ancestors: object[], depth: number): unknown {
  const source = value as Record<string, unknown>; // Only its own keys are read.
  const { toJSON } = source;
  if (typeof toJSON === "function") return copy(toJSON.call(value), mask, found, ancestors, depth + 1);
  const result: Record<string, unknown> = {};
  for (const key of Object.keys(source)) {
    if (key === "__proto__") continue;
    const item = source[key];
    if (!isSecret(key, item)) {
      result[key] = copy(item, mask, found, ancestors, depth + 1);
      continue;
    }
    result[key] = REDACTED;
    if (found !== undefined) collect(item, found, new Set());
  }
  return result;
}

function isSecret(key: string, item: unknown): boolean {
  if (item === undefined || item === null || typeof item === "boolean") return false;
  const holds = contentOfKey(key);
  // `token` also counts things (`max_tokens`), so only its texts are secret.
  return holds === "secrets" || (holds === "tokens" && typeof item === "string");
}

type KeyContent = "secrets" | "tokens" | "anything";

/** A cache: every call has the same few keys, and splitting them into words is slow. */
const knownKeys = new Map<string, KeyContent>();
const MOST_KNOWN_KEYS = 2_000;

function contentOfKey(key: string): KeyContent {
  const before = knownKeys.get(key);
  if (before !== undefined) return before;
  const words = wordsOf(key);
  const isNamed = words.some(
    (word, index) => secretWords.has(word) || secretPairs.has(`${words[index - 1]} ${word}`),
  );
  const held = isNamed ? "secrets" : words.at(-1) === "token" ? "tokens" : "anything";
  // Keys may be data, so the cache is bounded.
  if (knownKeys.size >= MOST_KNOWN_KEYS) knownKeys.clear();
  knownKeys.set(key, held);
  return held;
}

/** `X-Api-Key`, `apiKey` and `api_key` are the same two words. */
function wordsOf(key: string): string[] {
  return key
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u);
}

/** Adds all texts of a secret value, at any depth. */
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
  // Prose can match too ("Bearer tokens"); such words must not be masked elsewhere.
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

/** In `scheme://user:password@host`; the user is not masked. */
const password = /(:\/\/[^\s/?#@:"']*:)([^\s/?#"']+)@/g;
const parameter = /([?&])([\w.%-]{1,64})=([^&#\s"'<>]+)/g;
const scheme = /\b((authorization\W{1,4})?(bearer|basic) {1,4})([\w.~+/=-]{4,})/gi;

function isSecretParameter(name: string): boolean {
  return isSecret(name, name) || wordsOf(name).some((word) => secretParameters.has(word));
}

/** True for keys and base64, false for words. */
function looksRandom(text: string): boolean {
  return text.length >= 8 && /\d|[a-z][A-Z]|=$/.test(text);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether two JSON values are equal, in any order of keys. */
function isSame(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && one.every((item, at) => isSame(item, other[at]));
  }
  if (!isObject(one) || !isObject(other)) return false;
  const keys = Object.keys(one);
  return (
    keys.length === Object.keys(other).length &&
    keys.every((key) => Object.hasOwn(other, key) && isSame(one[key], other[key]))
  );
}
