import { isKey } from "../database/storable-text.ts";

/**
 * Why a rule cannot be kept with this pattern, as a sentence; undefined when it can. One that the store shortened would
 * fit nothing any more, and what it denies would be allowed.
 */
export function problemOfRulePattern(pattern: string): string | undefined {
  if (isKey(pattern)) return undefined;
  return "The pattern of a rule has at most 200 characters, no blank at its end, and neither NUL nor half of a surrogate pair in it.";
}
