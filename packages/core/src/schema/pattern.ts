import type { RE2JS } from "re2js";
import { toRegExp } from "./json-schema-keywords.ts";

/** As much of a `RegExp` as schemas need. */
export interface Pattern {
  test(text: string): boolean;
}

let linear: typeof RE2JS | undefined;

/** Loads what matches any pattern in time linear in the text. It takes some 30 ms, so only schemas that need it do. */
export async function loadLinearPatterns(): Promise<void> {
  linear ??= (await import("re2js")).RE2JS;
}

export function areLinearPatternsLoaded(): boolean {
  return linear !== undefined;
}

/** Whether matching it by backtracking could take long for some text. */
export function isRiskyPattern(source: string): boolean {
  const { repetitions, isSteep, isAnchored } = patternShape(source);
  return isSteep || repetitions > 1 || (repetitions === 1 && !isAnchored);
}

/**
 * A pattern of a schema, which may come from anywhere: whatever the pattern and the text, matching it cannot hold up
 * the process. Texts that are short enough for the pattern are matched by the platform, the others in linear time.
 */
export function toPattern(source: string): Pattern {
  const platform = toRegExp(source);
  if (!isRiskyPattern(source)) return platform;
  const longest = longestFor(patternShape(source));
  let careful: Pattern | undefined;
  return {
    test(text) {
      if (text.length <= longest) return platform.test(text);
      careful ??= carefulPattern(source, platform, longest);
      return careful.test(text);
    },
  };
}

/** The work grows with the text to the power of the repetitions, and once more where matching can begin anywhere. */
const byRepetitions = [Number.POSITIVE_INFINITY, 4_000, 300, 80, 40];
const STEEPEST = 16;

function longestFor({ repetitions, isSteep, isAnchored }: PatternShape): number {
  if (isSteep) return STEEPEST;
  return byRepetitions[isAnchored ? repetitions - 1 : repetitions] ?? STEEPEST;
}

/**
 * Looking around and back-references have no linear form. Such a pattern is matched by the platform a little further,
 * and a longer text counts as one that does not fit.
 */
function carefulPattern(source: string, platform: RegExp, longest: number): Pattern {
  try {
    if (linear === undefined) throw new Error("not loaded");
    const compiled = linear.compile(linear.translateRegExp(withWideBlanks(source)));
    return { test: (text) => compiled.matcher(text).find() };
  } catch {
    return { test: (text) => text.length <= longest * 2 && platform.test(text) };
  }
}

const BLANKS = "\\t\\n\\v\\f\\r \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff";

/** The linear engine's `\s` is that of ASCII. */
function withWideBlanks(source: string): string {
  let isInClass = false;
  return source.replace(/\\[sS]|\\.|[[\]]/gs, (sign) => {
    if (sign === "[") isInClass = true;
    if (sign === "]") isInClass = false;
    if (sign === "\\s") return isInClass ? BLANKS : `[${BLANKS}]`;
    return sign === "\\S" && !isInClass ? `[^${BLANKS}]` : sign;
  });
}

/** How much work a backtracking matcher may do for a pattern. */
interface PatternShape {
  /** Repetitions without a bound, or with a high one. */
  readonly repetitions: number;
  /** A repetition of something that can itself be matched in many ways: the work may double with every character. */
  readonly isSteep: boolean;
  /** Can begin to match at the start of the text only. */
  readonly isAnchored: boolean;
}

interface Group {
  repetitions: number;
  hasChoice: boolean;
}

const HIGH_BOUND = 20;

/** Reads a regular expression that is known to be one, without matching anything. */
function patternShape(source: string): PatternShape {
  const groups: Group[] = [{ repetitions: 0, hasChoice: false }];
  let isSteep = false;
  let closed: Group | undefined;
  for (let at = 0; at < source.length; at++) {
    const sign = source[at]!;
    const inner = closed;
    closed = undefined;
    if (sign === "\\") at++;
    else if (sign === "[") at = endOfClass(source, at);
    else if (sign === "(") groups.push({ repetitions: 0, hasChoice: false });
    else if (sign === ")" && groups.length > 1) closed = closeGroup(groups);
    else if (sign === "|") groups.at(-1)!.hasChoice = true;
    else if (sign === "*" || sign === "+" || (sign === "{" && isHigh(source.slice(at)))) {
      groups.at(-1)!.repetitions++;
      if (inner !== undefined && (inner.repetitions > 0 || inner.hasChoice)) isSteep = true;
    }
  }
  const [whole] = groups;
  return {
    repetitions: whole!.repetitions,
    isSteep,
    isAnchored: source.startsWith("^") && !whole!.hasChoice,
  };
}

function closeGroup(groups: Group[]): Group {
  const group = groups.pop()!;
  const outer = groups.at(-1)!;
  outer.repetitions += group.repetitions;
  return group;
}

function endOfClass(source: string, start: number): number {
  let at = start + 1;
  while (at < source.length && source[at] !== "]") at += source[at] === "\\" ? 2 : 1;
  return at;
}

/** `{3,}`, or a bound so high that it comes to the same. */
function isHigh(rest: string): boolean {
  const [, least = "0", comma, most = ""] = /^\{(\d+)(,)?(\d*)\}/.exec(rest) ?? [];
  if (comma === undefined) return Number(least) >= HIGH_BOUND;
  return most === "" || Number(most) >= HIGH_BOUND;
}
