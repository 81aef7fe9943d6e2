import { hashText } from "../schema/hash.ts";

/** How much of each end of a long text is searched for what to mask. Characters. */
const maskedEnd = 32_768;

/** How far a cut may move to fall on a line break. Characters. */
const cutSlack = 4_096;

/*
 * What differs between two runs that found the same. The patterns are kept apart by what they begin with, since
 * a search for one that begins with a digit can skip everything else.
 */

/**
 * ISO timestamps, times of day, memory addresses, epoch seconds and milliseconds, durations. A date without a
 * time is data and stays, as does hex of more than 16 digits: that is a hash or an account.
 */
const volatileNumber = new RegExp(
  `\\b(?:${[
    String.raw`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|[+-]\d\d:?\d\d))?`,
    String.raw`\d\d:\d\d:\d\d(?:[.,]\d+)?\b`,
    String.raw`0x[0-9a-fA-F]{6,16}\b`,
    String.raw`1[5-9]\d{8}(?:\d{3}|\.\d+)?\b`,
    String.raw`(?:\d+ ?h ?)?(?:\d+ ?m ?)?\d+(?:\.\d+)? ?(?:[nuµμm]?s|m?secs?|(?:milli)?seconds?|min(?:ute)?s?)\b`,
  ].join("|")})`,
  "g",
);
const uuid = /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi;
const insideUuid = /-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-/;
const requestId = /\breq(?:uest[-_ ]?id["']?(?: ?[:=] ?| )["']?[\w.:-]*\d[\w.:-]*|[_-][0-9a-z]{8,}\b)/gi;
const digit = /\d/;

const masked = "\u0000";

/**
 * The same for two results that say the same. Of a long text only the ends are masked, which bounds the work;
 * the middle goes in as it is, so any change in it changes the key.
 */
export function resultKey(text: string): string {
  if (text.length <= 2 * maskedEnd) return hashText(mask(text));
  const headEnd = cutAfterLine(text, maskedEnd);
  const tailStart = cutAfterLine(text, text.length - maskedEnd);
  const head = hashText(mask(text.slice(0, headEnd)));
  const middle = hashText(text.slice(headEnd, tailStart));
  const tail = hashText(mask(text.slice(tailStart)));
  return hashText(`${head} ${middle} ${tail}`);
}

/** Everything volatile has a digit, and many results have none. The other checks are as cheap beside a search. */
function mask(text: string): string {
  if (!digit.test(text)) return text;
  let rest = text;
  if (rest.includes("-") && insideUuid.test(rest)) rest = rest.replace(uuid, masked);
  if (rest.includes("q")) rest = rest.replace(requestId, masked);
  return rest.replace(volatileNumber, masked);
}

/** A cut at a fixed place would move against the text when a masked duration grows by a digit. */
function cutAfterLine(text: string, from: number): number {
  const lineBreak = text.slice(from, from + cutSlack).indexOf("\n");
  return lineBreak < 0 ? from : from + lineBreak + 1;
}
