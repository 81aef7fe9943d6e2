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
 * Returns the state after a call. Every ended call of the session must be recorded, also refused and blocked ones:
 * repeating a blocked call leads to a stop. Never throws; replaces an unreadable state. `args` are read only when
 * near-identical arguments matter.
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

/** After this, every call gets this verdict. */
export function recordStop(state: LoopState, verdict: LoopVerdict): LoopState {
  return { ...state, stopped: verdict };
}

/** After a new message of the user nothing before it counts; a stopped run stays stopped. */
export function clearForNewMessage(state: LoopState): LoopState {
  return state?.stopped === undefined ? empty : { ...empty, stopped: state.stopped };
}

/** Removes these calls from the state: for a model turn that had to be requested again. */
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
      // The removed calls may have decided whether this entry was new or a change.
      const { isNew, isFirst } = compare(entries, entry);
      const changedWorld = isFirst && couldChangeWorld(entry);
      entries.push({ ...entry, ordinal: entry.ordinal - removed, isNew, changedWorld });
    }
    return { ...state, entries, total: state.total - removed };
  } catch {
    return empty;
  }
}

/** Cancelled calls and network failures say nothing about the model. */
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
  // A blocked call counts with its predicted result; the text of the block is not a result.
  const predicted = blocked ? predict(entries, record, ordinal)?.head : undefined;
  const { resultKey, exactKey = resultKey } = predicted ?? record;
  const isError = predicted?.isError ?? record.isError === true;
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
    refused: predicted?.refused ?? !executed,
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
 * The keys of a whole result, including pictures and the structured value. An error's `exactKey` is that of its text
 * only.
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
 * A quick test whether the result has more than its text; JSON text is taken for the structured value. `resultKeys`
 * looks closely.
 */
export function showsBeyondText({ content, type, attachments, structured, blocks }: Parts): boolean {
  if (attachments !== undefined || blocks !== undefined) return true;
  if (structured === undefined) return false;
  if (type !== "json") return true;
  return typeof structured === "object" && content[0] !== "{" && content[0] !== "[" && content !== "null";
}

/** The other parts of the result as a text, in which times and ids can be masked. */
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

/** How far a cut may move to fall on a line break. Characters. */
const cutSlack = 4_096;

/**
 * The keys of a text that a call returned at a time (milliseconds since the epoch). Of a long text only the ends are
 * masked, to bound the work; any change in the middle changes the keys.
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

/** Cuts at a line break, because a masked duration may change its length and would shift a fixed cut. */
function cutAfterLine(text: string, from: number): number {
  const lineBreak = text.slice(from, from + cutSlack).indexOf("\n");
  return lineBreak < 0 ? from : from + lineBreak + 1;
}

/** Separates session and owner. No session name contains it. */
const OWNED_BY = "\u0000";

/** The key of a session: two owners may use the same name. */
export function sessionKey(sessionID: string, owner: string | undefined): string {
  return owner === undefined ? sessionID : sessionID + OWNED_BY + owner;
}

/** The session's name without its owner. */
export function sessionOfKey(key: string): string {
  const end = key.indexOf(OWNED_BY);
  return end === -1 ? key : key.slice(0, end);
}
