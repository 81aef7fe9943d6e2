const REDACTED = "[redacted]";
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

export interface RedactOptions {
  /** Secret values themselves; every occurrence inside a text is masked. */
  readonly values?: Iterable<string>;
}

/**
 * A copy of the value that may be logged: secrets masked by key and by value, circular and very deep parts
 * replaced, everything plain JSON. Never throws and never changes what it is given.
 */
export function redact(value: unknown, options: RedactOptions = {}): unknown {
  // A very short value would mask half of any text; nobody's secret has three characters.
  const values = [...(options.values ?? [])].filter((secret) => secret.length > 3);
  try {
    return copy(value, values, [], 0);
  } catch {
    return "[unreadable]";
  }
}

function copy(given: unknown, values: readonly string[], ancestors: object[], depth: number): unknown {
  const value = typeof given === "object" && given !== null ? unpacked(given) : given;
  if (typeof value === "string") return maskValues(value, values);
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "function" || typeof value === "symbol") return `[${typeof value}]`;
  if (typeof value !== "object" || value === null) return value;
  if (ancestors.includes(value)) return "[circular]";
  if (depth >= DEEPEST) return "[too deep]";
  if (value instanceof Uint8Array || value instanceof ArrayBuffer) return `[${value.byteLength} bytes]`;
  ancestors.push(value);
  const result = Array.isArray(value)
    ? value.map((item) => copy(item, values, ancestors, depth + 1))
    : copyObject(value, values, ancestors, depth);
  ancestors.pop();
  return result;
}

/** JSON would make `{}` of them. */
function unpacked(value: object): unknown {
  if (value instanceof Map) return Object.fromEntries(value);
  return value instanceof Set ? [...value] : value;
}

function copyObject(value: object, values: readonly string[], ancestors: object[], depth: number): unknown {
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === "function") return copy(toJSON.call(value), values, ancestors, depth + 1);
  const result: Record<string, unknown> = {};
  for (const key of Object.keys(value)) {
    if (key === "__proto__") continue;
    const item = (value as Record<string, unknown>)[key];
    result[key] = isSecret(key, item) ? REDACTED : copy(item, values, ancestors, depth + 1);
  }
  return result;
}

function isSecret(key: string, item: unknown): boolean {
  if (item === undefined || item === null || typeof item === "boolean") return false;
  const words = wordsOf(key);
  // `token` also counts things (`max_tokens`), so only its texts are secret.
  if (typeof item === "string" && words.at(-1) === "token") return true;
  return words.some((word, index) => secretWords.has(word) || secretPairs.has(`${words[index - 1]} ${word}`));
}

/** `X-Api-Key`, `apiKey` and `api_key` are the same two words. */
function wordsOf(key: string): string[] {
  return key
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u);
}

function maskValues(text: string, values: readonly string[]): string {
  let masked = text;
  for (const secret of values) if (masked.includes(secret)) masked = masked.replaceAll(secret, REDACTED);
  return masked;
}
