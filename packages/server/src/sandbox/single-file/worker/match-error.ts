import type { BusinessMatch, ThrownData } from "../messages.ts";

/**
 * The first entry that describes what was thrown. It looks at the message, the code and the name. A regular
 * expression is known by what it is, not by `instanceof`, which fails across realms.
 */
export function matchError(
  entries: unknown,
  thrown: unknown,
  described: ThrownData,
): BusinessMatch | undefined {
  if (!Array.isArray(entries)) return undefined;
  const texts = [described.message, described.code, described.name].filter((text) => text !== undefined);
  const found = entries.find((entry) => isRecord(entry) && fits(entry, texts, thrown));
  return found === undefined ? undefined : toMatch(found);
}

function fits({ match, code }: Record<string, unknown>, texts: readonly string[], thrown: unknown): boolean {
  if (match === undefined) return typeof code === "string" && texts.includes(code);
  return [match].flat().some((one) => fitsOne(one, texts, thrown));
}

function fitsOne(match: unknown, texts: readonly string[], thrown: unknown): boolean {
  try {
    if (typeof match === "string") return match !== "" && texts.some((text) => text.includes(match));
    if (typeof match === "function") return Boolean(match(thrown));
    if (!isRegExp(match)) return false;
    return texts.some((text) => {
      match.lastIndex = 0; // With the flag `g` it would go on where it last stopped.
      return match.test(text);
    });
  } catch {
    return false; // A test that fails must not hide the failure that it looks at.
  }
}

function toMatch(entry: Record<string, unknown>): BusinessMatch {
  const { code, description, solution, retryable } = entry;
  return {
    code: typeof code === "string" && code !== "" ? code : "BUSINESS_ERROR",
    ...(typeof description === "string" ? { description } : {}),
    ...(typeof solution === "string" ? { solution } : {}),
    retryable: retryable === true,
  };
}

export function isRegExp(value: unknown): value is RegExp {
  return Object.prototype.toString.call(value) === "[object RegExp]";
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
