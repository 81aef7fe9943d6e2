import { hashText, hashValue } from "../schema/hash.ts";
import { safeJson } from "../schema/json.ts";
import type { RawResult } from "../tool/result.ts";

type Parts = Pick<RawResult, "content" | "type" | "attachments" | "structured" | "blocks" | "structuredText">;

/**
 * The keys of a whole result, including pictures and the structured value. An error's `exactKey` is that of its text
 * only.
 */
export function resultKeys(result: Parts, at: number): ResultKeys {
  return finish(resultKeySteps(result, at));
}

/** Like `resultKeys`, in steps of a few milliseconds. */
export function* resultKeySteps(result: Parts, at: number): Generator<void, ResultKeys> {
  const isError = result.type === "error";
  const text = yield* textKeySteps(result.content, at, isError);
  const others = partsBeyondText(result);
  if (others === undefined) return text;
  const beyond = yield* textKeySteps(others, at, isError);
  return {
    resultKey: hashText(`${text.resultKey} ${beyond.resultKey}`),
    exactKey: isError ? text.exactKey : hashText(`${text.exactKey} ${beyond.exactKey}`),
  };
}

/** Keys of a large result that hardly cost anything: of its size and of both ends of its text. */
export function roughKeys({ content, type, structuredText = "" }: Parts, at: number): ResultKeys {
  const ends = content.slice(0, maskedEnd) + content.slice(-maskedEnd);
  return textKeys(`${content.length} ${structuredText.length}\n${ends}`, at, type === "error");
}

/**
 * A quick test whether the result has more than its text; a text that looks like JSON is assumed to be the
 * structured value. `resultKeys` compares the two.
 */
export function showsBeyondText({ content, type, attachments, structured, blocks }: Parts): boolean {
  if (attachments !== undefined || blocks !== undefined) return true;
  if (structured === undefined) return false;
  if (type !== "json") return true;
  return typeof structured === "object" && content[0] !== "{" && content[0] !== "[" && content !== "null";
}

/** The parts of the result besides its text, as one text in which times and ids can be masked. */
function partsBeyondText({
  content,
  type,
  attachments,
  structured,
  structuredText,
  blocks,
}: Parts): string | undefined {
  if (attachments === undefined && structured === undefined && blocks === undefined) return undefined;
  const parts: string[] = [];
  // A long text is not compared with its own value once more.
  const isText = type === "json" && content.length > slice;
  const text =
    structured === undefined ? content : (structuredText ?? (isText ? content : safeJson(structured).text));
  if (text !== content) parts.push(text);
  for (const { mime, filename, url } of attachments ?? []) {
    parts.push(`${mime} ${filename} ${url.startsWith("data:") ? hashText(url) : url}`);
  }
  const media = blocks?.filter((block) => block?.type !== "text") ?? [];
  if (media.length > 0) parts.push(hashValue(media));
  return parts.length === 0 ? undefined : parts.join("\n");
}

/** Two results are compared by these keys. */
export interface ResultKeys {
  /** Equal for equal results of calls with equal arguments. */
  readonly resultKey: string;
  /**
   * Equal for equal results of calls with different arguments. In errors, request ids, times and durations are masked;
   * in other results nothing.
   */
  readonly exactKey: string;
}

/** Characters at each end of a long text in which volatile parts are masked. */
const maskedEnd = 32_768;

/** Characters that are hashed in one step: about two milliseconds. */
const slice = 1_048_576;

function finish<Value>(steps: Generator<void, Value>): Value {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** How far a cut may move to fall on a line break. Characters. */
const cutSlack = 4_096;

/**
 * The keys of a text that a call returned at a time (milliseconds since the epoch). Of a long text only the ends are
 * masked, to bound the work; any change in the middle changes the keys.
 */
export function textKeys(text: string, at: number, isError: boolean): ResultKeys {
  return finish(textKeySteps(text, at, isError));
}

function* textKeySteps(text: string, at: number, isError: boolean): Generator<void, ResultKeys> {
  if (text.length <= 2 * maskedEnd) return keysOf(text, at, isError);
  const headEnd = cutAfterLine(text, maskedEnd);
  const tailStart = cutAfterLine(text, text.length - maskedEnd);
  const head = keysOf(text.slice(0, headEnd), at, isError);
  const middles: string[] = [];
  for (let from = headEnd; from < tailStart; from += slice) {
    if (from > headEnd) yield;
    middles.push(hashText(text.slice(from, Math.min(from + slice, tailStart))));
  }
  const middle = middles.length === 1 ? middles[0]! : hashText(middles.join(" "));
  const tail = keysOf(text.slice(tailStart), at, isError);
  return {
    resultKey: hashText(`${head.resultKey} ${middle} ${tail.resultKey}`),
    exactKey: hashText(`${head.exactKey} ${middle} ${tail.exactKey}`),
  };
}

function keysOf(text: string, at: number, isError: boolean): ResultKeys {
  const general = maskVolatile(text, at);
  const resultKey = hashText(general);
  if (general === text) return { resultKey, exactKey: resultKey };
  const exact = isError ? maskNoise(text, at) : text;
  return { resultKey, exactKey: exact === general ? resultKey : hashText(exact) };
}

/** Cuts at a line break, because a masked duration may change its length and would shift a fixed cut. */
function cutAfterLine(text: string, from: number): number {
  const lineBreak = text.slice(from, from + cutSlack).indexOf("\n");
  return lineBreak < 0 ? from : from + lineBreak + 1;
}

/*
 * Patterns for parts that differ between two equal results. Each may also be the point of a result, so it is masked
 * only where that is unlikely: a time near the time of the call, a duration after words such as "took", and nothing in
 * a text without other words.
 */

const uuid = /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi;
const insideUuid = /-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-/;
const requestId = /\breq(?:uest[-_ ]?id["']?(?: ?[:=] ?| )["']?[\w.:-]*\d[\w.:-]*|[_-][0-9a-z]{8,}\b)/gi;
const digit = /\d/;
/** Whether any of the patterns of volatile parts can match. One look instead of four: most texts have none of them. */
const mayVary = /\d(?: ?[smnuµμ]|:\d|\d{9})|0x|req|-[0-9a-f]{4}-[0-9a-f]{4}-/i;

const masked = "\u0000";

/** Masks what may differ between two equal results: ids, current times, durations, addresses. */
function maskVolatile(text: string, at: number): string {
  // Everything volatile has a digit, and many results have none.
  if (!mayVary.test(text) || !digit.test(text)) return text;
  const withoutIds = text.includes("-") && insideUuid.test(text) ? text.replace(uuid, masked) : text;
  const rest = maskNoise(withoutIds, at);
  // The rest must have more than labels: in `took 3 ms` or `{"now": …}` the masked part is the message.
  return rest === text || rest.length > longEnough || tellingWord.test(rest) ? rest : text;
}

/**
 * Masks the same except UUIDs: if the arguments of two calls differ, a UUID may be the one that was asked
 * for.
 */
function maskNoise(text: string, at: number): string {
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

/**
 * Words before a measured duration: "took 3s", "done in 3s", "failed after 3s", "duration: 3s". Not "ready in
 * 3s" or "retry after 3s".
 */
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
