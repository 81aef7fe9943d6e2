import { hashText } from "../schema/hash.ts";
import { maskNoise, maskVolatile } from "./mask-volatile.ts";

/** By what two results are compared. */
export interface ResultKeys {
  /** The same for two results that say the same to somebody who asked the same. */
  readonly resultKey: string;
  /**
   * The same for two results that say the same to somebody who asked differently. Of an error that leaves out
   * what is new every time (request ids, times, durations); of any other result nothing.
   */
  readonly exactKey: string;
}

/** How much of each end of a long text is searched for what to mask. Characters. */
const maskedEnd = 32_768;

/** How far a cut may move to fall on a line break. Characters. */
const cutSlack = 4_096;

/**
 * The keys of a text that a call gave at a time, in milliseconds since the epoch. Of a long text only the ends
 * are masked, which bounds the work; the middle goes in as it is, so any change in it changes the keys.
 */
export function textKeys(text: string, at: number, isError: boolean): ResultKeys {
  if (text.length <= 2 * maskedEnd) return keysOf(text, at, isError);
  const headEnd = cutAfterLine(text, maskedEnd);
  const tailStart = cutAfterLine(text, text.length - maskedEnd);
  const head = keysOf(text.slice(0, headEnd), at, isError);
  const middle = hashText(text.slice(headEnd, tailStart));
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

/** A cut at a fixed place would move against the text when a masked duration grows by a digit. */
function cutAfterLine(text: string, from: number): number {
  const lineBreak = text.slice(from, from + cutSlack).indexOf("\n");
  return lineBreak < 0 ? from : from + lineBreak + 1;
}
