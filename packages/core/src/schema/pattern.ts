import type { RE2JS } from "re2js";

/** The part of `RegExp` that patterns from outside need. */
export interface Pattern {
  test(text: string): boolean;
}

/** Compiles with Unicode rules, or without them if they forbid the pattern. */
export function toRegExp(pattern: string, flags = ""): RegExp {
  const stateless = flags.replace(/[gyuv]/g, "");
  try {
    return new RegExp(pattern, `${stateless}u`);
  } catch {
    return new RegExp(pattern, stateless);
  }
}

let linear: typeof RE2JS | undefined;

/** Loads the linear-time engine. It takes some 30 ms, so only schemas that need it do this. */
export async function loadLinearPatterns(): Promise<void> {
  linear ??= (await import("re2js")).RE2JS;
}

export function areLinearPatternsLoaded(): boolean {
  return linear !== undefined;
}

/** Whether backtracking could take long for some text, so that the linear engine is needed. */
export function isRiskyPattern(source: string): boolean {
  return longestFor(source) < Number.POSITIVE_INFINITY;
}

/**
 * Compiles a pattern from a caller, a schema or an upstream so that matching can never block the process. Short texts
 * are matched by the platform, longer ones in linear time, once `loadLinearPatterns` has been awaited. `flags` as in
 * `RegExp`; `g` and `y` do nothing. Throws `SyntaxError`.
 */
export function toPattern(source: string, flags = ""): Pattern {
  const platform = toRegExp(source, flags);
  const longest = longestFor(source);
  if (longest === Number.POSITIVE_INFINITY) return platform;
  let careful: Pattern | undefined;
  return {
    test(text) {
      if (text.length <= longest) return platform.test(text);
      careful ??= carefulPattern(source, flags);
      return careful.test(text);
    },
  };
}

/** Steps allowed on the platform's engine: some hundredths of a second at worst. */
const MOST_STEPS = 3_000_000;
/** A pattern with so few steps per character of a long text is linear. */
const LONG = 1_000_000;
const MOST_STEPS_FOR_EACH = 20;
const lengths = [2_000, 1_000, 500, 300, 200, 150, 100, 75, 50, 35, 25, 16, 12, 8, 6, 4, 2];

/** The longest text that can be matched by backtracking without delay. */
function longestFor(source: string): number {
  if (mostSteps(source, LONG) <= LONG * MOST_STEPS_FOR_EACH) return Number.POSITIVE_INFINITY;
  return lengths.find((length) => mostSteps(source, length) <= MOST_STEPS) ?? 0;
}

/** Compiling a longer pattern can itself take long. */
const LONGEST_SOURCE = 3_000;

/** Lookaround and back-references have no linear form: a text that is too long for the platform does not match. */
function carefulPattern(source: string, flags: string): Pattern {
  try {
    if (linear === undefined || source.length > LONGEST_SOURCE) throw new Error("no linear form");
    const options =
      (flags.includes("i") ? linear.CASE_INSENSITIVE : 0) |
      (flags.includes("m") ? linear.MULTILINE : 0) |
      (flags.includes("s") ? linear.DOTALL : 0);
    const compiled = linear.compile(linear.translateRegExp(withWideBlanks(source)), options);
    return { test: (text) => compiled.matcher(text).find() };
  } catch {
    return { test: () => false };
  }
}

const BLANKS = "\\t\\n\\v\\f\\r \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff";

/** The linear engine's `\s` covers ASCII only. */
function withWideBlanks(source: string): string {
  let isInClass = false;
  return source.replace(/\\[sS]|\\.|[[\]]/gs, (sign) => {
    if (sign === "[") isInClass = true;
    if (sign === "]") isInClass = false;
    if (sign === "\\s") return isInClass ? BLANKS : `[${BLANKS}]`;
    return sign === "\\S" && !isInClass ? `[^${BLANKS}]` : sign;
  });
}

/**
 * An upper bound of the backtracking steps for any text of this length: the number of ways through the pattern, times
 * the cost of each. Expects a valid regular expression. Never too low.
 */
function mostSteps(source: string, length: number): number {
  const groups: Group[] = [new Group(false)];
  for (let at = 0; at < source.length; at++) {
    const group = groups.at(-1)!;
    const sign = source[at]!;
    const repetition = repetitionAt(source, at);
    if (repetition !== undefined) {
      group.repeatLast(repetition, length);
      at = repetition.end - 1;
    } else if (sign === "(") {
      const { isLook, end } = headAt(source, at);
      groups.push(new Group(isLook));
      at = end - 1;
    } else if (sign === ")" && groups.length > 1) {
      groups.pop();
      groups.at(-1)!.add(group.close());
    } else if (sign === "|") group.beginBranch();
    else {
      // A back-reference compares as much text as its group matched.
      const isReference = sign === "\\" && /[1-9k]/.test(source[at + 1] ?? "");
      group.add({ ways: 1, cost: isReference ? length + 1 : 1 });
      if (sign === "\\") at++;
      else if (sign === "[") at = endOfClass(source, at);
    }
  }
  const whole = groups[0]!;
  const isAnchored = source.startsWith("^") && !whole.hasChoice;
  const { ways, cost } = whole.close();
  return ways * cost * (isAnchored ? 1 : length + 1);
}

interface Part {
  /** The number of ways to match at one place. */
  readonly ways: number;
  /** The steps that one way takes. */
  readonly cost: number;
}

interface Repetition {
  readonly least: number;
  readonly most: number;
  readonly end: number;
}

const nothing: Part = { ways: 1, cost: 0 };

/** A group that is being read, or the whole pattern. */
class Group {
  readonly #isLook: boolean;
  hasChoice = false;
  #before: Part = { ways: 0, cost: 0 };
  #branch = nothing;
  #last = nothing;

  constructor(isLook: boolean) {
    this.#isLook = isLook;
  }

  add(part: Part): void {
    this.#branch = inSequence(this.#branch, this.#last);
    this.#last = part;
  }

  repeatLast({ least, most }: Repetition, length: number): void {
    const { ways, cost } = this.#last;
    const [fewest, highest] = [Math.min(least, length), Math.min(most, length)];
    const times = Math.max(1, highest - fewest + 1);
    this.#last = {
      ways: ways === 1 ? times : ways ** Math.max(fewest, highest) * Math.min(times, 2),
      cost: cost * Math.max(1, fewest),
    };
  }

  beginBranch(): void {
    this.hasChoice = true;
    this.#before = this.#total();
    this.#branch = nothing;
    this.#last = nothing;
  }

  close(): Part {
    const { ways, cost } = this.#total();
    // Lookaround tries its own ways once, and offers one way to what follows.
    return this.#isLook ? { ways: 1, cost: ways * cost } : { ways, cost };
  }

  #total(): Part {
    const branch = inSequence(this.#branch, this.#last);
    return { ways: this.#before.ways + branch.ways, cost: this.#before.cost + branch.cost + 1 };
  }
}

function inSequence(one: Part, other: Part): Part {
  return { ways: one.ways * other.ways, cost: one.cost + other.cost };
}

/** `*`, `+`, `?`, `{2}`, `{2,}` and `{2,5}`, each also lazy. */
function repetitionAt(source: string, at: number): Repetition | undefined {
  const sign = source[at];
  if (sign !== "*" && sign !== "+" && sign !== "?" && sign !== "{") return undefined;
  const form = /[*+?]\??|\{(\d+)(?:(,)(\d*))?\}\??/y;
  form.lastIndex = at;
  const found = form.exec(source);
  if (found === null) return undefined;
  const end = form.lastIndex;
  const [, least, comma, most] = found;
  if (least === undefined)
    return { least: sign === "+" ? 1 : 0, most: sign === "?" ? 1 : Number.POSITIVE_INFINITY, end };
  if (comma === undefined) return { least: Number(least), most: Number(least), end };
  return { least: Number(least), most: most === "" ? Number.POSITIVE_INFINITY : Number(most), end };
}

/** What a group begins with, such as `(?:`, `(?=` or `(?<name>`. */
function headAt(source: string, at: number): { isLook: boolean; end: number } {
  const form = /\((?:\?(?:(<?[=!])|<[^>]*>|[a-z-]*:))?/y;
  form.lastIndex = at;
  const found = form.exec(source);
  return { isLook: found?.[1] !== undefined, end: form.lastIndex };
}

function endOfClass(source: string, start: number): number {
  let at = start + 1;
  while (at < source.length && source[at] !== "]") at += source[at] === "\\" ? 2 : 1;
  return at;
}
