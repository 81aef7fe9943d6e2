import type { FoundKey } from "./key-guide.ts";

/** The keys of a value, at any depth, that are gone in what parsing made of it, where that is of the same form. */
export function lostKeys(value: unknown, parsed: unknown): FoundKey[] {
  const lost: FoundKey[] = [];
  compare(value, parsed, []);
  return lost;

  function compare(before: unknown, after: unknown, path: readonly (string | number)[]): void {
    if (Array.isArray(before)) {
      if (!Array.isArray(after) || before.length !== after.length) return;
      before.forEach((item, index) => {
        compare(item, after[index], [...path, index]);
      });
      return;
    }
    if (!isPlain(before) || !isPlain(after)) return;
    for (const key of Object.keys(before)) {
      if (Object.hasOwn(after, key)) compare(before[key], after[key], [...path, key]);
      else if (before[key] !== undefined) lost.push({ parent: path, key, value: before[key] });
    }
  }
}

function isPlain(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
