import { hashText, hashValue } from "../schema/hash.ts";
import { safeJson } from "../schema/json.ts";
import type { ToolResult } from "../tool/result.ts";
import { argumentTokens, isSameCall, isSameRound, maskNoise, maskVolatile, similarity } from "./likeness.ts";
import { predict } from "./predict.ts";
import { nearIdentical, tellingResultLength, waitingGap, windowSize } from "./thresholds.ts";
import type { LoopEntry, LoopRecord, LoopState, LoopVerdict } from "./types.ts";

const empty: LoopState = Object.freeze({ entries: Object.freeze([]), total: 0 });

export function emptyLoopState(): LoopState {
  return empty;
}

/**
 * The state after a call. Record every call of the session once it has ended, also one that was refused or
 * blocked: insisting on a blocked call is what leads from block to stop. Never throws; a state that cannot be
 * read is replaced by a new one. `args` are looked at only when near-identical arguments would matter.
 */
export function recordCall(state: LoopState, record: LoopRecord, args?: unknown): LoopState {
  try {
    const total = state.total + 1;
    const entry = isEvidence(record) ? toEntry(state.entries, record, total, args) : undefined;
    if (entry === undefined) return { ...state, total };
    const entries = state.entries.slice(state.entries.length >= windowSize ? 1 - windowSize : 0);
    entries.push(entry);
    return state.stopped === undefined ? { entries, total } : { entries, total, stopped: state.stopped };
  } catch {
    return empty;
  }
}

/** Remembers that the run was stopped: from now on every call gets this verdict. */
export function recordStop(state: LoopState, verdict: LoopVerdict): LoopState {
  return { ...state, stopped: verdict };
}

/** A new message of the user changes what makes sense, so nothing before it counts; a stopped run stays stopped. */
export function clearForNewMessage(state: LoopState): LoopState {
  return state?.stopped === undefined ? empty : { ...empty, stopped: state.stopped };
}

/** The state as if these calls had not been made: for a model turn that the provider made us ask for again. */
export function rollback(state: LoopState, callIds: readonly string[]): LoopState {
  try {
    const first = state.entries.findIndex((entry) => callIds.includes(entry.callId));
    if (first < 0) return state;
    const entries = state.entries.slice(0, first);
    let removed = 0;
    for (const entry of state.entries.slice(first)) {
      if (callIds.includes(entry.callId)) {
        removed++;
        continue;
      }
      // What was new or a change may have been judged so only because of, or in spite of, a removed call.
      const { isNew, isFirst } = compare(entries, entry);
      const changedWorld = isFirst && couldChangeWorld(entry);
      entries.push({ ...entry, ordinal: entry.ordinal - removed, isNew, changedWorld });
    }
    return { ...state, entries, total: state.total - removed };
  } catch {
    return empty;
  }
}

/** A cancelled call and a failing network say nothing about what the model is doing. */
function isEvidence(record: LoopRecord): boolean {
  return (
    typeof record.tool === "string" &&
    typeof record.argsKey === "string" &&
    typeof record.resultKey === "string" &&
    record.infrastructure !== true &&
    record.errorCode !== "cancelled"
  );
}

function toEntry(
  entries: readonly LoopEntry[],
  record: LoopRecord,
  ordinal: number,
  args: unknown,
): LoopEntry | undefined {
  const executed = record.executed !== false;
  const blocked = !executed && record.errorCode === "loop_blocked";
  // A blocked call stands for what it would have given; its own text, the block, is not a result.
  const foretold = blocked ? predict(entries, record, ordinal)?.head : undefined;
  const { resultKey, exactKey = resultKey } = foretold ?? record;
  const isError = foretold?.isError ?? record.isError === true;
  const readOnly = record.readOnly === true;

  const { isNew, isFirst, like, again } = compare(entries, {
    tool: record.tool,
    argsKey: record.argsKey,
    resultKey,
    round: record.round,
  });
  if (again) return undefined;

  const last = entries[entries.length - 1];
  const poll = record.poll === true;
  const series =
    args !== undefined &&
    !readOnly &&
    !isError &&
    last !== undefined &&
    last.tool === record.tool &&
    last.exactKey === exactKey &&
    last.argsKey !== record.argsKey &&
    (last.tokens !== undefined || (record.resultLength ?? 0) >= tellingResultLength);
  const tokens = series ? argumentTokens(args) : undefined;

  return {
    callId: record.callId,
    tool: record.tool,
    argsKey: record.argsKey,
    resultKey,
    exactKey,
    isError,
    errorCode: record.errorCode,
    readOnly,
    executed,
    blocked,
    refused: foretold?.refused ?? !executed,
    poll,
    round: record.round,
    at: record.at,
    ordinal,
    isNew,
    changedWorld: isFirst && executed && !isError && !readOnly,
    waiting:
      poll ||
      last?.poll === true ||
      (like !== undefined && (record.startedAt ?? record.at) - like.at >= waitingGap),
    similar: tokens !== undefined && isSimilar(tokens, last?.tokens),
    tokens,
  };
}

interface Comparison {
  /** No call like this gave this result since the world last changed. */
  readonly isNew: boolean;
  /** No call like this gave this result at all. */
  readonly isFirst: boolean;
  /** The latest identical call, or else the latest call of the tool. */
  readonly like: LoopEntry | undefined;
  /** The same round already had this very call with this very result. */
  readonly again: boolean;
}

function compare(
  entries: readonly LoopEntry[],
  call: Pick<LoopEntry, "tool" | "argsKey" | "resultKey" | "round">,
): Comparison {
  let twin: LoopEntry | undefined;
  let sibling: LoopEntry | undefined;
  let worldChanged = false;
  for (let index = entries.length - 1; index >= 0; index--) {
    const entry = entries[index]!;
    if (entry.tool === call.tool) {
      if (isSameCall(entry, call)) {
        twin ??= entry;
        if (entry.resultKey === call.resultKey) {
          return { isNew: worldChanged, isFirst: false, like: twin, again: isSameRound(entry, call) };
        }
      } else if (!entry.refused) {
        sibling ??= entry;
      }
    }
    if (entry.changedWorld) worldChanged = true;
  }
  return { isNew: true, isFirst: true, like: twin ?? sibling, again: false };
}

function couldChangeWorld(entry: LoopEntry): boolean {
  return entry.executed && !entry.isError && !entry.readOnly;
}

function isSimilar(tokens: readonly number[], before: readonly number[] | undefined): boolean {
  return before !== undefined && similarity(tokens, before) >= nearIdentical;
}

type Parts = Pick<ToolResult, "content" | "type" | "attachments" | "structured" | "blocks">;

/**
 * The keys of a whole result: two that differ in a picture or in their structured form are not the same. An
 * error is what it says, whatever comes with it, when somebody asked differently.
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
  };
}

/**
 * Whether the text shows only a part of the result, at a glance: JSON is taken for the text of the structured
 * form. `resultKeys` looks closely.
 */
export function showsBeyondText({ content, type, attachments, structured, blocks }: Parts): boolean {
  if (attachments !== undefined || blocks !== undefined) return true;
  if (structured === undefined) return false;
  if (type !== "json") return true;
  return typeof structured === "object" && content[0] !== "{" && content[0] !== "[" && content !== "null";
}

/** What the text does not show, as a text in which times and ids can be masked like in any other. */
function partsBeyondText({ content, attachments, structured, blocks }: Parts): string | undefined {
  if (attachments === undefined && structured === undefined && blocks === undefined) return undefined;
  const parts: string[] = [];
  if (structured !== undefined) {
    const { text } = safeJson(structured);
    if (text !== content) parts.push(text);
  }
  for (const { mime, filename, url } of attachments ?? []) {
    parts.push(`${mime} ${filename} ${url.startsWith("data:") ? hashText(url) : url}`);
  }
  const media = blocks?.filter((block) => block?.type !== "text") ?? [];
  if (media.length > 0) parts.push(hashValue(media));
  return parts.length === 0 ? undefined : parts.join("\n");
}

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

/** No name of a session has it. */
const OWNED_BY = "\u0000";

/** What a session is remembered by: two owners may use the same name for different sessions. */
export function sessionKey(sessionID: string, owner: string | undefined): string {
  return owner === undefined ? sessionID : sessionID + OWNED_BY + owner;
}

/** The session's name, whoever owns it. */
export function sessionOfKey(key: string): string {
  const end = key.indexOf(OWNED_BY);
  return end === -1 ? key : key.slice(0, end);
}
