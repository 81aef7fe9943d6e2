import { createHash } from "node:crypto";

const LONGEST_KEY = 200;

/**
 * The text as every engine can hold it. PostgreSQL refuses the character NUL, and half of a surrogate pair has no form in
 * UTF-8; both become visible signs.
 */
export function toStorableText(text: string): string {
  if (!text.includes("\0") && text.isWellFormed()) return text;
  return text.replaceAll("\0", "␀").toWellFormed();
}

/**
 * A text that is looked up by: ids, names, sessions. One that is too long, or that an engine would hold or compare
 * differently, is shortened and told apart by its hash. The same text always gives the same key.
 */
export function toKey(text: string): string {
  if (isKey(text)) return text;
  const hash = createHash("sha256").update(text, "utf16le").digest("hex").slice(0, 32);
  return `${toStorableText(text.slice(0, LONGEST_KEY - 40)).trimEnd()}~${hash}`;
}

/** Whether a text is its own key, so that it is read back as it was written. MySQL ignores blanks at the end when it compares. */
export function isKey(text: string): boolean {
  return text.length <= LONGEST_KEY && !text.includes("\0") && !text.endsWith(" ") && text.isWellFormed();
}
