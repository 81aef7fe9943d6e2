import { Mask, REDACTED } from "./mask.ts";

/** How deep a value is shown. Deeper parts are replaced by a word, because they could contain secrets. */
const DEEPEST_SHOWN = 64;

interface RedactOptions {
  /** Hides known values wherever they occur. */
  readonly mask?: Mask;
  /** Like `mask`, for values that no mask was made of yet. */
  readonly values?: Iterable<string>;
  /**
   * Gets what was hidden because of its key or its place in a text, so that it can be hidden where it occurs again.
   */
  readonly found?: Set<string>;
}

/**
 * A copy of the value that may be logged: secrets hidden by value, by key and by their place in a text, circular and
 * very deep parts replaced, everything plain JSON. Never throws and never changes the value.
 */
export function redact(
  value: unknown,
  { values, mask = values === undefined ? Mask.none : new Mask(values), found }: RedactOptions = {},
): unknown {
  try {
    return copy(value, mask, found, [], 0);
  } catch {
    return "[unreadable]";
  }
}

/** Whether texts under this name are hidden, whatever they are. */
export function isSecretName(name: string): boolean {
  return isSecret(name, name);
}

/** Words of a key that make its value secret whatever it is. */
const secretWords = new Set(
  "password passwd passphrase pass pwd secret secrets credential credentials authorization cookie cookies bearer auth apikey".split(
    " ",
  ),
);
/** Words before `key` that make its value secret. */
const secretKeys = new Set(["api", "private", "access", "signing", "encryption"]);

/** Further words that make the value of a query parameter secret. */
const secretParameters = new Set(["token", "key", "signature", "sig"]);

type Found = Set<string> | undefined;

function copy(given: unknown, mask: Mask, found: Found, ancestors: object[], depth: number): unknown {
  const value = given instanceof Map || given instanceof Set ? unpacked(given) : given;
  if (typeof value === "string") return shownText(value, mask, found);
  if (typeof value === "number") return mask.hidesNumbers && mask.hidesNumber(value) ? REDACTED : value;
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
function unpacked(value: unknown): unknown {
  if (value instanceof Map) return Object.fromEntries(value);
  return value instanceof Set ? [...value] : value;
}

function isSecret(key: string, item: unknown): boolean {
  if (item === undefined || item === null || typeof item === "boolean") return false;
  const holds = known.get(key) ?? heldBy(key);
  // A key that ends in `token` may also hold a count, so only a text is secret there.
  return holds === "secrets" || (holds === "tokens" && typeof item === "string");
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
    (word, index) => secretWords.has(word) || (secretKeys.has(word) && words[index + 1] === "key"),
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
  const value = unpacked(item);
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
