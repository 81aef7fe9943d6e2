import { type Edit, editCopy } from "./edit-copy.ts";
import { memberAt } from "./member-at.ts";
import { alternativesOf, likeliestBranch } from "./zod-issues.ts";
import type { ZodIssue } from "./zod-types.ts";

/**
 * A copy of a value that Zod refused, in which the dates, big integers, sets and maps that it missed are made from
 * their JSON forms; `undefined` when there is nothing to make. Zod's own issues say where, which is exact through
 * every wrapper, recursion and alternative. A made value is never made again, so repeating this comes to an end.
 */
export function convertRefused(issues: readonly ZodIssue[], value: unknown): unknown {
  const found = issues.flatMap((issue) => conversionsIn(issue, [], value));
  return found.length === 0 ? undefined : editCopy(value, found);
}

function conversionsIn(issue: ZodIssue, base: readonly unknown[], value: unknown): readonly Edit[] {
  const path = [...base, ...(issue.path ?? [])];
  const alternatives = alternativesOf(issue);
  if (alternatives === undefined) {
    const make = issue.code === "invalid_type" ? makers.get(issue.expected) : undefined;
    const made = make?.(memberAt(value, path));
    return made === undefined ? [] : [{ path, value: made }];
  }
  // Zod 4 counts paths from the union, Zod 3 from the root.
  const fromRoot = issue.errors === undefined;
  const ways = alternatives.map((branch) =>
    branch.map((inner) => conversionsIn(inner, fromRoot ? base : path, value)),
  );
  const fitting = ways.find((way) => way.every((conversions) => conversions.length > 0));
  const meant = likeliestBranch(alternatives, fromRoot ? path.length - base.length : 0);
  return (fitting ?? (meant && ways[alternatives.indexOf(meant)]) ?? []).flat();
}

/** By the name that Zod gives to what it expected. Each answers `undefined` for what is no such thing. */
const makers = new Map<unknown, (json: unknown) => unknown>([
  ["date", toDate],
  ["bigint", toBigInt],
  ["set", (json) => (Array.isArray(json) ? new Set(json) : undefined)],
  ["map", (json) => (isListOfPairs(json) ? new Map(json) : undefined)],
]);

/** A day, or a time with its zone: without one, it would mean another moment on every machine. */
const isoDate = /^\d{4}-(\d\d)-(\d\d)(?:[Tt ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:[Zz]|[+-]\d\d:\d\d))?$/;

function toDate(json: unknown): Date | undefined {
  const parts = typeof json === "string" ? isoDate.exec(json) : null;
  if (parts === null) return undefined;
  const date = new Date(parts[0].replace(" ", "T").toUpperCase());
  if (Number.isNaN(date.getTime())) return undefined;
  // The 30th of February would silently become a day of March.
  const day = new Date(parts[0].slice(0, 10));
  return day.getUTCDate() === Number(parts[2]) ? date : undefined;
}

/** A number that JSON has already rounded is refused rather than taken for another one. */
function toBigInt(json: unknown): bigint | undefined {
  if (typeof json === "number") return Number.isSafeInteger(json) ? BigInt(json) : undefined;
  return typeof json === "string" && /^-?\d{1,1000}$/.test(json) ? BigInt(json) : undefined;
}

function isListOfPairs(json: unknown): json is [unknown, unknown][] {
  return Array.isArray(json) && json.every((pair) => Array.isArray(pair) && pair.length === 2);
}
