import { isRecord } from "../../../json/is-record.ts";
import { shownEntry } from "./shown-entry.ts";

const placeholder = /\[(?:hidden|redacted)\]/;

/**
 * An entry that somebody was shown, changed and sent back, with the values in it that were hidden from them. `before` is
 * the entry as it is kept; undefined for a new one. Throws an `Error` that names a key whose placeholder stands for
 * nothing: it would be used as the value.
 */
export function keepHidden(given: unknown, before: unknown): unknown {
  return restored(given, before === undefined ? undefined : shownEntry(before), before, "");
}

function restored(given: unknown, shown: unknown, kept: unknown, path: string): unknown {
  if (typeof given === "string") {
    if (!placeholder.test(given)) return given;
    if (given === shown) return kept;
    throw new Error(
      `${path}: It says ${placeholder.exec(given)?.[0]}, which stands for a value that is not shown, and there is none that it could stand for. Write the value itself, or \${secret:NAME}.`,
    );
  }
  if (Array.isArray(given)) {
    return given.map((item, index) => {
      const at = placeOf(item, shown, index);
      return restored(item, member(shown, at), member(kept, at), `${path}[${index}]`);
    });
  }
  if (!isRecord(given)) return given;
  return Object.fromEntries(
    Object.entries(given).map(([key, value]) => [
      key,
      restored(value, member(shown, key), member(kept, key), path === "" ? key : `${path}.${key}`),
    ]),
  );
}

/** Items may have been put before it or taken away. */
function placeOf(item: unknown, shown: unknown, index: number): number {
  if (!Array.isArray(shown) || shown[index] === item) return index;
  const found = shown.indexOf(item);
  return found === -1 ? index : found;
}

function member(holder: unknown, key: string | number): unknown {
  if (Array.isArray(holder)) return holder[Number(key)];
  return isRecord(holder) && Object.hasOwn(holder, key) ? holder[key] : undefined;
}
