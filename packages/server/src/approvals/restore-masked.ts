import { isDeepStrictEqual } from "node:util";
import { isRecord } from "../json/is-record.ts";

/**
 * The arguments as a person edited them, who saw secrets masked: what was left as it was shown stays as it was sent,
 * so that no tool runs with a mask in the place of a secret.
 */
export function restoreMasked(edited: unknown, shown: unknown, sent: unknown): unknown {
  if (isDeepStrictEqual(edited, shown)) return sent;
  if (!isRecord(edited) || !isRecord(shown) || !isRecord(sent)) return edited;
  const entries = Object.entries(edited).map(([key, value]) => [
    key,
    Object.hasOwn(shown, key) && Object.hasOwn(sent, key)
      ? restoreMasked(value, shown[key], sent[key])
      : value,
  ]);
  return Object.fromEntries(entries);
}
