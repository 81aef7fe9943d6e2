const REDACTED = "[redacted]";
const DEEPEST = 64;

/** Keys whose value is secret whatever it is. */
const secretKey =
  /pass(?:word|wd|phrase)?$|secret|credential|api[-_]?key|private[-_]?key|authorization|^cookie|set-cookie/i;
/** `token` also counts things (`max_tokens`), so only its texts are secret. */
const tokenKey = /token$/i;

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

function copy(value: unknown, values: readonly string[], ancestors: object[], depth: number): unknown {
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
  return secretKey.test(key) || (typeof item === "string" && tokenKey.test(key));
}

function maskValues(text: string, values: readonly string[]): string {
  let masked = text;
  for (const secret of values) if (masked.includes(secret)) masked = masked.replaceAll(secret, REDACTED);
  return masked;
}
