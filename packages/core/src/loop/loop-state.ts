import { hashText } from "../schema/hash.ts";
import { nearIdentical, tellingResultLength, waitingGap, windowSize } from "./thresholds.ts";
import {
  isSameCall,
  isSameRound,
  type LoopCandidate,
  type LoopEntry,
  type LoopRecord,
  type LoopState,
  type LoopVerdict,
  markOf,
} from "./types.ts";

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
    const entries = withLast(state.entries, entry);
    return state.stopped === undefined ? { entries, total } : { entries, total, stopped: state.stopped };
  } catch {
    return empty;
  }
}

/** A copy with the entry at its end; the oldest entry makes room. `slice` and `push` would allocate three times as much. */
function withLast(entries: readonly LoopEntry[], entry: LoopEntry): LoopEntry[] {
  if (entries.length < windowSize) return [...entries, entry];
  const kept = entries.slice(-windowSize);
  for (let index = 1; index < windowSize; index++) kept[index - 1] = kept[index]!;
  kept[windowSize - 1] = entry;
  return kept;
}

/** After this, every call gets this verdict. */
export function recordStop(state: LoopState, verdict: LoopVerdict): LoopState {
  return { ...state, stopped: verdict };
}

/** A stored state, which an earlier version may have written without marks. An unreadable one stays as it is. */
export function readStored(state: LoopState): LoopState {
  if (!Array.isArray(state?.entries)) return state;
  const entries = state.entries.map((entry: LoopEntry) => ({
    ...entry,
    argsMark: markOf(String(entry?.argsKey)),
    resultMark: markOf(String(entry?.resultKey)),
  }));
  return { ...state, entries };
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
      const { isNew, isFirst } = compare(entries, entry, entry.resultKey);
      const changedWorld = isFirst && entry.executed && !entry.isError && !entry.readOnly;
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

  const { isNew, isFirst, like, again } = compare(entries, record, resultKey);
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
    argsMark: markOf(record.argsKey),
    resultMark: markOf(resultKey),
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
    similar: isNearIdentical(tokens, last?.tokens),
    tokens,
  };
}

interface Comparison {
  /** No identical call gave this result since a call last changed something. */
  readonly isNew: boolean;
  /** No identical call gave this result at all. */
  readonly isFirst: boolean;
  /** The latest identical call, or else the latest call of the tool. */
  readonly like: LoopEntry | undefined;
  /** The same round already had this very call with this very result. */
  readonly again: boolean;
}

function compare(
  entries: readonly LoopEntry[],
  call: Pick<LoopRecord, "tool" | "argsKey" | "round">,
  resultKey: string,
): Comparison {
  const mark = markOf(call.argsKey);
  let twin: LoopEntry | undefined;
  let sibling: LoopEntry | undefined;
  let worldChanged = false;
  for (let index = entries.length - 1; index >= 0; index--) {
    const entry = entries[index]!;
    if (entry.tool === call.tool) {
      if (isSameCall(entry, call, mark)) {
        twin ??= entry;
        if (entry.resultKey === resultKey) {
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

/** A call that has not run, with its predicted result. */
interface LoopPrediction {
  readonly head: LoopEntry;
  /** The calls before it are `entries[0..end)`. */
  readonly end: number;
}

/**
 * Predicts the result of a call: that of its last identical call or, for new arguments, the last result of the tool.
 * Undefined when nothing can be predicted, also when the last two results of identical calls differ; so a changing
 * result is never blocked.
 */
export function predict(
  entries: readonly LoopEntry[],
  candidate: LoopCandidate,
  ordinal: number,
): LoopPrediction | undefined {
  const mark = markOf(candidate.argsKey);
  let end = entries.length;
  let twin: LoopEntry | undefined;
  let isTwinCurrent = false;
  let sibling: LoopEntry | undefined;
  let worldChanged = false;
  for (let index = end - 1; index >= 0; index--) {
    const entry = entries[index]!;
    // The candidate has passed the checks of name, arguments and permissions, so earlier refusals for these say nothing
    // about it; only a person's denial does.
    const isOutdated = entry.refused && !entry.blocked && entry.errorCode !== "approval_denied";
    if (entry.tool === candidate.tool && !isOutdated) {
      if (!isSameCall(entry, candidate, mark)) {
        if (sibling === undefined && !entry.refused) sibling = entry;
      } else if (isSameRound(entry, candidate)) {
        // Identical calls of one round count once: all get the verdict of the first.
        end = index;
        twin = undefined;
        sibling = undefined;
        worldChanged = false;
        continue;
      } else if (twin === undefined) {
        twin = entry;
        isTwinCurrent = !worldChanged;
      } else {
        if (entry.resultKey !== twin.resultKey) return undefined;
        break;
      }
    }
    if (entry.changedWorld) worldChanged = true;
  }

  const model = twin ?? sibling;
  if (model === undefined) return undefined;
  const last = entries[end - 1];
  const follows = model === last;
  const isCompared = twin === undefined && follows && !candidate.readOnly && model.tokens !== undefined;
  const { args } = candidate;
  const similar = isCompared && args !== undefined && isNearIdentical(argumentTokens(args), model.tokens);
  // Without an identical call only two signals apply: the same error, and a series of equal results.
  if (twin === undefined && !model.isError && !(follows && candidate.readOnly) && !similar) return undefined;

  const poll = candidate.poll === true;
  const head: LoopEntry = {
    ...model,
    callId: "",
    argsKey: candidate.argsKey,
    argsMark: mark,
    readOnly: candidate.readOnly,
    executed: !model.refused,
    blocked: false,
    poll,
    round: candidate.round,
    at: candidate.at,
    ordinal,
    isNew: !isTwinCurrent,
    changedWorld: false,
    waiting: poll || candidate.at - model.at >= waitingGap || last?.poll === true,
    similar,
    tokens: undefined,
  };
  return { head, end };
}

function isNearIdentical(one: readonly string[] | undefined, other: readonly string[] | undefined): boolean {
  return one !== undefined && other !== undefined && similarity(one, other) >= nearIdentical;
}

const longestText = 8192;
const mostTokens = 128;
const deepest = 8;

/**
 * The distinct words of the arguments' values, hashed: enough to compare two calls without revealing the
 * arguments. Keys are left out, since all calls of a tool share them.
 */
export function argumentTokens(args: unknown): readonly string[] {
  const tokens = new Set<string>();
  let budget = longestText;
  collect(args, 0);
  return [...tokens];

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
      tokens.add(hashText(word));
    }
  }
}

/** The share of common words among all words of both (Jaccard), from 0 to 1. */
export function similarity(one: readonly string[], other: readonly string[]): number {
  const others = new Set(other);
  const common = one.filter((token) => others.has(token)).length;
  const all = one.length + other.length - common;
  return all === 0 ? 1 : common / all;
}
