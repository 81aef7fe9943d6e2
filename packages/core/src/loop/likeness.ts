import { fullWeight } from "./thresholds.ts";
import type { LoopEntry } from "./types.ts";

interface Call {
  readonly tool: string;
  readonly argsKey: string;
}

/** The arguments are compared first: they nearly always differ, the tool often does not. */
export function isSameCall(one: Call, other: Call): boolean {
  return one.argsKey === other.argsKey && one.tool === other.tool;
}

export function isSameOutcome(one: LoopEntry, other: LoopEntry): boolean {
  return one.argsKey === other.argsKey && one.resultKey === other.resultKey && one.tool === other.tool;
}

/** A round is one decision of the model. A call without a round is a decision of its own. */
export function isSameRound(one: { readonly round?: string }, other: { readonly round?: string }): boolean {
  return one.round !== undefined && one.round === other.round;
}

/** Quarters that an entry adds to a count. */
export function weightOf(entry: LoopEntry): number {
  return entry.waiting ? 1 : fullWeight;
}

const longestText = 8192;
const mostTokens = 128;
const deepest = 8;

/**
 * The distinct words of the arguments' values, hashed and in ascending order: enough to compare two calls, and
 * nothing of the arguments can be read back from it. Keys are left out, since all calls of a tool share them.
 */
export function argumentTokens(args: unknown): readonly number[] {
  const tokens = new Set<number>();
  let budget = longestText;
  collect(args, 0);
  return Array.from(tokens).sort((one, other) => one - other);

  function collect(value: unknown, depth: number): void {
    if (budget <= 0 || tokens.size >= mostTokens || depth > deepest) return;
    if (typeof value === "object" && value !== null) {
      for (const child of Object.values(value)) collect(child, depth + 1);
      return;
    }
    const text = String(value).slice(0, budget).toLowerCase();
    budget -= text.length;
    for (const [word] of text.matchAll(/[\p{L}\p{N}]+/gu)) {
      if (tokens.size >= mostTokens) return;
      tokens.add(hashWord(word));
    }
  }
}

/** The share of words that both have, of all the words that either has (Jaccard), from 0 to 1. */
export function similarity(one: readonly number[], other: readonly number[]): number {
  let common = 0;
  let left = 0;
  let right = 0;
  while (left < one.length && right < other.length) {
    const difference = one[left]! - other[right]!;
    if (difference === 0) common++;
    if (difference <= 0) left++;
    if (difference >= 0) right++;
  }
  const all = one.length + other.length - common;
  return all === 0 ? 1 : common / all;
}

function hashWord(word: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < word.length; index++) {
    hash = Math.imul(hash ^ word.charCodeAt(index), 0x01000193);
  }
  return hash >>> 0;
}

/*
 * What differs between two runs that found the same. Everything here is also something that a result may be
 * about, so each is masked only where it can hardly be the message: a time when it is about the time of the
 * call, a duration when the text says that something took so long, and nothing in a text that says nothing else.
 */

const uuid = /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi;
const insideUuid = /-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-/;
const requestId = /\breq(?:uest[-_ ]?id["']?(?: ?[:=] ?| )["']?[\w.:-]*\d[\w.:-]*|[_-][0-9a-z]{8,}\b)/gi;
const digit = /\d/;

const masked = "\u0000";

/** The text without what two equal results may differ in: ids, times of now, durations, addresses. */
export function maskVolatile(text: string, at: number): string {
  // Everything volatile has a digit, and many results have none.
  if (!digit.test(text)) return text;
  const withoutIds = text.includes("-") && insideUuid.test(text) ? text.replace(uuid, masked) : text;
  const rest = maskNoise(withoutIds, at);
  return rest === text || saysSomething(rest) ? rest : text;
}

/** The same with UUIDs left in: where arguments differ, an id may be what was asked for. */
export function maskNoise(text: string, at: number): string {
  const rest = text.includes("q") ? text.replace(requestId, masked) : text;
  const timed = rest.replace(clockOf(at), masked);
  return hasDuration.test(timed) ? timed.replace(measuredDuration, masked) : timed;
}

const millisecondsOfDay = 86_400_000;
let clockDay = Number.NaN;
let clock = /$^/;

/** Times and epochs that lie within about a day of the call, times of day that begin a line, and addresses. */
function clockOf(at: number): RegExp {
  const day = Math.floor(at / millisecondsOfDay);
  if (day === clockDay) return clock;
  clock = new RegExp(
    // A time may follow the escape of a line break when the text is JSON.
    `(?:\\b|(?<=\\\\[nt]))(?:${[
      String.raw`(?:${datesAround(day)})[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|[+-]\d\d:?\d\d))?`,
      String.raw`(?:${epochsAround(day)})\d{5}(?:\d{3}|\.\d+)?\b`,
      String.raw`0x[0-9a-fA-F]{6,16}\b`,
      String.raw`(?<=^|\\n|[[(]|\bat )\d\d:\d\d:\d\d(?:[.,]\d+)?\b(?! ?(?:left|remaining|to go))`,
    ].join("|")})`,
    "gm",
  );
  clockDay = day;
  return clock;
}

function datesAround(day: number): string {
  return [day - 1, day, day + 1]
    .map((near) => new Date(near * millisecondsOfDay).toISOString().slice(0, 10))
    .join("|");
}

/** All but the last five digits of the seconds since the epoch. */
function epochsAround(day: number): string {
  const step = 100_000;
  const first = Math.floor(((day - 1) * 86_400) / step);
  const last = Math.floor(((day + 2) * 86_400) / step);
  return Array.from({ length: last - first + 1 }, (_, index) => first + index).join("|");
}

const duration = String.raw`(?:\d+ ?h ?)?(?:\d+ ?m ?)?\d+(?:\.\d+)? ?(?:[nuµμm]?s|m?secs?|(?:milli)?seconds?|min(?:ute)?s?)\b`;
const hasDuration = /\d ?[smnuµμ]/;

/** "took 3s", "done in 3s", "failed after 3s", "duration: 3s". Not "ready in 3s" or "retry after 3s". */
const measure = [
  "took",
  "elapsed",
  "duration",
  "spent",
  "real",
  "(?<!left |remaining )time",
  "(?:done|complete|built|ran|(?!schedul|expect|plann|estimat|need|delay)[a-z]{2,20}ed|timed out|timeout) (?:in|after)",
  "(?:packages|modules|files|tests|rows|items|results|records|hits|matches|changes|requests|entries|errors) in",
].join("|");

/** Marks with which test runners begin a line that ends in a duration. In JSON a line ends with an escape. */
const verdictOfTest = String.raw`(?:^|\\n|")[ \t]*(?:✓|✔|√|✗|✘|×|❯|ok\b|not ok\b|pass\b|fail\b)`;

const measuredDuration = new RegExp(
  [
    String.raw`(?<=\b(?:${measure})["']?[:=]?\s{0,12}["']?)\b${duration}`,
    String.raw`(?<=[([])${duration}(?=[)\]])`,
    String.raw`\b${duration}(?= elapsed)`,
    String.raw`(?<=\s|\\t)${duration}(?=$|\\n)(?<=${verdictOfTest}[^\n]{1,300})`,
  ].join("|"),
  "gim",
);

/** A text this long says more than how late it is. Characters. */
const longEnough = 400;
const tellingWord =
  /(?<![\p{L}\p{N}])(?!(?:took|elapsed|duration|time|at|in|after)\b)[\p{L}\p{N}]+(?![\p{L}\p{N}]|["']?\s*[:=])/iu;

/** Whether anything is left but labels: of `took 3 ms` or `{"now": …}` what was masked is the message. */
function saysSomething(rest: string): boolean {
  return rest.length > longEnough || tellingWord.test(rest);
}

const connectionCodes = [
  "ECONNREFUSED",
  "ECONNRESET",
  "ECONNABORTED",
  "EAI_AGAIN",
  "ENETDOWN",
  "ENETUNREACH",
  "EHOSTDOWN",
  "EHOSTUNREACH",
  "ENOTFOUND",
  "EPIPE",
  "ETIMEDOUT",
  "UND_ERR_CONNECT_TIMEOUT",
  "UND_ERR_HEADERS_TIMEOUT",
  "UND_ERR_BODY_TIMEOUT",
  "UND_ERR_SOCKET",
];
const isConnectionCode: ReadonlySet<unknown> = new Set(connectionCodes);

const deepestCause = 8;

/**
 * Whether something thrown comes from the network or from a service in trouble (429, 5xx, connection), by the
 * status or code that it or one of its causes carries. Such a failure is no evidence of a loop. Never throws.
 */
export function isInfrastructureFailure(thrown: unknown): boolean {
  try {
    let current = thrown;
    for (let depth = 0; depth < deepestCause; depth++) {
      if (typeof current !== "object" || current === null) return false;
      // Anything may be thrown, so its properties are read as unknown and checked one by one.
      const error = current as Record<string, unknown>;
      if (isBusy(error.status) || isBusy(error.statusCode) || isBusy(error.code)) return true;
      if (isConnectionCode.has(error.code)) return true;
      current = error.cause;
    }
    return false;
  } catch {
    return false;
  }
}

/** The same of an error of which only the text was kept. */
export function tellsOfInfrastructure(text: string): boolean {
  return connectionCodes.some((code) => text.includes(code));
}

function isBusy(status: unknown): boolean {
  return typeof status === "number" && (status === 429 || (status >= 500 && status <= 599));
}
