import { hashText } from "../schema/hash.ts";
import { isSameOutcome, isSameRound } from "./likeness.ts";
import { loopEvidence } from "./loop-messages.ts";
import { predict } from "./predict.ts";
import { cycle, drought, interleaved, refused, repeat, sameError, stagnation } from "./signals.ts";
import type {
  LoopAction,
  LoopCandidate,
  LoopEntry,
  LoopLadder,
  LoopSighting,
  LoopSignalFunction,
  LoopState,
  LoopVerdict,
} from "./types.ts";

/** In order of how much they explain: of two signals that call for the same action the first is reported. */
const signals: readonly LoopSignalFunction[] = [
  refused,
  repeat,
  cycle,
  sameError,
  stagnation,
  interleaved,
  drought,
];

const actions: readonly LoopAction[] = ["none", "nudge", "block", "stop"];
const nudgeRank = 1;
const blockRank = 2;
const stopRank = 3;

const noLoop: LoopVerdict = Object.freeze({ action: "none", count: 0 });

/**
 * Whether the call that was just recorded calls for a word to the model. A call that ran gets a nudge at most;
 * a call that was refused anyway also "block" and "stop", since those cost it nothing. Never throws.
 */
export function assessFinished(state: LoopState, callId: string): LoopVerdict {
  try {
    const end = state.entries.length - 1;
    const head = state.entries[end];
    // A call that is no evidence was not kept; the entry before it has had its verdict.
    if (head === undefined || head.callId !== callId) return noLoop;
    return judge(state.entries, end, head, head.executed ? nudgeRank : stopRank);
  } catch {
    return noLoop;
  }
}

/**
 * Whether a call may run: "none", "block" or "stop". The result it would give is taken to be the one its pattern
 * promises; a call whose result changes is never held back. Never throws.
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
    const rank = rankOf(sighting);
    if (rank <= strongestRank) continue;
    strongest = sighting;
    strongestRank = rank;
  }
  if (strongest === undefined) return noLoop;
  if (strongestRank === blockRank && isBlockedInARow(entries, end)) strongestRank = stopRank;
  return toVerdict(strongest, Math.min(strongestRank, highest), entries, end, head);
}

function rankOf({ quarters, rounds, ladder }: LoopSighting): number {
  return Math.min(reached(ladder, quarters / fullWeight), reached(roundsNeeded, rounds));
}

function reached(ladder: LoopLadder, sightings: number): number {
  if (sightings >= ladder.stop) return stopRank;
  if (sightings >= ladder.block) return blockRank;
  return sightings >= ladder.nudge ? nudgeRank : 0;
}

/** Three decisions in a row were blocked. Patience is for waiting, not for insisting. */
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

/** The latest call that ran and gave what this one gives, with the same arguments if there is one. */
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

/** The same however often the loop went round and at whichever of its calls it was noticed. */
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

/** How many calls are remembered. What happened longer ago counts as never seen. */
export const windowSize = 24;

/** Longest cycle that is looked for; longer ones show as a drought. */
export const longestPeriod = 8;

/** How far back the same call may lie to count as interleaved, the call itself included. */
export const interleavedReach = 12;

/** A call that comes this long after its like is waiting, not looping. Milliseconds. */
export const waitingGap = 10_000;

/** Every sighting counts this many quarters, one made while waiting a single one: four times the patience. */
export const fullWeight = 4;

/** Attempts blocked in a row after which the next one ends the run, however patient the ladder. */
const blockedBeforeStop = 3;

/** Results shorter than this are acknowledgements: many different writes answer "ok". Characters. */
export const tellingResultLength = 200;

/** Share of common words from which arguments are near-identical. */
export const nearIdentical = 0.8;

const never = Number.POSITIVE_INFINITY;

/**
 * How many rounds must have shown a loop before it has each consequence. What a round does in parallel was
 * decided before its first result could be read, so many calls of few rounds are no sign of insisting.
 */
const roundsNeeded: LoopLadder = { nudge: 2, block: 3, stop: 5 };

/** From which sighting on a nudge is added, the call is blocked, the run is stopped. */
export const thresholds = {
  /** The same call with the same result, one after the other. */
  repeat: { nudge: 2, block: 3, stop: 5 },
  /** Repetitions of a whole cycle of calls and results. */
  cycle: { nudge: 2, block: 3, stop: 4 },
  /** The same error of one tool, whatever the arguments, while nothing was changed. */
  sameError: { nudge: 3, block: 5, stop: 8 },
  /** The same, but the call has new arguments and something was learned since the last one was blocked. */
  sameErrorAfterLearning: { nudge: 3, block: never, stop: 8 },
  /** A read-only tool that answers different arguments with the same result. */
  stagnation: { nudge: 4, block: 6, stop: 9 },
  /** Calls in a row that brought nothing new. */
  drought: { nudge: 3, block: 5, stop: 8 },
  /** The same call with the same result between others: worth a word, since it may be an anchor being re-read. */
  interleaved: { nudge: 4, block: never, stop: never },
  interleavedError: { nudge: 4, block: 5, stop: never },
  /** The same refusal: unknown tool, bad arguments, denied. Said one after the other it is a repeat and stops. */
  refused: { nudge: 2, block: 3, stop: never },
} satisfies Record<string, LoopLadder>;
