import { hashText } from "../schema/hash.ts";
import type { EntryIndex } from "./entry-index.ts";
import { loopClears, loopEvidence } from "./loop-messages.ts";
import { predict } from "./prediction.ts";
import { signals } from "./signals.ts";
import { blockedBeforeStop, fullWeight, roundsNeeded, windowOf } from "./thresholds.ts";
import {
  type Inferred,
  isSameOutcome,
  isSameRound,
  type LoopCandidate,
  type LoopEntry,
  type LoopLadder,
  type LoopSighting,
  type LoopSignal,
  type LoopState,
  type LoopVerdict,
  outcomeKey,
} from "./types.ts";

/** From the weakest to the strongest. */
export const actions: readonly LoopVerdict["action"][] = ["none", "nudge", "block", "stop"];
const nudgeRank = 1;
const blockRank = 2;
const stopRank = 3;

const noLoop: LoopVerdict = Object.freeze({ action: "none", count: 0 });

/**
 * Judges the call that was just recorded. A call that ran gets a nudge at most; a refused call may also get "block" and
 * "stop". Never throws.
 */
export function assessFinished(state: LoopState, callId: string): LoopVerdict {
  try {
    // A call that is no evidence of a loop was not kept in the state; the last entry is then an earlier call,
    // which has been judged.
    const head = state.entries.at(-1);
    return head?.callId === callId ? assessLast(state) : noLoop;
  } catch {
    return noLoop;
  }
}

/** Judges the last call of a state that has one. */
export function assessLast({ entries }: LoopState): LoopVerdict {
  const end = entries.length - 1;
  const head = entries[end]!;
  // Every signal needs an answer that was there before, or a failure.
  if (head.isNew && !head.isKnown && !head.isError && !head.refused && !head.similar) return noLoop;
  const window = windowOf(entries);
  return judge(window, window.length - 1, head, head.executed ? nudgeRank : stopRank);
}

/**
 * Judges whether a call may run: "none", "block" or "stop". Assumes the predicted result; a call whose result changes
 * is never blocked. Never throws.
 */
export function assessNext(
  state: LoopState & { readonly index?: EntryIndex | undefined },
  candidate: LoopCandidate,
): LoopVerdict {
  try {
    if (state.stopped !== undefined) return state.stopped;
    const prediction = predict(state.entries, candidate, state.total + 1, state.busy ?? 0, state.index);
    if (prediction === undefined) return noLoop;
    const verdict = judge(windowOf(state.entries), prediction.end, prediction.head, stopRank);
    return verdict.action === "nudge" ? noLoop : verdict;
  } catch {
    return noLoop;
  }
}

function judge(entries: readonly LoopEntry[], end: number, head: LoopEntry, highest: number): LoopVerdict {
  let strongest: LoopSighting | undefined;
  let strongestRank = 0;
  for (const signal of signals) {
    const sighting = signal(entries, end, head);
    if (sighting === undefined) continue;
    const { quarters, rounds, ladder } = sighting;
    const rank = Math.min(reached(ladder, quarters / fullWeight), reached(roundsNeeded, rounds));
    if (rank <= strongestRank) continue;
    strongest = sighting;
    strongestRank = rank;
  }
  if (strongest === undefined) return noLoop;
  if (strongestRank === blockRank && isBlockedInARow(entries, end)) strongestRank = stopRank;
  return toVerdict(strongest, Math.min(strongestRank, highest), entries, end, head);
}

function reached(ladder: LoopLadder, sightings: number): number {
  if (sightings >= ladder.stop) return stopRank;
  if (sightings >= ladder.block) return blockRank;
  return sightings >= ladder.nudge ? nudgeRank : 0;
}

/** Whether the last three decisions of the model were all blocked. */
function isBlockedInARow(entries: readonly LoopEntry[], end: number): boolean {
  let rounds = 0;
  for (let index = end - 1; index >= 0 && rounds < blockedBeforeStop; index--) {
    const entry = entries[index]!;
    if (!entry.blocked) return false;
    const newer = entries[index + 1];
    if (index + 1 === end || newer === undefined || !isSameRound(entry, newer)) rounds++;
  }
  return rounds === blockedBeforeStop;
}

function toVerdict(
  sighting: LoopSighting,
  rank: number,
  entries: readonly LoopEntry[],
  end: number,
  head: LoopEntry,
): LoopVerdict {
  const { signal, count, period, indexes } = sighting;
  const previous = previousResult(entries, end, head);
  const counted = indexes.map((index) => entries[index]!).reverse();
  const inferred = restsOnEffects.has(signal) ? inferencesOf([...counted, head]) : [];
  const action = actions[rank] ?? "none";
  return {
    action,
    signal,
    count,
    period,
    fingerprint: fingerprint(signal, counted, head),
    evidence: loopEvidence(sighting, head.tool, (counted[0] ?? head).ordinal, inferred),
    ...(inferred.length > 0 && { inferred }),
    calls: [...counted, head].flatMap(({ callId }) => (callId === "" ? [] : [callId])),
    clears: loopClears(action, signal, head.tool),
    ...(previous && { previousCallId: previous.callId }),
  };
}

/** Signals that count what calls do: that they only read, or that they failed. The others compare calls and results. */
const restsOnEffects: ReadonlySet<LoopSignal> = new Set([
  "same_error",
  "stagnation",
  "interleaved",
  "drought",
  "known_answers",
]);

function inferencesOf(entries: readonly LoopEntry[]): Inferred[] {
  return [...new Set(entries.flatMap(({ inferred }) => inferred ?? []))];
}

/** The latest call that ran with the same result, preferably with the same arguments. */
function previousResult(entries: readonly LoopEntry[], end: number, head: LoopEntry): LoopEntry | undefined {
  let sibling: LoopEntry | undefined;
  for (let index = end - 1; index >= 0; index--) {
    const entry = entries[index]!;
    if (!entry.executed || entry.tool !== head.tool) continue;
    if (isSameOutcome(entry, head)) return entry;
    if (entry.exactKey === head.exactKey) sibling ??= entry;
  }
  return sibling;
}

/** A hash that is the same for every repetition of the loop, at whichever call it was noticed. */
function fingerprint(signal: LoopSignal, counted: readonly LoopEntry[], head: LoopEntry): string {
  if (signal === "cycle" || signal === "drought" || signal === "known_answers") {
    const outcomes = new Set([...counted, head].map(outcomeKey));
    return hashText(`${signal} ${Array.from(outcomes).sort().join(" ")}`);
  }
  if (signal === "repeat" || signal === "interleaved") return hashText(`${signal} ${outcomeKey(head)}`);
  const key = signal === "refused" ? head.resultKey : head.exactKey;
  return hashText(`${signal} ${head.tool} ${key}`);
}
