import { isDeepStrictEqual } from "node:util";
import { isRecord } from "../../../json/is-record.ts";
import { HIDDEN, shownEntry } from "./shown-entry.ts";

const placeholder = /\[(?:hidden|redacted)\]/;

/**
 * An entry that somebody was shown, changed and sent back, with the values in it that were hidden from them. `before` is
 * the entry as it is kept; undefined for a new one. Throws an `Error` that names a key whose placeholder stands for
 * nothing, and would be used as the value, or for one of several.
 */
export function keepHidden(given: unknown, before: unknown): unknown {
  return restored(given, before === undefined ? undefined : shownEntry(before), before, "");
}

function restored(given: unknown, shown: unknown, kept: unknown, path: string): unknown {
  if (typeof given === "string") {
    if (!placeholder.test(given)) return given;
    if (given === shown) return kept;
    throw new Error(
      `${path}: It says ${placeholder.exec(given)?.[0]}, which stands for a value that is not shown, and there is none, or more than one, that it could stand for. Write the value itself, or \${secret:NAME}.`,
    );
  }
  if (Array.isArray(given)) {
    return given.map((item, index) => {
      const at = placeOf(given, index, shown);
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

/**
 * Where an item stood in the list that was shown; -1 when it stood nowhere, or nobody can tell where. Items may have been
 * added, moved or taken away, and two secrets that look alike must not take each other's place.
 */
function placeOf(given: readonly unknown[], index: number, shown: unknown): number {
  const item = given[index];
  if (!Array.isArray(shown) || typeof item !== "string" || !placeholder.test(item)) return index;
  // Everything is where it was, and at most something was added behind it.
  if (isDeepStrictEqual(given.slice(0, shown.length), shown)) return index;
  const places = shown.flatMap((other, place) => {
    // A value of which nothing is shown is that of the option before it.
    const isIt = other === item && (item !== HIDDEN || shown[place - 1] === given[index - 1]);
    return isIt ? [place] : [];
  });
  return places.length === 1 ? (places[0] ?? -1) : -1;
}

function member(holder: unknown, key: string | number): unknown {
  if (Array.isArray(holder)) return holder[Number(key)];
  return isRecord(holder) && Object.hasOwn(holder, key) ? holder[key] : undefined;
}
