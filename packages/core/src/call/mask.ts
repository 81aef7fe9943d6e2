const REDACTED = "[redacted]";
/** `[redacted]` in base64. */
const REDACTED_BYTES = "W3JlZGFjdGVkXQ==";

/** A shorter value would mask half of any text; nobody's secret has three characters. */
const SHORTEST = 4;
/** Shorter values are found as they are written only: in any case, they would stand in many a text by chance. */
const SHORTEST_IN_ANY_CASE = 6;
/** How much of a value is looked for at first: a pattern of whole keys and certificates would be too large. */
const BEGINNING = 40;
/** What lies deeper is not looked at, so it is not shown either. */
const DEEPEST = 500;
const DEEPEST_SHOWN = 64;

/**
 * Hides secrets. It knows secret values, made ready for being found in texts, in any mix of upper and lower case: one pass
 * over a text, however many there are. Iterating it gives the values.
 */
export class Mask implements Iterable<string> {
  static readonly none = new Mask([]);

  readonly #values: readonly string[];
  readonly #short: readonly string[];
  /** All others, in lower case. */
  readonly #folded: readonly string[];
  /** Says quickly, and without a copy of the text, that none of those is in it, which is nearly always so. */
  readonly #beginnings: RegExp | undefined;
  /** Another mask, whose values are hidden too. */
  readonly #other: Mask | undefined;
  readonly isEmpty: boolean;

  constructor(values: Iterable<string>, other?: Mask) {
    this.#values = [...new Set(values)].filter((value) => value.length >= SHORTEST && value !== REDACTED);
    this.#short = this.#values.filter((value) => value.length < SHORTEST_IN_ANY_CASE);
    const long = this.#values.filter((value) => value.length >= SHORTEST_IN_ANY_CASE);
    this.#folded = [...new Set(long.map(inLowerCase))];
    if (long.length > 0) this.#beginnings = new RegExp(long.map(toPattern).join("|"), "i");
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

  /** The text with every value masked; the same text when there is none in it. */
  inText(text: string): string {
    return this.finds(text) ? this.#masked(this.#other?.inText(text) ?? text) : text;
  }

  /**
   * The value with every secret in its texts and keys masked. What holds none is given back as it is, not copied. For plain
   * JSON; nothing else is looked into.
   */
  apply<Value>(value: Value): Value {
    return this.isEmpty ? value : (masked(value, this, "", 0) as Value); // Only texts change, into texts.
  }

  /**
   * A copy of the value that may be logged: secrets masked by key, by value and by their place in a text, circular and very
   * deep parts replaced, everything plain JSON. `found` is given what was masked for its key or its place, to mask it where
   * it is repeated. Never throws and never changes what it is given.
   */
  shown(value: unknown, found?: Set<string>): unknown {
    try {
      return copy(value, this, found, [], 0);
    } catch {
      return "[unreadable]";
    }
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

/** Secret values, or what says them. A list is read again when another one has taken its place. */
export type SecretValues = (() => Iterable<string>) | { readonly list: readonly string[] };

/**
 * The secrets made ready for masking, again only when they have changed. A host that cannot say them must not cost a
 * call its record; those that it said before are masked.
 */
export function readyMask(secrets: SecretValues): () => Mask {
  /** The list that was read last, when it can never change. */
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
      // Nobody is left to tell.
    }
    return mask;
  };
}

/**
 * A copy of the value that may be logged. Every occurrence of `values` inside a text is masked too. `found` is given what
 * was masked for its key or its place in a text, to mask it where it is repeated.
 */
export function redact(
  value: unknown,
  { values, found }: { readonly values?: Iterable<string>; readonly found?: Set<string> } = {},
): unknown {
  return (values === undefined ? Mask.none : new Mask(values)).shown(value, found);
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
    if (mask.finds(key)) entry[0] = mask.inText(key);
    entry[1] = masked(item, mask, key, depth + 1);
    isChanged ||= entry[0] !== key || entry[1] !== item;
  }
  return isChanged ? Object.fromEntries(entries) : value;
}

/** Bytes with a part replaced would be none: they are withheld as a whole. */
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

type Found = Set<string> | undefined;

function copy(given: unknown, mask: Mask, found: Found, ancestors: object[], depth: number): unknown {
  const value = given instanceof Map || given instanceof Set ? unpacked(given) : given;
  if (typeof value === "string") return shownText(value, mask, found);
  if (typeof value === "bigint") return value.toString();
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

/** JSON would make `{}` of them. */
function unpacked(value: object): unknown {
  if (value instanceof Map) return Object.fromEntries(value);
  return value instanceof Set ? [...value] : value;
}

function isSecret(key: string, item: unknown): boolean {
  if (item === undefined || item === null || typeof item === "boolean") return false;
  const holds = known.get(key) ?? heldBy(key);
  // `token` also counts things (`max_tokens`), so only its texts are secret.
  return holds === "secrets" || (holds === "tokens" && typeof item === "string");
}

type Held = "secrets" | "tokens" | "anything";

/** The same few keys come with every call, and taking them apart costs more than all the rest. */
const known = new Map<string, Held>();
const MOST_KNOWN = 2_000;

function heldBy(key: string): Held {
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

function shownText(text: string, mask: Mask, found: Found): string {
  let masked = mask.inText(text);
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

/** In `scheme://user:password@host`; the user may stay. */
const password = /(:\/\/[^\s/?#@:"']*:)([^\s/?#"']+)@/g;
const parameter = /([?&])([\w.%-]{1,64})=([^&#\s"'<>]+)/g;
const scheme = /\b((authorization\W{1,4})?(bearer|basic) {1,4})([\w.~+/=-]{4,})/gi;

/** As keys and base64 do, and words do not. */
function looksRandom(text: string): boolean {
  return text.length >= 8 && /\d|[a-z][A-Z]|=$/.test(text);
}
