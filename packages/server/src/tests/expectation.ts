import { compileSchema, SchemaError, type ToolErrorResponse } from "@toolrack/core";
import { isRecord, parsedJson, toStorableText } from "../helpers/index.ts";
import { type Expectation, piecesOf, pointerStep } from "./saved-call.ts";

/** What came of a tested call. */
export interface CallOutcome {
  /** The structured value of the result; without one, its text. */
  readonly value: unknown;
  /** The whole text of the result. */
  readonly text: string;
  readonly error?: ToolErrorResponse | undefined;
}

/** One place in which two values differ. */
export interface Difference {
  /** A JSON pointer; empty for the value itself. For texts of several lines, followed by `line N`. */
  readonly path: string;
  /** Undefined: nothing was expected there. */
  readonly expected?: unknown;
  /** Undefined: there is nothing. */
  readonly actual?: unknown;
}

/** Why a test failed. */
export interface Problem {
  /** The part of the test that does not hold: `status`, `equals`, `calls`, … */
  readonly kind: string;
  readonly message: string;
  readonly differences?: readonly Difference[];
}

/** Checks what came of a call. Empty when everything holds. */
export async function problemsOf(
  expect: Expectation,
  outcome: CallOutcome,
  ignore: readonly string[],
): Promise<Problem[]> {
  const problems: Problem[] = [];
  const { error } = outcome;
  const { code, status = code === undefined ? "completed" : "error" } = expect;
  const actual = error === undefined ? "completed" : "error";
  if (status !== actual) {
    const said = error === undefined ? clipText(outcome.text) : `${error.code}: ${clipText(error.message)}`;
    problems.push({ kind: "status", message: `Expected the status ${status}, got ${actual}: ${said}` });
    // What else was expected is of a call that ended otherwise.
    return problems;
  }
  if (code !== undefined && error?.code !== code)
    problems.push({ kind: "code", message: `Expected the error ${code}, got ${error?.code}.` });
  const compare = (kind: string, expected: unknown) =>
    compared(kind, normalised(expected, ignore), normalised(readFor(expected, outcome.value), ignore));
  if (expect.equals !== undefined) problems.push(...compare("equals", expect.equals));
  if (expect.snapshot === null)
    problems.push({
      kind: "snapshot",
      message: "The snapshot is not written yet. Run the test with --update.",
    });
  else if (expect.snapshot !== undefined) problems.push(...compare("snapshot", expect.snapshot));
  if (expect.contains !== undefined) problems.push(...lacking(expect.contains, outcome, ignore));
  if (expect.matches !== undefined) problems.push(...(await misfits(expect.matches, outcome.value)));
  return problems;
}

/** Many tools return JSON as a text. Where a value is expected, that is read. */
function readFor(expected: unknown, value: unknown): unknown {
  if (typeof expected === "string" || typeof value !== "string") return value;
  return jsonOf(value) ?? value;
}

/** The value of a text that is a JSON object or list. */
export function jsonOf(text: string): unknown {
  return /^\s*[[{]/.test(text) ? parsedJson(text) : undefined;
}

function compared(kind: string, expected: unknown, actual: unknown): Problem[] {
  const differences = differencesOf(expected, actual);
  if (differences.length === 0) return [];
  const [{ path }] = differences as [Difference]; // The caller has found at least one difference.
  const where = path === "" ? "as a whole" : `at ${path}`;
  const more = differences.length === 1 ? "" : ` and ${differences.length - 1} more`;
  return [{ kind, message: `The result differs ${where}${more}.`, differences }];
}

function lacking(wanted: unknown, { text, value: given }: CallOutcome, ignore: readonly string[]): Problem[] {
  const value = normalised(readFor(wanted, given), ignore);
  if (typeof wanted === "string") {
    const inText = normalised(text, ignore);
    const found = [inText, value].some((one) => typeof one === "string" && containsText(one, wanted));
    if (found || (Array.isArray(value) && value.includes(wanted))) return [];
    return [{ kind: "contains", message: `The result does not contain ${show(wanted)}: ${clipText(text)}` }];
  }
  const differences = differencesOf(normalised(wanted, ignore), value, true);
  if (differences.length === 0) return [];
  return [{ kind: "contains", message: "The result lacks what it should contain.", differences }];
}

async function misfits(schema: NonNullable<Expectation["matches"]>, value: unknown): Promise<Problem[]> {
  if (schema === true) return [];
  if (schema === false) return [{ kind: "matches", message: "No result fits the schema false." }];
  try {
    const compiled = compileSchema(schema);
    const outcome = await compiled.validate(value);
    if (outcome.ok) return [];
    const read = typeof value === "string" ? jsonOf(value) : undefined;
    const second = read === undefined ? outcome : await compiled.validate(read);
    return second.ok ? [] : second.issues.map(({ message }) => ({ kind: "matches", message }));
  } catch (thrown) {
    if (!(thrown instanceof SchemaError)) throw thrown;
    return [{ kind: "matches", message: `The schema cannot be used: ${thrown.message}` }];
  }
}

const uuid = /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi;
const callId = /\bcall_[0-9a-z]{12,}_[0-9a-z]+\b/g;
const moment = /\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?/g;
/** Keys whose numbers are times. */
const timeKey =
  /(?:^|_)(?:at|time|date|timestamp|since|until|expires|start|end|now)$|(?:At|Time|Date|Timestamp|Since|Until|Now)$/;

/** Finds what `ignore` calls `ids` and `times` in a text. */
export function idsIn(text: string): string[] {
  return [...(text.match(uuid) ?? []), ...(text.match(callId) ?? [])];
}

export function timesIn(text: string): string[] {
  return text.match(moment) ?? [];
}

/**
 * The value as a record would keep it, with all that is not compared replaced by a word. No record has the character NUL,
 * half of a surrogate pair, or the key `__proto__`.
 */
export function normalised(value: unknown, ignore: readonly string[]): unknown {
  const pointers = ignore.filter((one) => one.startsWith("/")).map((one) => one.slice(1).split("/"));
  const ids = ignore.includes("ids");
  const times = ignore.includes("times");
  const visit = (at: unknown, path: readonly string[], key: string): unknown => {
    if (pointers.some((pointer) => isAt(pointer, path))) return "<ignored>";
    if (typeof at === "string") {
      const kept = toStorableText(at);
      const text = ids ? kept.replace(uuid, "<id>").replace(callId, "<id>") : kept;
      return times ? text.replace(moment, "<time>") : text;
    }
    if (typeof at === "number") return times && isTime(at, key) ? "<time>" : at;
    if (Array.isArray(at)) return at.map((item, index) => visit(item, [...path, String(index)], key));
    if (!isRecord(at)) return at;
    const members = Object.entries(at).filter(([name]) => name !== "__proto__");
    return Object.fromEntries(
      members.map(([name, item]) => [
        toStorableText(name),
        visit(item, [...path, pointerStep(toStorableText(name))], name),
      ]),
    );
  };
  return visit(value, [], "");
}

function isAt(pointer: readonly string[], path: readonly string[]): boolean {
  return (
    pointer.length === path.length && pointer.every((step, index) => step === "*" || step === path[index])
  );
}

/** Seconds or milliseconds since the epoch, between 2001 and 2100, under a key that tells of a time. */
function isTime(value: number, key: string): boolean {
  const isEpoch = (value > 1e9 && value < 4.2e9) || (value > 1e12 && value < 4.2e12);
  return isEpoch && timeKey.test(key);
}

/**
 * The places in which the values differ, in order. A reference to a secret in `expected` stands for any text. `isPart`:
 * `actual` may have more members than `expected`, and its lists more items, in any order.
 */
export function differencesOf(expected: unknown, actual: unknown, isPart = false): Difference[] {
  const found: Difference[] = [];
  compare(expected, actual, "", isPart, found);
  return found;
}

function compare(
  expected: unknown,
  actual: unknown,
  path: string,
  isPart: boolean,
  found: Difference[],
): void {
  if (Object.is(expected, actual)) return;
  if (typeof expected === "string") {
    const pieces = piecesOf(expected);
    if (pieces !== undefined && fitsPieces(pieces, actual)) return;
    if (typeof actual === "string") found.push(...textDifferences(expected, actual, path));
    else found.push({ path, expected, actual });
  } else if (Array.isArray(expected) && Array.isArray(actual)) {
    if (isPart) {
      for (const [index, item] of expected.entries())
        if (!actual.some((one) => differencesOf(item, one, true).length === 0))
          found.push({ path: `${path}/${index}`, expected: item });
      return;
    }
    for (let index = 0; index < Math.max(expected.length, actual.length); index++)
      compareMember(expected, actual, index, path, isPart, found);
  } else if (isRecord(expected) && isRecord(actual)) {
    const others = isPart ? [] : Object.keys(actual).filter((key) => !Object.hasOwn(expected, key));
    for (const key of [...Object.keys(expected), ...others])
      compareMember(expected, actual, key, path, isPart, found);
  } else if (expected !== actual) found.push({ path, expected, actual });
}

function compareMember(
  expected: object,
  actual: object,
  key: string | number,
  path: string,
  isPart: boolean,
  found: Difference[],
): void {
  const here = `${path}/${pointerStep(key)}`;
  const memberOf = (one: object): unknown => (Object.hasOwn(one, key) ? Reflect.get(one, key) : undefined);
  const [wanted, given] = [memberOf(expected), memberOf(actual)];
  if (wanted === undefined && given === undefined) return;
  if (wanted === undefined || given === undefined)
    found.push({ path: here, expected: wanted, actual: given });
  else compare(wanted, given, here, isPart, found);
}

/** A reference that is the whole text stands for a value of any type, because its type may have been hidden too. */
function fitsPieces(pieces: readonly string[], actual: unknown): boolean {
  if (pieces.length === 1) return actual === pieces[0];
  if (typeof actual !== "string") return pieces.length === 2 && pieces.every((piece) => piece === "");
  const [first = "", ...rest] = pieces;
  const last = rest.pop() ?? "";
  if (!actual.startsWith(first) || !actual.endsWith(last)) return false;
  let at = first.length;
  for (const piece of rest) {
    const next = actual.indexOf(piece, at);
    if (next === -1) return false;
    at = next + piece.length;
  }
  return at <= actual.length - last.length;
}

function containsText(text: string, wanted: string): boolean {
  const pieces = piecesOf(wanted);
  return pieces === undefined ? text.includes(wanted) : fitsPieces(["", ...pieces, ""], text);
}

/** For texts of several lines, the first lines that differ. */
function textDifferences(expected: string, actual: string, path: string): Difference[] {
  if (!expected.includes("\n") && !actual.includes("\n")) return [{ path, expected, actual }];
  const [wanted, given] = [expected.split("\n"), actual.split("\n")];
  let top = 0;
  while (top < wanted.length && top < given.length && wanted[top] === given[top]) top++;
  let end = 0;
  while (
    end < Math.min(wanted.length, given.length) - top &&
    wanted[wanted.length - 1 - end] === given[given.length - 1 - end]
  )
    end++;
  const part = (lines: readonly string[]) => lines.slice(top, lines.length - end);
  const [left, right] = [part(wanted), part(given)];
  const shown = (lines: readonly string[]) => (lines.length === 0 ? undefined : lines.join("\n"));
  return [{ path: `${path} line ${top + 1}`.trimStart(), expected: shown(left), actual: shown(right) }];
}

const LONGEST_SHOWN = 300;

/** A value on one line, for people; a long one is cut where it is no longer of interest. */
export function show(value: unknown): string {
  return clipText(JSON.stringify(value) ?? "nothing");
}

export function clipText(text: string, longest = LONGEST_SHOWN): string {
  const line = text.replaceAll("\n", "⏎");
  return line.length > longest ? `${line.slice(0, longest)}… (${text.length} characters)` : line;
}

/**
 * Two values that differ, both cut around the first character that does, so that the difference shows even in texts of
 * many pages.
 */
export function showPair(expected: unknown, actual: unknown): [string, string] {
  const [left, right] = [expected, actual].map((value) =>
    value === undefined ? "nothing" : (JSON.stringify(value) ?? "nothing"),
  ) as [string, string]; // Two in, two out.
  let at = 0;
  while (at < left.length && left[at] === right[at]) at++;
  const start = Math.max(0, at - 60);
  const cut = (text: string) => {
    const end = Math.min(text.length, start + LONGEST_SHOWN);
    return `${start > 0 ? "…" : ""}${text.slice(start, end)}${end < text.length ? "…" : ""}`;
  };
  return [cut(left), cut(right)];
}
