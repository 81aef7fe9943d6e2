import { hashText } from "../schema/hash.ts";
import { loopEvidence } from "./loop-messages.ts";
import { predict } from "./loop-state.ts";
import { signals } from "./signals.ts";
import { blockedBeforeStop, fullWeight, roundsNeeded } from "./thresholds.ts";
import {
  isSameOutcome,
  isSameRound,
  type LoopCandidate,
  type LoopEntry,
  type LoopLadder,
  type LoopSighting,
  type LoopState,
  type LoopVerdict,
} from "./types.ts";

const actions: readonly LoopVerdict["action"][] = ["none", "nudge", "block", "stop"];
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
    const end = state.entries.length - 1;
    const head = state.entries[end];
    // A call that is no evidence of a loop was not kept in the state; the last entry is then an earlier call,
    // which has been judged.
    if (head === undefined || head.callId !== callId) return noLoop;
    return judge(state.entries, end, head, head.executed ? nudgeRank : stopRank);
  } catch {
    return noLoop;
  }
}

/**
 * Judges whether a call may run: "none", "block" or "stop". Assumes the predicted result; a call whose result changes
 * is never blocked. Never throws.
 */
export function assessNext(state: LoopState, candidate: LoopCandidate): LoopVerdict {
  try {
    if (state.stopped !== undefined) return state.stopped;
    const prediction = predict(state.entries, candidate, state.total + 1);
    if (prediction === undefined) return noLoop;
    const verdict = judge(state.entries, prediction.end, prediction.head, stopRank);
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
  const previous = previousResult(entries, end, head);
  return {
    action: actions[rank] ?? "none",
    signal: sighting.signal,
    count: sighting.count,
    period: sighting.period,
    fingerprint: fingerprint(sighting, entries, end, head),
    evidence: loopEvidence(sighting, head.tool, (entries[sighting.since] ?? head).ordinal),
    ...(previous && { previousCallId: previous.callId }),
  };
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
function fingerprint(
  { signal, since }: LoopSighting,
  entries: readonly LoopEntry[],
  end: number,
  head: LoopEntry,
): string {
  if (signal === "cycle" || signal === "drought") {
    const outcomes = new Set([outcomeKey(head)]);
    for (const entry of entries.slice(since, end)) outcomes.add(outcomeKey(entry));
    return hashText(`${signal} ${Array.from(outcomes).sort().join(" ")}`);
  }
  if (signal === "repeat" || signal === "interleaved") return hashText(`${signal} ${outcomeKey(head)}`);
  const key = signal === "refused" ? head.resultKey : head.exactKey;
  return hashText(`${signal} ${head.tool} ${key}`);
}

function outcomeKey(entry: LoopEntry): string {
  return `${entry.tool} ${entry.argsKey} ${entry.resultKey}`;
}
