import { hashCodes, hashNumber, hashSamples, hashText, hashValue, hashWithout } from "../schema/hash.ts";
import { safeJson } from "../schema/json.ts";
import type { RawResult } from "../tool/result.ts";
import type { ToolInfo } from "../tool/types.ts";
import { readsOnly, saysError, saysNone, saysNothing, shortAnswer } from "./inference.ts";
import { type Noise, noiseIn } from "./noise.ts";
import { lastCodes, signsOf } from "./text-signs.ts";
import { stableResultLength, tellingResultLength } from "./thresholds.ts";

type Parts = Pick<RawResult, "content" | "type" | "attachments" | "structured" | "blocks" | "structuredText">;

/** The tool that gave a result. */
type Teller = Pick<ToolInfo, "name" | "metadata">;

/** A tool that only reads. */
const reader: Teller = { name: "", metadata: { readOnly: true } };

/** Two results are compared by these keys. */
export interface ResultKeys {
  /** Equal for equal results of calls with equal arguments. */
  readonly resultKey: number;
  /**
   * Equal for equal results of calls with different arguments. Of errors and long results, times, durations, counters, and
   * ids that the arguments do not name are left out; of short ones nothing.
   */
  readonly exactKey: number;
  /** The text reads like an error, although the tool did not say that it failed. */
  readonly saysError: boolean;
  /** A short answer such as "healthy", which many questions can have: not that there is nothing, or that something failed. */
  readonly isShort: boolean;
}

/**
 * The keys of a whole result, including pictures and the structured value. An error's `exactKey` is that of its text
 * only. Costs 10 to 40 µs at any size.
 */
export function resultKeys(result: Parts, at: number, args?: unknown, tool?: Teller): ResultKeys {
  const isError = result.type === "error";
  const text = textKeys(result.content, at, isError, args, tool);
  const others = partsBeyondText(result);
  if (others === undefined) return text;
  const beyond = textKeys(others, at, false, args, reader);
  return {
    resultKey: hashNumber(`${text.resultKey} ${beyond.resultKey}`),
    exactKey: isError ? text.exactKey : hashNumber(`${text.exactKey} ${beyond.exactKey}`),
    saysError: text.saysError,
    isShort: false,
  };
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

/** Characters. A larger structured value, file or text is compared by samples. */
const large = 8_192;

/** The parts of the result besides its text, as one text in which times and ids can be masked. */
function partsBeyondText({
  content,
  attachments,
  structured,
  structuredText,
  blocks,
}: Parts): string | undefined {
  if (attachments === undefined && structured === undefined && blocks === undefined) return undefined;
  const parts: string[] = [];
  // Without a text of its own, the value is as long as the result's text; a long text is then its JSON.
  const size = structuredText?.length ?? content.length;
  if (structured !== undefined && (structuredText !== undefined || size <= large)) {
    const text =
      size <= large
        ? (structuredText ?? safeJson(structured).text)
        : `${size} ${inLetters(hashSamples(structured))}`;
    if (text !== content) parts.push(text);
  }
  for (const { mime, filename, url } of attachments ?? []) {
    parts.push(`${mime} ${filename} ${url.startsWith("data:") ? inLetters(longTextKey(url)) : url}`);
  }
  const media = blocks?.filter((block) => block?.type !== "text") ?? [];
  if (media.length > 0) parts.push(media.map((block) => hashMedia(block)).join(" "));
  return parts.length === 0 ? undefined : parts.join("\n");
}

/** Pictures and sounds are long texts; the rest of a block is short. */
function hashMedia(block: object): string {
  const { data, ...rest } = { data: undefined, ...block } as { readonly data: unknown }; // A block may have any members.
  return inLetters(typeof data === "string" ? `${longTextKey(data)} ${hashValue(rest)}` : hashSamples(block));
}

/** A fingerprint must not be taken for an id that may be left out. */
function inLetters(hash: string): string {
  return hash.replace(/\d/g, (digit) => "ghijklmnop"[Number(digit)]!);
}

/** Characters. In a longer text, noise is looked for at both ends, and where these are full of it in some lines between. */
const wholeText = 2_560;
const wholeEnd = 512;

/** How far a cut may move to fall on the beginning of a line. Characters. */
const cutSlack = 256;

/**
 * The keys of a text that a call returned at a time (milliseconds since the epoch). Of a long text only parts are read, to
 * bound the work. Between its ends a change of one character changes the keys, unless both ends are full of noise, as in
 * a log with a time in every line: then some lines are compared, as of errors. What a tool that only reads has found may
 * itself tell of errors; it is no complaint.
 */
export function textKeys(
  text: string,
  at: number,
  isError: boolean,
  args?: unknown,
  tool?: Teller,
): ResultKeys {
  const signs = signsOf(text);
  const says = !isError && saysError(text, signs);
  const isShort = text.length < stableResultLength && !isError && !says && !saysNothing(text);
  if (isError || (says && (tool === undefined || !readsOnly(tool, args)))) {
    const key = complaintKey(text, args);
    return { resultKey: key, exactKey: key, saysError: says, isShort };
  }
  const { resultKey, exactKey } =
    text.length > wholeText
      ? longKeys(text, at, says, args)
      : partKeys(
          text,
          noiseIn(text, at, 0, text.length, signs),
          0,
          text.length,
          !says && text.length < tellingResultLength,
          args,
        );
  const own = says && text.length <= shortAnswer ? withoutEchoes(text, args) : text;
  return {
    resultKey,
    exactKey: own === text ? exactKey : hashNumber(own.replace(/\s+/g, " ")),
    // Whoever reads has found that there is nothing: the next day or page may still have something.
    saysError: says && !saysNone(text),
    isShort,
  };
}

type Keys = Pick<ResultKeys, "resultKey" | "exactKey">;

/** The keys of a part of a text without its noise. A short answer is data. */
function partKeys(
  text: string,
  noise: Noise | undefined,
  from: number,
  to: number,
  isData: boolean,
  args: unknown,
): Keys {
  if (noise === undefined || !noise.isAside) {
    // Such a text has just been looked through for signs.
    const key = isData ? hashCodes(lastCodes, to) : hashNumber(text, from, to);
    return { resultKey: key, exactKey: key };
  }
  const spans = withoutIds(text, noise, isData, args);
  const resultKey = hashWithout(text, noise.spans, from, to);
  return { resultKey, exactKey: spans === noise.spans ? resultKey : hashWithout(text, spans, from, to) };
}

function longKeys(text: string, at: number, says: boolean, args: unknown): Keys {
  const keysOf = (part: string, noise: Noise | undefined, from: number, to: number) =>
    partKeys(part, noise, from, to, false, args);
  const headEnd = cutBeforeLine(text, wholeEnd);
  const tailStart = cutBeforeLine(text, text.length - wholeEnd);
  const [ofHead, ofTail] = [noiseIn(text, at, 0, headEnd), noiseIn(text, at, tailStart, text.length)];
  const head = keysOf(text, ofHead, 0, headEnd);
  const tail = keysOf(text, ofTail, tailStart, text.length);
  const key = hashNumber(middleKey(text, headEnd, tailStart));
  let middle: Keys = { resultKey: key, exactKey: key };
  if (isFullOfNoise(ofHead) && isFullOfNoise(ofTail)) {
    const lines = partsOf(text, linesBetween(text, headEnd, tailStart));
    const read = keysOf(lines, noiseIn(lines, at), 0, lines.length);
    middle = { resultKey: read.resultKey, exactKey: says ? read.exactKey : key };
  }
  return {
    resultKey: hashNumber(`${head.resultKey} ${middle.resultKey} ${tail.resultKey}`),
    exactKey: hashNumber(`${head.exactKey} ${middle.exactKey} ${tail.exactKey}`),
  };
}

type Span = readonly [from: number, to: number];

function partsOf(text: string, spans: readonly Span[]): string {
  return spans.map(([from, to]) => text.slice(from, to)).join("\n");
}

/**
 * The key of an error: its words. A program that fails in one way numbers its lines, processes and attempts anew each time,
 * and repeats what it was given. So words with digits are left out, unless they say how far something is, are a status of
 * HTTP, or are an argument: an error about another id is another error.
 */
function complaintKey(text: string, args: unknown): number {
  const isLong = text.length > 2 * wholeEnd;
  const headEnd = isLong ? cutBeforeLine(text, wholeEnd) : text.length;
  const tailStart = isLong ? cutBeforeLine(text, text.length - wholeEnd) : text.length;
  const between = isLong ? linesBetween(text, headEnd, tailStart) : [];
  const read = partsOf(text, [[0, headEnd], ...between, [tailStart, text.length]]);
  let named: ReadonlySet<string> | undefined;
  const words = withoutEchoes(read, args).replace(NUMBERED, (word, index: number, all: string) => {
    if (isTelling(word, index, all)) return word;
    named ??= new Set(valuesOf(args).map(String));
    // A browser names what is on a page anew with each look at it: ref=e41.
    return named.has(word) && !all.endsWith("ref=", index) ? word : "";
  });
  if (/\p{L}/u.test(words)) return hashNumber(words.replace(/\s+/g, " "));
  return hashNumber(text.length <= large ? text : middleKey(text, 0, text.length));
}

const NUMBERED =
  /\b[A-Za-z_]*\d\w*(?:[.,:-](?:\w*\d\w*|[0-9a-f]{4,}\b))*(?: (?:m?s|m?secs?|seconds?|minutes?)\b)?/g;
/** Whether a number says how far a thing is or how much of it failed, or is a status of HTTP: 40 %, 3/5, 2 failed, HTTP 404. */
function isTelling(word: string, index: number, text: string): boolean {
  if (!/^\d+$/.test(word)) return false;
  // On pages of nothing but numbers, looking at two characters first halves the time.
  const end = index + word.length;
  if (MAY_TELL.has(text[text[end] === " " ? end + 1 : end]!)) {
    TELLS.lastIndex = end;
    if (TELLS.test(text)) return true;
  }
  let start = index;
  while (start > index - 6 && text.charCodeAt(start - 1) <= 32) start--;
  const mark = text[start - 1]!;
  if (MAY_COUNT.has(mark) && COUNTS.test(text.slice(Math.max(0, index - 16), index))) return true;
  if (word.length !== 3 || (word[0] !== "4" && word[0] !== "5")) return false;
  return (mark !== "e" && mark !== ":") || !/(?:line|sh:) ?$/.test(text.slice(Math.max(0, index - 5), index));
}

const TELLS =
  / ?(?:%|\/ ?\d)| (?:of \d|fail|pass|error|problem|warning|issue|conflict|test|left|remain|done|complete|skip|row|record|item|match)/iy;
const MAY_TELL: ReadonlySet<string> = new Set("%/ofpewictlrdsmOFPEWICTLRDSM");
/** failures=2   Failed: 3   # fail 1 */
const COUNTS =
  /(?:fail(?:ed|ures?|s)?|pass(?:ed)?|errors|warnings|problems|issues)["']?[:=]\s{0,5}$|[#ℹ] (?:fail|pass) $/i;
const MAY_COUNT: ReadonlySet<string> = new Set(":=lsLS");
/** Characters of the beginning of a command or statement: a program may repeat only a part of it. */
const shortestEcho = 16;
const shortestValue = 3;
/** What stands before the value of an argument, so that it is not a word of the complaint that the caller also used. */
const BEFORE_ECHO = /(?:^|["'`“「(:=：]|\b(?:for|named)) ?$/;

/**
 * A complaint without what it repeats of the arguments: the beginnings of commands and statements, and whole values without
 * digits. That there is no element "a" says no more than that there is none.
 */
function withoutEchoes(text: string, args: unknown): string {
  let rest = text;
  for (const value of valuesOf(args)) {
    if (typeof value !== "string" || value.length < shortestValue) continue;
    if (value.length < shortestEcho || !value.includes(" ")) {
      const at = /\d/.test(value) ? -1 : rest.indexOf(value);
      if (at >= 0 && BEFORE_ECHO.test(rest.slice(0, at)))
        rest = rest.slice(0, at) + rest.slice(at + value.length);
      continue;
    }
    const from = rest.indexOf(value.slice(0, shortestEcho));
    if (from < 0) continue;
    let length = shortestEcho;
    while (length < value.length && rest.charCodeAt(from + length) === value.charCodeAt(length)) length++;
    rest = rest.slice(0, from) + rest.slice(from + length);
  }
  return rest;
}

function valuesOf(args: unknown): readonly unknown[] {
  return Object.values(args ?? {});
}

/**
 * Noise without what tells something: ids that the caller has named itself, and in a short answer, which `isData`, all but
 * measured durations and the ids of requests.
 */
function withoutIds(text: string, { spans }: Noise, isData: boolean, args: unknown): Noise["spans"] {
  if (isData)
    return spans.filter(({ from, to }) => {
      const part = text.slice(from, to);
      return (
        IS_DURATION.test(part) || (text.length - part.length >= stableResultLength && IS_REQUEST.test(part))
      );
    });
  if (args === undefined || !spans.some(({ isId }) => isId)) return spans;
  const named = textOfArguments(args);
  return spans.filter(({ isId, from, to }) => !isId || !named.includes(text.slice(from, to)));
}

function textOfArguments(args: unknown): string {
  return args === undefined ? "" : safeJson(args).text;
}

const IS_DURATION = /^(?:[\d.]+ ?[a-zµμ]+ ?){1,3}$/i;
/** The id of a request, with the end of the word that labels it. */
const IS_REQUEST = /^[a-z]+[-_ ]?id\b/i;

const muchNoise = 4;

function isFullOfNoise(noise: Noise | undefined): boolean {
  return noise !== undefined && noise.spans.length >= muchNoise;
}

const sampledLines = 3;
const linesApart = 16;
/** Characters of each side in which lines are looked for. */
const nearLines = 8_192;

/** Some lines of a part of a text, counted from its beginning and from its end. */
function linesBetween(text: string, from: number, to: number): Span[] {
  const lines: Span[] = [];
  const first = text.slice(from, Math.min(to, from + nearLines));
  const last = text.slice(Math.max(from + nearLines, to - nearLines), to);
  let start = 0;
  for (let line = 1; line <= sampledLines * linesApart; line++) {
    const end = first.indexOf("\n", start);
    if (end < 0) break;
    if (line % linesApart === 0) lines.push([from + start, from + Math.min(end, start + cutSlack)]);
    start = end + 1;
  }
  let end = last.length;
  for (let line = 1; line <= sampledLines * linesApart; line++) {
    const before = last.lastIndexOf("\n", end - 1);
    if (before <= 0) break;
    if (line % linesApart === 0)
      lines.push([to - last.length + before + 1, to - last.length + Math.min(end, before + cutSlack)]);
    end = before;
  }
  return lines;
}

/**
 * Cuts before the line with the highest hash of those that begin near an index: masked parts may change their length,
 * which would shift a fixed cut. Long lines may begin with a time.
 */
function cutBeforeLine(text: string, near: number): number {
  const part = text.slice(near - cutSlack, near + cutSlack);
  let cut = -1;
  let chosen = -1;
  for (let at = part.indexOf("\n"), end = 0; at >= 0 && end >= 0; at = end) {
    end = part.indexOf("\n", at + 1);
    const length = (end < 0 ? part.length : end) - at;
    const [from, to] = length > 32 ? [at + 25, Math.min(at + 65, at + length)] : [at + 1, at + length];
    const hash = hashNumber(part, from, to);
    if (hash <= chosen) continue;
    chosen = hash;
    cut = at + 1;
  }
  return cut < 0 ? near : near - cutSlack + cut;
}

function longTextKey(text: string): string {
  return text.length <= large ? hashText(text) : middleKey(text, 0, text.length);
}

const sampleCount = 64;
const sampleLength = 24;

/** Characters. To compare longer texts as a whole takes longer than 40 µs. */
const longestCompared = 262_144;

/** Characters of long texts that are kept, to tell texts apart whose samples are equal. */
const mostKept = 8_388_608;
const keptTexts = new Map<string, string[]>();
let keptLength = 0;

/**
 * A key of a long part of a text, made of its length and samples of it. Texts whose samples are equal are compared with
 * the latest such texts, which takes 2 µs for 60,000 characters where hashing takes 100; a different one gets another
 * key. Only beyond `longestCompared` characters, and in another process, the samples alone decide.
 */
function middleKey(text: string, from: number, to: number): string {
  const length = to - from;
  let sampled = "";
  const step = Math.max(0, (length - sampleLength) / (sampleCount - 1));
  for (let sample = 0; sample < sampleCount; sample++) {
    const start = from + Math.floor(sample * step);
    sampled += text.slice(start, Math.min(start + sampleLength, to));
  }
  const key = `${length} ${hashText(sampled)}`;
  if (length > longestCompared) return key;
  const part = text.slice(from, to);
  let like = keptTexts.get(key);
  const known = like?.indexOf(part) ?? -1;
  if (known >= 0) return known === 0 ? key : `${key} ${known}`;
  if (keptLength + length > mostKept) {
    keptTexts.clear();
    keptLength = 0;
    like = undefined;
  }
  if (like === undefined) keptTexts.set(key, [part]);
  else like.push(part);
  keptLength += length;
  return like === undefined || like.length === 1 ? key : `${key} ${like.length - 1}`;
}
