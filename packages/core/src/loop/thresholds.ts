import type { LoopLadder } from "./types.ts";

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
export const blockedBeforeStop = 3;

/** Results shorter than this are acknowledgements: many different writes answer "ok". Characters. */
export const tellingResultLength = 200;

/** Share of common words from which arguments are near-identical. */
export const nearIdentical = 0.8;

const never = Number.POSITIVE_INFINITY;

/**
 * How many rounds must have shown a loop before it has each consequence. What a round does in parallel was
 * decided before its first result could be read, so many calls of few rounds are no sign of insisting.
 */
export const roundsNeeded: LoopLadder = { nudge: 2, block: 3, stop: 5 };

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
