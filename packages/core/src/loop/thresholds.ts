import type { LoopEntry, LoopLadder } from "./types.ts";

/** How many calls are remembered. */
export const windowSize = 24;

/** The remembered calls of a memory, which may still hold some before them. */
export function windowOf(entries: readonly LoopEntry[]): readonly LoopEntry[] {
  return entries.length <= windowSize ? entries : entries.slice(-windowSize);
}

/** How many answers are remembered since the last change. */
export const mostAnswers = 64;

/** The longest cycle of calls that is found as a cycle. Longer ones are found because they bring nothing new (`drought`). */
export const longestPeriod = 8;

/** How far back the same call may lie to count as interleaved, the call itself included. */
export const interleavedReach = 12;

/**
 * Milliseconds inside tools. A repetition after more of them is waiting, not looping. The model's own time does not
 * count: a slow model would otherwise never be in a loop.
 */
export const waitingTime = 10_000;

/**
 * How many quarters a repetition counts. While waiting it counts one quarter, so waiting may repeat four
 * times as often.
 */
export const fullWeight = 4;
/** Of a repetition that rests on an inference. */
export const inferredWeight = 3;
/** Of an attempt that was made after something new was learned, and of a known answer to untried arguments. */
export const informedWeight = 2;

/** After this many blocked rounds in a row, the next block stops the run. */
export const blockedBeforeStop = 3;

/** Characters. Shorter results are acknowledgements: many different writes answer "ok". */
export const tellingResultLength = 200;

/** Characters. A result of this length that comes again after an identical call shows that the call only reads. */
export const stableResultLength = 40;

/** Share of common words from which arguments are near-identical. */
export const nearIdentical = 0.8;

const never = Number.POSITIVE_INFINITY;

/**
 * In how many rounds a loop must appear before each action. Parallel calls of one round were decided before any result,
 * so they do not show that the model insists.
 */
export const roundsNeeded: LoopLadder = { nudge: 2, block: 3, stop: 5 };

/** The number of repetitions for each action. */
export const thresholds = {
  /** The same call with the same result, one after the other. */
  repeat: { nudge: 2, block: 3, stop: 5 },
  /** Repetitions of a whole cycle of calls and results. */
  cycle: { nudge: 2, block: 3, stop: 4 },
  /** The same error of one tool, whatever the arguments, while nothing was changed. */
  sameError: { nudge: 3, block: 5, stop: 8 },
  /** The same error, but the call has new arguments, and another tool gave a new result since the last attempt. */
  sameErrorAfterLearning: { nudge: 3, block: never, stop: 8 },
  /** A read-only tool that answers different arguments with the same result. */
  stagnation: { nudge: 4, block: 6, stop: 9 },
  /** Calls in a row that brought nothing new. */
  drought: { nudge: 3, block: 5, stop: 8 },
  /** Read-only or failing calls in a row whose answers were all seen before, whatever the arguments. */
  knownAnswers: { nudge: 3, block: 6, stop: 9 },
  /** The same call with the same result between others. Only a nudge, since the model may re-read a reference. */
  interleaved: { nudge: 4, block: never, stop: never },
  interleavedError: { nudge: 4, block: 5, stop: never },
  /**
   * The same refusal: unknown tool, bad arguments, denied. One after the other, refusals are also a `repeat`,
   * which can stop the run.
   */
  refused: { nudge: 2, block: 3, stop: never },
} satisfies Record<string, LoopLadder>;
