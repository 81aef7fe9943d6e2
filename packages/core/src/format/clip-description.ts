import type { TakeNote } from "./format-note.ts";

/** The description cut at a word to the provider's limit. */
export function clipDescription(
  description: string | undefined,
  limit: number,
  note: TakeNote,
): string | undefined {
  if (description === undefined || description.length <= limit) return description;
  note("", "description", "shortened", `${description.length} characters; the provider takes ${limit}.`);
  const head = description.slice(0, limit - 1).replace(/[\uD800-\uDBFF]$/, "");
  const word = head.search(/\s\S*$/);
  return `${word > limit / 2 ? head.slice(0, word) : head}…`;
}
