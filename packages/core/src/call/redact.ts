import { REDACTED, SecretMask } from "./secret-mask.ts";

const DEEPEST = 64;

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
  if (depth >= DEEPEST) return "[too deep]";
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
