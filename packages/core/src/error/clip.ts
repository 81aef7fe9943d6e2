import { redact } from "../call/redact.ts";

const LONGEST_TEXT = 300;
const MOST_KEYS = 50;

/** The arguments as an error may show them: redacted, every long text cut, never more than a screenful. */
export function clip(input: unknown): Record<string, unknown> {
  const plain = redact(input);
  if (typeof plain !== "object" || plain === null || Array.isArray(plain)) {
    return plain === undefined ? {} : { value: shorten(plain, 0) };
  }
  return shorten(plain, 0) as Record<string, unknown>; // An object stays an object.
}

function shorten(value: unknown, depth: number): unknown {
  if (typeof value === "string") {
    // Through JSON, because a slice would keep the whole text in memory.
    return value.length > LONGEST_TEXT
      ? `${JSON.parse(JSON.stringify(value.slice(0, LONGEST_TEXT)))}… (${value.length} characters)`
      : value;
  }
  if (typeof value !== "object" || value === null) return value;
  if (depth > 4) return "…";
  if (Array.isArray(value)) {
    const head = value.slice(0, MOST_KEYS).map((item) => shorten(item, depth + 1));
    return value.length > MOST_KEYS ? [...head, `… (${value.length} items)`] : head;
  }
  const entries = Object.entries(value);
  const shown = entries.slice(0, MOST_KEYS).map(([key, item]) => [key, shorten(item, depth + 1)] as const);
  if (entries.length > MOST_KEYS) shown.push(["…", `${entries.length} keys`]);
  return Object.fromEntries(shown);
}
