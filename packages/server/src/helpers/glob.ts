import { loadLinearPatterns, type Pattern, toPattern } from "@toolrack/core/internal";
import { reasonOf } from "./values.ts";

const LONGEST_GLOB = 1_000;
/** How many texts one range such as `{1..9}` may stand for. */
const LONGEST_RANGE = 100;

export interface GlobOptions {
  /** Whether `{a,b}` is a choice; in `.gitignore` it is not. */
  readonly braces?: boolean;
  readonly ignoreCase?: boolean;
  /** A regular expression that matches what may come before the glob. */
  readonly before?: string;
}

/**
 * Compiles a glob that a caller wrote, for matching paths: `*`, `?`, `[a-z]`, `[!a-z]`, `**` between slashes,
 * `{a,b}` and `{1..9}`. A choice is matched in linear time and never expanded. A dot at the start of a name
 * is not special. Throws for a glob that is too long or invalid.
 */
export async function compileGlob(glob: string, options: GlobOptions = {}): Promise<Pattern> {
  await loadLinearPatterns();
  return globPattern(glob, options);
}

/** Like `compileGlob`, but `loadLinearPatterns` must have been awaited before. */
export function globPattern(glob: string, options: GlobOptions = {}): Pattern {
  if (glob.length > LONGEST_GLOB)
    throw new Error(
      `The glob "${glob.slice(0, 40)}…" has ${glob.length} characters, at most ${LONGEST_GLOB} are read. Write a shorter one.`,
    );
  try {
    const source = `^${options.before ?? ""}${sourceOf(glob, options)}$`;
    return toPattern(source, options.ignoreCase === true ? "is" : "s");
  } catch (thrown) {
    const reason = reasonOf(thrown);
    throw new Error(`"${glob}" is no glob: ${reason}`, { cause: thrown });
  }
}

function sourceOf(glob: string, { braces = true }: GlobOptions): string {
  const choices = braces ? choicesIn(glob) : new Map<number, string>();
  let source = "";
  for (let at = 0; at < glob.length; at++) {
    const sign = glob[at]!;
    const choice = choices.get(at);
    if (choice !== undefined) {
      source += choice;
      if (choice.startsWith("(?:") && choice !== "(?:") at = glob.indexOf("}", at);
    } else if (sign === "\\" && at + 1 < glob.length) source += literal(glob[++at]!);
    else if (sign === "?") source += "[^/]";
    else if (sign === "*") {
      const [matched, end] = starsAt(glob, at);
      source += matched;
      at = end - 1;
    } else {
      const [matched, end] = sign === "[" ? classAt(glob, at) : [literal(sign), at + 1];
      source += matched;
      at = end - 1;
    }
  }
  return source;
}

/** `**` as a whole path segment matches any number of folders; any other run of stars is one star. */
function starsAt(glob: string, at: number): [source: string, end: number] {
  let end = at;
  while (glob[end] === "*") end++;
  const isName =
    (at === 0 || "/{,".includes(glob[at - 1]!)) && (end === glob.length || "/},".includes(glob[end]!));
  if (end - at < 2 || !isName) return ["[^/]*", end];
  return glob[end] === "/" ? ["(?:.*/)?", end + 1] : [".*", end];
}

/** A character class. A bracket that is never closed is literal. */
function classAt(glob: string, at: number): [source: string, end: number] {
  const isNegated = glob[at + 1] === "!" || glob[at + 1] === "^";
  const start = at + (isNegated ? 2 : 1);
  // A closing bracket in the first place belongs to the class.
  const end = glob.indexOf("]", start + 1);
  if (end === -1) return [literal("["), at + 1];
  const signs = [...glob.slice(start, end).replaceAll("\\", "")]
    .map((sign) => (sign === "-" ? sign : literal(sign)))
    .join("");
  return [isNegated ? `[^${signs}/]` : `[${signs}]`, end + 1];
}

/**
 * The positions of the signs of `{a,b}`, and the regular expression for each. Braces without a comma or range are
 * literal.
 */
function choicesIn(glob: string): Map<number, string> {
  const choices = new Map<number, string>();
  const open: { at: number; commas: number[] }[] = [];
  for (let at = 0; at < glob.length; at++) {
    const sign = glob[at];
    if (sign === "\\") at++;
    else if (sign === "{") open.push({ at, commas: [] });
    else if (sign === ",") open.at(-1)?.commas.push(at);
    else if (sign === "}") {
      const group = open.pop();
      if (group === undefined) continue;
      if (group.commas.length > 0) {
        choices.set(group.at, "(?:");
        choices.set(at, ")");
        for (const comma of group.commas) choices.set(comma, "|");
      } else {
        const range = rangeOf(glob.slice(group.at + 1, at));
        if (range !== undefined) choices.set(group.at, range);
      }
    }
  }
  return choices;
}

function rangeOf(text: string): string | undefined {
  const [, first, last] = /^(-?\d{1,9})\.\.(-?\d{1,9})$/.exec(text) ?? [];
  const [, from, to] = /^([a-z])\.\.([a-z])$/i.exec(text) ?? [];
  if (from !== undefined && to !== undefined) return `(?:[${from < to ? `${from}-${to}` : `${to}-${from}`}])`;
  if (first === undefined) return undefined;
  const [low, high] = [Math.min(Number(first), Number(last)), Math.max(Number(first), Number(last))];
  if (high - low >= LONGEST_RANGE)
    throw new Error(`{${text}} stands for more than ${LONGEST_RANGE} texts. Use * or a shorter range.`);
  return `(?:${Array.from({ length: high - low + 1 }, (_, index) => low + index).join("|")})`;
}

function literal(sign: string): string {
  return sign.replace(/[\\^$.*+?()[\]{}|/]/, "\\$&");
}
