import type { RE2JS } from "re2js";

/** The only part of `RegExp` that is used with patterns from callers, schemas and upstreams. */
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

/**
 * Loads the linear-time engine. Loading takes some 30 ms, so it is done only when a schema needs the engine.
 */
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
 * Compiles a pattern from a caller, a schema or an upstream so that matching can never block the process.
 * Short texts are matched by the platform's engine. Long texts are matched by the linear engine, and never
 * match if `loadLinearPatterns` has not been awaited. `flags` as in `RegExp`; `g` and `y` do nothing. Throws
 * `SyntaxError`.
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
/**
 * A pattern counts as linear if a text of `LONG` characters needs at most `MOST_STEPS_FOR_EACH` steps per
 * character.
 */
const LONG = 1_000_000;
const MOST_STEPS_FOR_EACH = 20;
const lengths = [2_000, 1_000, 500, 300, 200, 150, 100, 75, 50, 35, 25, 16, 12, 8, 6, 4, 2];

/**
 * The length of the longest text that can be matched by backtracking without delay; infinite for a linear
 * pattern.
 */
function longestFor(source: string): number {
  if (mostSteps(source, LONG) <= LONG * MOST_STEPS_FOR_EACH) return Number.POSITIVE_INFINITY;
  return lengths.find((length) => mostSteps(source, length) <= MOST_STEPS) ?? 0;
}

/** Compiling a longer pattern can itself take long. */
const LONGEST_SOURCE = 3_000;

/**
 * Compiles the pattern for the linear engine. Lookaround and back-references have no linear form: with them,
 * a text that is too long for the platform's engine does not match.
 */
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

/** Replaces `\s` and `\S`, because those of the linear engine cover ASCII only. */
function withWideBlanks(source: string): string {
  let isInClass = false;
  return source.replace(/\\[sS]|\\.|[[\]]/gs, (sign) => {
    if (sign === "[") isInClass = true;
    if (sign === "]") isInClass = false;
    if (sign === "\\s") return isInClass ? BLANKS : `[${BLANKS}]`;
    return sign === "\\S" && !isInClass ? `[^${BLANKS}]` : sign;
  });
}

interface Part {
  /** In how many ways this part of the pattern can match at one place of the text. */
  readonly ways: number;
  /** How many steps each of these ways takes. */
  readonly cost: number;
}

/**
 * An upper bound of the backtracking steps for any text of this length: the number of ways through the pattern, times
 * the cost of each. Expects a valid regular expression. Never too low.
 */
function mostSteps(source: string, length: number): number {
  let at = 0;
  const read = (form: RegExp) => {
    form.lastIndex = at;
    const found = form.exec(source);
    if (found !== null) at = form.lastIndex;
    return found;
  };
  let whole = sequence();
  const isAnchored = source.startsWith("^") && at === source.length;
  while (at < source.length) whole = withBranch(whole);
  return whole.ways * whole.cost * (isAnchored ? 1 : length + 1);

  function withBranch(before: Part): Part {
    at++;
    const branch = sequence();
    return { ways: before.ways + branch.ways, cost: before.cost + branch.cost };
  }

  function sequence(): Part {
    let whole: Part = { ways: 1, cost: 1 };
    while (at < source.length && source[at] !== "|" && source[at] !== ")") {
      const part = repeated(atom());
      whole = { ways: whole.ways * part.ways, cost: whole.cost + part.cost };
    }
    return whole;
  }

  /** Reads a group, a class of characters, an escaped character, or any other character. */
  function atom(): Part {
    const head = read(/\((?:\?(?:(<?[=!])|<[^>]*>|[a-z-]*:))?/y);
    if (head === null) {
      const sign = read(/\[(?:\\.|[^\]\\])*\]?|\\.|./sy)?.[0] ?? "";
      // A back-reference compares as much text as its group matched.
      return { ways: 1, cost: /^\\[1-9k]/.test(sign) ? length + 1 : 1 };
    }
    let group = sequence();
    while (source[at] === "|") group = withBranch(group);
    at++;
    // A lookaround tries all ways inside it once. The engine does not come back to it, so what follows sees one
    // way.
    return head[1] === undefined ? group : { ways: 1, cost: group.ways * group.cost };
  }

  /** Applies `*`, `+`, `?`, `{2}`, `{2,}` or `{2,5}`, each also lazy. */
  function repeated({ ways, cost }: Part): Part {
    const found = read(/([*+?]|\{(\d+)(,?)(\d*)\})\??/y);
    if (found === null) return { ways, cost };
    const [, sign, from, comma, to] = found;
    const endless = sign === "*" || sign === "+" || (comma === "," && to === "");
    const least = from === undefined ? (sign === "+" ? 1 : 0) : Number(from);
    const most = endless ? length : sign === "?" ? 1 : Number(to || from);
    const [fewest, highest] = [Math.min(least, length), Math.min(most, length)];
    const times = Math.max(1, highest - fewest + 1);
    return {
      ways: ways === 1 ? times : ways ** Math.max(fewest, highest) * Math.min(times, 2),
      cost: cost * Math.max(1, fewest),
    };
  }
}
