import { type Edit, editCopy } from "./copy.ts";
import { anyOf, oneOf, sizeLimits } from "./describe-expected.ts";
import { maximumIssues, mismatch, type SchemaIssue, unknownKey } from "./issue.ts";
import { listOf, memberAt } from "./visit.ts";

/** An issue of either Zod. Which members there are depends on `code`. */
export interface ZodIssue {
  readonly code?: string;
  readonly message: string;
  readonly path?: readonly unknown[];
  readonly [member: string]: unknown;
}

/**
 * The issues of Zod 3 or Zod 4 in the words all schemas share. Where the author wrote a message of their own, it
 * is kept.
 */
export function zodIssues(
  issues: readonly ZodIssue[],
  value: unknown,
  rootKeys: readonly string[] | undefined,
): SchemaIssue[] {
  const explained = issues.slice(0, maximumIssues).flatMap((issue) => explain(issue, []));
  return explained.slice(0, maximumIssues);

  function explain(issue: ZodIssue, base: readonly unknown[]): SchemaIssue[] {
    const path = [...base, ...(issue.path ?? [])];
    const received = memberAt(value, path);
    if (issue.code === "unrecognized_keys") {
      const known = path.length === 0 ? rootKeys : undefined;
      return listOf(issue.keys).map((key) => unknownKey(path, String(key), memberAt(received, [key]), known));
    }
    if (issue.code === "invalid_key") {
      const [problem] = listOf(issue.issues) as readonly ZodIssue[]; // Zod nests issues of the same form.
      const wanted = problem === undefined ? "allowed" : expectedOf(problem);
      return [mismatch(path, `a key that is ${wanted}`, path.at(-1))];
    }
    const alternatives = alternativesOf(issue);
    if (alternatives === undefined)
      return [
        mismatch(path, expectedOf(issue), received, isStandardMessage(issue) ? undefined : issue.message),
      ];
    // Zod 4 counts paths from the union, Zod 3 from the root.
    const fromRoot = issue.errors === undefined;
    const meant = likeliestBranch(alternatives, fromRoot ? path.length - base.length : 0);
    if (meant !== undefined) return meant.flatMap((inner) => explain(inner, fromRoot ? base : path));
    const wanted = anyOf(alternatives.flatMap((branch) => branch.slice(0, 1)).map(expectedOf));
    return [mismatch(path, wanted === "" ? "one of the allowed forms" : wanted, received)];
  }
}

/**
 * If the value fits no alternative of a union: the issues of each alternative. Undefined for any other issue.
 */
function alternativesOf(issue: ZodIssue): readonly (readonly ZodIssue[])[] | undefined {
  if (issue.code !== "invalid_union") return undefined;
  if (Array.isArray(issue.errors) && issue.errors.length > 0) return issue.errors;
  if (!Array.isArray(issue.unionErrors)) return undefined;
  return issue.unionErrors.map((error: { readonly issues: readonly ZodIssue[] }) => error.issues);
}

/** The branch that was evidently meant: the only one that does not already fail at the union's own place. */
function likeliestBranch(
  branches: readonly (readonly ZodIssue[])[],
  depth: number,
): readonly ZodIssue[] | undefined {
  const candidates = branches.filter((branch) => !branch.some((issue) => rulesOut(issue, depth)));
  return candidates.length === 1 ? candidates[0] : undefined;
}

function rulesOut(issue: ZodIssue, depth: number): boolean {
  const below = (issue.path?.length ?? 0) - depth;
  if (issue.code === "invalid_literal" || issue.code === "invalid_value") return below <= 1;
  return below === 0 && (issue.code === "invalid_type" || issue.code === "invalid_enum_value");
}

function expectedOf(issue: ZodIssue): string {
  switch (issue.code) {
    case "invalid_type":
      return jsonForms[String(issue.expected)] ?? String(issue.expected);
    case "invalid_literal":
      return oneOf([issue.expected]);
    case "invalid_value":
      return oneOf(listOf(issue.values));
    case "invalid_enum_value":
    case "invalid_union_discriminator":
      return oneOf(listOf(issue.options));
    case "invalid_union":
      if (Array.isArray(issue.options)) return oneOf(issue.options);
      return issue.inclusive === false ? "exactly one of the allowed forms" : "one of the allowed forms";
    case "too_small":
      return describeLimit(issue, issue.minimum, undefined);
    case "too_big":
      return describeLimit(issue, undefined, issue.maximum);
    case "not_multiple_of":
      return `multiple of ${issue.divisor ?? issue.multipleOf}`;
    case "not_finite":
      return "finite number";
    case "invalid_date":
      return jsonForms.date!;
    case "invalid_format":
    case "invalid_string":
      return describeFormat(issue);
    default:
      if (!isStandardMessage(issue)) return issue.message;
      return issue.code === "custom"
        ? "a value that the tool's own check accepts"
        : "a value that the schema accepts";
  }
}

/** The JSON forms of values that JSON cannot hold, as `convertRefused` accepts them. */
const jsonForms: Readonly<Record<string, string>> = {
  date: 'date and time with its zone, such as "2026-05-01T09:30:00Z", or date',
  bigint: `integer, written as text beyond ${Number.MAX_SAFE_INTEGER}`,
  set: "array",
  map: "array of pairs of key and value",
};

function describeLimit(issue: ZodIssue, minimum: unknown, maximum: unknown): string {
  const origin = String(issue.origin ?? issue.type ?? "value");
  const size = (noun: string) => `${origin}${sizeLimits(asNumber(minimum), asNumber(maximum), noun)}`;
  if (origin === "string") return size("character");
  if (origin === "array" || origin === "set" || origin === "map") return size("item");
  const isInclusive = issue.inclusive !== false;
  const sign = minimum === undefined ? (isInclusive ? "≤" : "<") : isInclusive ? "≥" : ">";
  const limit = minimum ?? maximum;
  if (origin === "date") return `date ${sign} ${new Date(Number(limit)).toISOString()}`;
  return `${origin === "int" || origin === "bigint" ? "integer" : origin} ${sign} ${limit}`;
}

function describeFormat(issue: ZodIssue): string {
  const format = issue.format ?? issue.validation;
  if (format === "regex")
    return issue.pattern === undefined ? "string matching the pattern" : `string matching ${issue.pattern}`;
  if (typeof format === "object" && format !== null) return `string with ${JSON.stringify(format)}`;
  const part = issue.prefix ?? issue.suffix ?? issue.includes;
  if (part !== undefined) return `string with ${String(format).replace("_", " ")} ${JSON.stringify(part)}`;
  return `string in ${format} format`;
}

/** Recognizes Zod's own sentences; any other message is the author's. */
function isStandardMessage(issue: ZodIssue): boolean {
  if (issue.code === "custom" && issue.message !== "Invalid input") return false;
  return /^(Invalid\b|Too (small|big)|Unrecognized|Required$|Expected |(String|Number|Array|Set|Date|BigInt) must |Input not )/.test(
    issue.message,
  );
}

function asNumber(limit: unknown): unknown {
  return typeof limit === "bigint" ? Number(limit) : limit;
}

/**
 * Copies a refused value with dates, big integers, sets and maps made from their JSON forms; undefined when
 * there is nothing to convert. Zod's issues give the exact places, through every wrapper, recursion and
 * alternative. A converted part is never converted again, so repeated parsing ends.
 */
export function convertRefused(issues: readonly ZodIssue[], value: unknown): unknown {
  const found = issues.flatMap((issue) => conversionsIn(issue, []));
  return found.length === 0 ? undefined : editCopy(value, found);

  function conversionsIn(issue: ZodIssue, base: readonly unknown[]): readonly Edit[] {
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
      branch.map((inner) => conversionsIn(inner, fromRoot ? base : path)),
    );
    const fitting = ways.find((way) => way.every((conversions) => conversions.length > 0));
    const meant = likeliestBranch(alternatives, fromRoot ? path.length - base.length : 0);
    return (fitting ?? (meant && ways[alternatives.indexOf(meant)]) ?? []).flat();
  }
}

/**
 * Functions that make a value from its JSON form, by Zod's name of the expected type. Each returns
 * `undefined` for an unsuitable value.
 */
const makers = new Map<unknown, (json: unknown) => unknown>([
  ["date", toDate],
  ["bigint", toBigInt],
  ["set", (json) => (Array.isArray(json) ? new Set(json) : undefined)],
  ["map", toMap],
]);

/**
 * A day, or a time with its zone: without a zone, the same text would mean different times on different
 * machines.
 */
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

/** Refuses a number that JSON has already rounded. */
function toBigInt(json: unknown): bigint | undefined {
  if (typeof json === "number") return Number.isSafeInteger(json) ? BigInt(json) : undefined;
  return typeof json === "string" && /^-?\d{1,1000}$/.test(json) ? BigInt(json) : undefined;
}

function toMap(json: unknown): Map<unknown, unknown> | undefined {
  const isPair = (pair: unknown) => Array.isArray(pair) && pair.length === 2;
  return Array.isArray(json) && json.every(isPair) ? new Map(json) : undefined;
}
