import { hashSamples, hashText, hashValue } from "../schema/hash.ts";
import { safeJson } from "../schema/json.ts";
import type { RawResult } from "../tool/result.ts";
import { saysError } from "./inference.ts";
import { maskNoise, maskVolatile, partOf } from "./noise.ts";

type Parts = Pick<RawResult, "content" | "type" | "attachments" | "structured" | "blocks" | "structuredText">;

/** Two results are compared by these keys. */
export interface ResultKeys {
  /** Equal for equal results of calls with equal arguments. */
  readonly resultKey: string;
  /**
   * Equal for equal results of calls with different arguments. In errors, request ids, times, durations and counters are
   * masked; in other results nothing.
   */
  readonly exactKey: string;
  /** The text reads like an error, although the tool did not say that it failed. */
  readonly saysError: boolean;
}

/**
 * The keys of a whole result, including pictures and the structured value. An error's `exactKey` is that of its text
 * only. Costs about 30 µs at any size, somewhat more where every line has a time.
 */
export function resultKeys(result: Parts, at: number): ResultKeys {
  const isError = result.type === "error";
  const text = textKeys(result.content, at, isError);
  const others = partsBeyondText(result);
  if (others === undefined) return text;
  const beyond = textKeys(others, at, isError);
  return {
    resultKey: hashText(`${text.resultKey} ${beyond.resultKey}`),
    exactKey: isError ? text.exactKey : hashText(`${text.exactKey} ${beyond.exactKey}`),
    saysError: text.saysError,
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
      size <= large ? (structuredText ?? safeJson(structured).text) : `${size} ${hashSamples(structured)}`;
    if (text !== content) parts.push(text);
  }
  for (const { mime, filename, url } of attachments ?? []) {
    parts.push(`${mime} ${filename} ${url.startsWith("data:") ? longTextKey(url) : url}`);
  }
  const media = blocks?.filter((block) => block?.type !== "text") ?? [];
  if (media.length > 0) parts.push(media.map((block) => hashMedia(block)).join(" "));
  return parts.length === 0 ? undefined : parts.join("\n");
}

/** Pictures and sounds are long texts; the rest of a block is short. */
function hashMedia(block: object): string {
  const { data, ...rest } = { data: undefined, ...block } as { readonly data: unknown }; // A block may have any members.
  return typeof data === "string" ? `${longTextKey(data)} ${hashValue(rest)}` : hashSamples(block);
}

/** Characters. In a longer text, noise is masked only at both ends. */
const wholeText = 4_096;
const wholeEnd = 1_280;

/** How far a cut may move to fall on the beginning of a line. Characters. */
const cutSlack = 256;

/**
 * The keys of a text that a call returned at a time (milliseconds since the epoch). Of a long text only the ends are
 * masked, to bound the work; a change in the middle changes the keys.
 */
export function textKeys(text: string, at: number, isError: boolean): ResultKeys {
  const says = !isError && saysError(text);
  if (text.length <= wholeText) return keysOf(text, at, isError, says);
  const headEnd = cutBeforeLine(text, wholeEnd);
  const tailStart = cutBeforeLine(text, text.length - wholeEnd);
  const middle = middleKey(text, headEnd, tailStart);
  const head = keysOf(text, at, isError, says, 0, headEnd);
  const tail = keysOf(text, at, isError, says, tailStart);
  return {
    resultKey: hashText(`${head.resultKey} ${middle} ${tail.resultKey}`),
    exactKey: hashText(`${head.exactKey} ${middle} ${tail.exactKey}`),
    saysError: says,
  };
}

function keysOf(
  text: string,
  at: number,
  isError: boolean,
  saysError: boolean,
  from = 0,
  to = text.length,
): ResultKeys {
  const general = maskVolatile(text, at, from, to);
  if (general === partOf(text, from, to)) {
    const key = hashText(text, from, to);
    return { resultKey: key, exactKey: key, saysError };
  }
  const resultKey = hashText(general);
  const exactKey = isError || saysError ? hashText(maskNoise(text, at, from, to)) : hashText(text, from, to);
  return { resultKey, exactKey, saysError };
}

/**
 * Cuts before the line with the highest hash of those that begin near an index: masked parts may change their length,
 * which would shift a fixed cut.
 */
function cutBeforeLine(text: string, near: number): number {
  const part = text.slice(near - cutSlack, near + cutSlack);
  let cut = -1;
  let chosen = "";
  for (let at = part.indexOf("\n"); at >= 0; at = part.indexOf("\n", at + 1)) {
    const hash = hashText(part, at + 1, Math.min(at + 25, part.length));
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
const longestCompared = 1_048_576;

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
