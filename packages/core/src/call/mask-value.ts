import type { SecretMask } from "./secret-mask.ts";

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
