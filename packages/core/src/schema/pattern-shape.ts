/** How much work a backtracking matcher may do for a pattern. */
export interface PatternShape {
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
export function patternShape(source: string): PatternShape {
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
