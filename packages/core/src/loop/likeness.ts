import { fullWeight } from "./thresholds.ts";
import type { LoopEntry } from "./types.ts";

interface Call {
  readonly tool: string;
  readonly argsKey: string;
}

/** Compares the arguments first, because they differ most often. */
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
 * The distinct words of the arguments' values, hashed and sorted: enough to compare two calls without revealing the
 * arguments. Keys are left out, since all calls of a tool share them.
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

/** The share of common words among all words of both (Jaccard), from 0 to 1. */
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

/**
 * Patterns for parts that differ between two equal results. Each may also be the point of a result, so it is masked
 * only where that is unlikely: a time near the time of the call, a duration after words such as "took", and nothing in
 * a text without other words.
 */

const uuid = /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi;
const insideUuid = /-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-/;
const requestId = /\breq(?:uest[-_ ]?id["']?(?: ?[:=] ?| )["']?[\w.:-]*\d[\w.:-]*|[_-][0-9a-z]{8,}\b)/gi;
const digit = /\d/;

const masked = "\u0000";

/** Masks what may differ between two equal results: ids, current times, durations, addresses. */
export function maskVolatile(text: string, at: number): string {
  // Everything volatile has a digit, and many results have none.
  if (!digit.test(text)) return text;
  const withoutIds = text.includes("-") && insideUuid.test(text) ? text.replace(uuid, masked) : text;
  const rest = maskNoise(withoutIds, at);
  return rest === text || hasContent(rest) ? rest : text;
}

/** The same without UUIDs: if arguments differ, an id may be the requested one. */
export function maskNoise(text: string, at: number): string {
  const rest = text.includes("q") ? text.replace(requestId, masked) : text;
  const timed = rest.replace(clockOf(at), masked);
  return hasDuration.test(timed) ? timed.replace(measuredDuration, masked) : timed;
}

const millisecondsOfDay = 86_400_000;
let clockDay = Number.NaN;
let clock = /$^/;

/** Matches times and epochs within about a day of the call, times of day at the start of a line, and addresses. */
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

/** Marks of test runners before a line that ends in a duration. In JSON a line ends with an escape. */
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

/** Characters. A longer text certainly has other content than times. */
const longEnough = 400;
const tellingWord =
  /(?<![\p{L}\p{N}])(?!(?:took|elapsed|duration|time|at|in|after)\b)[\p{L}\p{N}]+(?![\p{L}\p{N}]|["']?\s*[:=])/iu;

/** Whether the masked text has more than labels: in `took 3 ms` or `{"now": …}` the masked part is the message. */
function hasContent(rest: string): boolean {
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
 * Whether an error comes from the network or an overloaded service (429, 5xx, connection), by the status or code of it
 * or its causes. Such a failure is not evidence of a loop. Never throws.
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

/** The same for an error of which only the text is known. */
export function tellsOfInfrastructure(text: string): boolean {
  return connectionCodes.some((code) => text.includes(code));
}

function isBusy(status: unknown): boolean {
  return typeof status === "number" && (status === 429 || (status >= 500 && status <= 599));
}
