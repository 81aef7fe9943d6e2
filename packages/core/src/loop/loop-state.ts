import { hashNumber } from "../schema/hash.ts";
import { argumentTokens, isSameKey } from "./arguments.ts";
import type { EntryIndex } from "./entry-index.ts";
import { seemsToStep, seemsToWait } from "./inference.ts";
import { isNearIdentical, isNextOf, isReadByInference, isWait, predict } from "./prediction.ts";
import { mostAnswers, stableResultLength, tellingResultLength, windowOf, windowSize } from "./thresholds.ts";
import { isSameRound, type LoopEntry, type LoopRecord, type LoopState, type LoopVerdict } from "./types.ts";

const empty: LoopState = Object.freeze({ entries: Object.freeze([]), total: 0 });

export function emptyLoopState(): LoopState {
  return empty;
}

/** A state that `recordInto` changes. */
export interface LoopMemory extends LoopState {
  /**
   * With an index, up to twice as many as count, which `windowOf` gives: removing many earlier ones now and then is 90 ns
   * cheaper than one for every call.
   */
  entries: LoopEntry[];
  total: number;
  busy: number;
  busyUntil: number;
  answers: number[];
  stopped?: LoopVerdict;
  /** Of `entries`, where many calls are recorded one after another. Not part of the state. */
  index?: EntryIndex | undefined;
}

/** A copy of a state to go on with. Of an unreadable state, what can be read. */
export function memoryOf(state: LoopState): LoopMemory {
  const { entries, total = 0, busy = 0, busyUntil = 0, answers, stopped } = state ?? empty;
  return {
    entries: Array.isArray(entries) ? windowOf(entries).filter(isEntry) : [],
    total,
    busy,
    busyUntil,
    answers: Array.isArray(answers) ? [...answers] : [],
    ...(stopped && { stopped }),
  };
}

function isEntry(entry: LoopEntry | null): boolean {
  return typeof entry?.tool === "string" && entry.argsKey !== undefined && entry.argsKey !== null;
}

/**
 * Returns the state after a call. Every ended call of the session must be recorded, also refused and blocked ones:
 * repeating a blocked call leads to a stop. Never throws; replaces an unreadable state. `args` are read where they tell
 * what the call does, and to see whether two calls are nearly the same.
 */
export function recordCall(state: LoopState, record: LoopRecord, args?: unknown): LoopState {
  try {
    const memory = memoryOf(state);
    recordInto(memory, record, args);
    return memory;
  } catch {
    return empty;
  }
}

/** Records a call in a memory that is changed. Returns its entry, or undefined for a call that is no evidence. */
export function recordInto(memory: LoopMemory, record: LoopRecord, args: unknown): LoopEntry | undefined {
  memory.total++;
  const { busy } = memory;
  const took = record.executed === false ? 0 : timeInTool(memory, record);
  memory.busy += took;
  if (!isEvidence(record)) return undefined;
  const entry = toEntry(memory, record, args, busy, took);
  if (entry === undefined) return undefined;
  const { entries, answers } = memory;
  if (entry.changedWorld) {
    if (answers.length > 0) memory.answers = [];
  } else if (entry.executed && !entry.isKnown) {
    if (answers.length >= mostAnswers) answers.shift();
    answers.push(answerMark(entry.tool, entry.exactKey));
  }
  memory.index?.add(entry);
  const most = memory.index === undefined ? windowSize : 2 * windowSize;
  if (entries.length >= most) entries.splice(0, entries.length - windowSize + 1);
  entries.push(entry);
  return entry;
}

/** The time that a call adds to the time inside tools; what calls spent side by side counts once. */
function timeInTool(memory: LoopMemory, { startedAt, at }: LoopRecord): number {
  if (typeof startedAt !== "number" || typeof at !== "number") return 0;
  const from = Math.max(startedAt, memory.busyUntil);
  memory.busyUntil = Math.max(at, memory.busyUntil);
  return Math.max(0, at - from);
}

/** A number of an answer: 64 of them take less room than 64 texts, and are searched faster. */
function answerMark(tool: string, exactKey: number): number {
  return hashNumber(tool) ^ exactKey;
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
      const { isNew, isFirst, isAnswered } = compare(entries, entry, entry.resultKey, entry.exactKey);
      const changedWorld = isFirst && entry.executed && !entry.isError && !entry.readOnly;
      const isKnown = !isNew || isAnswered;
      entries.push({ ...entry, ordinal: entry.ordinal - removed, isNew, isKnown, changedWorld });
    }
    const changed = entries.findLastIndex((entry) => entry.changedWorld);
    const answers = entries.slice(changed + 1).filter(({ executed, isKnown }) => executed && !isKnown);
    return {
      ...state,
      entries,
      total: state.total - removed,
      answers: answers.map(({ tool, exactKey }) => answerMark(tool, exactKey)),
    };
  } catch {
    return empty;
  }
}

/** Cancelled calls and network failures say nothing about the model. */
function isEvidence(record: LoopRecord): boolean {
  return (
    typeof record.tool === "string" &&
    record.argsKey !== undefined &&
    typeof record.resultKey === "number" &&
    record.infrastructure !== true &&
    record.errorCode !== "cancelled"
  );
}

function toEntry(
  { entries, answers, total, index }: LoopMemory,
  record: LoopRecord,
  args: unknown,
  busyBefore: number,
  took: number,
): LoopEntry | undefined {
  const { tool, argsKey } = record;
  const executed = record.executed !== false;
  const blocked = !executed && record.errorCode === "loop_blocked";
  // A blocked call counts with its predicted result; the text of the block is not a result.
  const predicted = blocked ? predict(entries, { ...record, args }, total, busyBefore)?.head : undefined;
  const { resultKey, exactKey = resultKey } = predicted ?? record;

  const length = record.resultLength ?? 0;
  const found = compare(entries, record, resultKey, exactKey, index, length >= tellingResultLength);
  if (found.again) return undefined;

  const declaredError = predicted?.isError ?? record.isError === true;
  const reads =
    record.readOnly === true || (executed && !declaredError && isReadByInference(record, args, found));
  const isError = declaredError || (executed && !reads && record.saysError === true && !seemsToWait(tool));
  const inferred =
    isError && !declaredError ? "error" : reads && record.readOnly !== true ? "readOnly" : undefined;

  const last = entries[entries.length - 1];
  const poll = record.poll === true;
  const isShort = predicted?.isShort ?? (record.isShort === true && !isError);
  const isSeries =
    !reads &&
    !isError &&
    last !== undefined &&
    last.tool === tool &&
    last.exactKey === exactKey &&
    !isSameKey(last.argsKey, argsKey) &&
    (last.tokens !== undefined || length >= tellingResultLength);
  const isKnown =
    !found.isNew ||
    found.isShown ||
    (found.isAnswered && !isShort) ||
    (executed && !isShort && answers.length > 0 && answers.includes(answerMark(tool, exactKey)));
  const tokens = args !== undefined && (isSeries || (isError && executed)) ? argumentTokens(args) : undefined;

  return {
    callId: record.callId,
    tool,
    argsKey,
    resultKey,
    exactKey,
    isError,
    errorCode: record.errorCode,
    readOnly: reads,
    inferred: predicted?.inferred ?? inferred,
    executed,
    blocked,
    refused: predicted?.refused ?? !executed,
    poll,
    round: record.round,
    ordinal: total,
    busy: busyBefore + took,
    took,
    isNew: found.isNew,
    isKnown,
    isStable: executed && !found.isFirst && !isError && length >= stableResultLength,
    changedWorld: found.isFirst && executed && !isError && !reads && !found.isShown,
    waiting: poll || last?.poll === true || (!isError && isWait(found.like, tool, args, busyBefore)),
    isShort,
    isComplaint: isError || record.saysError === true,
    isNext: isNextOf(last, tool, argsKey, exactKey),
    isStep: isShort && seemsToStep(tool, args),
    isShown: found.isShown,
    similar: isSeries && isNearIdentical(tokens, last?.tokens),
    tokens,
  };
}

interface Comparison {
  /** No identical call gave this result since a call last changed something. */
  isNew: boolean;
  /** No identical call gave this result at all. */
  isFirst: boolean;
  /** The tool gave this result to other arguments since a call last changed something. */
  isAnswered: boolean;
  /** The latest identical call, or else the latest call of the tool. */
  like: LoopEntry | undefined;
  /** Another tool gave this result, of some length. */
  isShown: boolean;
  /** The same round already had this very call with this very result. */
  again: boolean;
  /**
   * An identical call of the tool gave an equal result of some length before, and others gave other results: so the result
   * is no acknowledgement, but tells something about the arguments.
   */
  isToolStable: boolean;
}

/** The last comparison. Module state instead of an object per call, because this runs on every call. */
const compared: Comparison = {
  isNew: true,
  isFirst: true,
  isAnswered: false,
  like: undefined,
  isShown: false,
  again: false,
  isToolStable: false,
};

function compare(
  entries: readonly LoopEntry[],
  call: Pick<LoopRecord, "tool" | "argsKey" | "round">,
  resultKey: number,
  exactKey: number,
  known?: EntryIndex,
  isTelling = false,
): Readonly<Comparison> {
  const isSurelyNew = known !== undefined && !known.mayHave(call.argsKey) && !known.hasStable;
  const isSurelyUnanswered = isSurelyNew && !known.mayHaveResult(exactKey);
  let twin: LoopEntry | undefined;
  let sibling: LoopEntry | undefined;
  let worldChanged = false;
  let isAnswered = false;
  let isStable = false;
  let hasOtherResult = false;
  let isShown = false;
  let same: LoopEntry | undefined;
  const oldest = Math.max(0, entries.length - windowSize);
  for (let index = entries.length - 1; index >= oldest; index--) {
    const entry = entries[index]!;
    if (entry.tool === call.tool) {
      if (entry.isStable) isStable = true;
      if (entry.exactKey !== exactKey) hasOtherResult = true;
      else if (!worldChanged && entry.executed) isAnswered = true;
      if (isSameKey(entry.argsKey, call.argsKey)) {
        twin ??= entry;
        if (entry.resultKey === resultKey) {
          same = entry;
          break;
        }
      } else if (!entry.refused) {
        sibling ??= entry;
      }
    } else if (isTelling && entry.exactKey === exactKey) {
      isShown = true;
    }
    if (entry.changedWorld) worldChanged = true;
    if (isSurelyNew && sibling !== undefined && (isSurelyUnanswered || (worldChanged && !isTelling))) break;
  }
  compared.isNew = same === undefined || worldChanged;
  compared.isFirst = same === undefined;
  compared.isAnswered = isAnswered;
  compared.like = twin ?? sibling;
  compared.isShown = isShown;
  compared.again = same !== undefined && isSameRound(same, call);
  compared.isToolStable = isStable && hasOtherResult;
  return compared;
}
