const longestText = 8192;
const mostTokens = 128;
const deepest = 8;

/**
 * The distinct words of the arguments' values, hashed and in ascending order: enough to compare two calls, and
 * nothing of the arguments can be read back from it. Keys are left out, since all calls of a tool share them.
 */
export function argumentTokens(args: unknown): readonly number[] {
  const tokens = new Set<number>();
  let budget = longestText;
  collect(args, 0);
  return Array.from(tokens).sort((one, other) => one - other);

  function collect(value: unknown, depth: number): void {
    if (budget <= 0 || tokens.size >= mostTokens || depth > deepest) return;
    if (typeof value === "object" && value !== null) {
      for (const child of Object.values(value)) collect(child, depth + 1);
      return;
    }
    const text = String(value).slice(0, budget).toLowerCase();
    budget -= text.length;
    for (const [word] of text.matchAll(/[\p{L}\p{N}]+/gu)) {
      if (tokens.size >= mostTokens) return;
      tokens.add(hashWord(word));
    }
  }
}

/** The share of words that both have, of all the words that either has (Jaccard), from 0 to 1. */
export function similarity(one: readonly number[], other: readonly number[]): number {
  let common = 0;
  let left = 0;
  let right = 0;
  while (left < one.length && right < other.length) {
    const difference = one[left]! - other[right]!;
    if (difference === 0) common++;
    if (difference <= 0) left++;
    if (difference >= 0) right++;
  }
  const all = one.length + other.length - common;
  return all === 0 ? 1 : common / all;
}

function hashWord(word: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < word.length; index++) {
    hash = Math.imul(hash ^ word.charCodeAt(index), 0x01000193);
  }
  return hash >>> 0;
}
