import { isSameKey } from "./arguments.ts";
import {
  fullWeight,
  inferredWeight,
  informedWeight,
  interleavedReach,
  longestPeriod,
  thresholds,
} from "./thresholds.ts";
import {
  isSameOutcome,
  isSameRound,
  type LoopEntry,
  type LoopLadder,
  type LoopSighting,
  type LoopSignal,
} from "./types.ts";

/**
 * Looks for one kind of loop. `head` is the judged call, `entries[0..end)` are the calls before it. Returns
 * `undefined` below the nudge threshold, the common case.
 */
type LoopSignalFunction = (
  entries: readonly LoopEntry[],
  end: number,
  head: LoopEntry,
) => LoopSighting | undefined;

/** Quarters that an entry adds to a count. */
function weightOf(entry: LoopEntry): number {
  return entry.waiting || entry.isStep ? 1 : fullWeight;
}

/** The same for signals that rest on what a call does: an inference counts less. */
function weightOfEffect(entry: LoopEntry): number {
  if (entry.isNext) return 1;
  return Math.min(weightOf(entry), entry.inferred === undefined ? fullWeight : inferredWeight);
}

/** Calls that repeat each other, collected from the judged call backwards. */
class Series {
  rounds = 1;
  newest: LoopEntry;
  readonly indexes: number[] = [];
  readonly #weigh: (entry: LoopEntry) => number;
  #quarters: number;
  #weight: number;

  constructor(head: LoopEntry, weigh = weightOf) {
    this.newest = head;
    this.#weigh = weigh;
    this.#weight = weigh(head);
    this.#quarters = this.#weight;
  }

  get count(): number {
    return this.indexes.length + 1;
  }

  /**
   * Adds an earlier call. The first call of a series cannot have waited, so each call weighs as much as the
   * call after it: a series of waits then gets exactly four times as many repetitions.
   */
  add(entry: LoopEntry, index: number, weight = this.#weight): void {
    this.indexes.push(index);
    if (!isSameRound(entry, this.newest)) this.rounds++;
    this.newest = entry;
    this.#quarters += weight;
    this.#weight = this.#weigh(entry);
  }

  sighting(signal: LoopSignal, ladder: LoopLadder): LoopSighting | undefined {
    const { count, rounds, indexes } = this;
    if (this.#quarters < ladder.nudge * fullWeight) return undefined;
    return { signal, ladder, count, quarters: this.#quarters, rounds, period: 1, indexes };
  }
}

/** Refusals that count as the same whatever the arguments are. */
const refusedWhateverTheArguments: ReadonlySet<string | undefined> = new Set([
  "tool_not_found",
  "tool_disabled",
  "invalid_arguments",
  "permission_denied",
]);

/** The same call was refused before for the same reason. */
const refused: LoopSignalFunction = (entries, end, head) => {
  if (!head.refused) return undefined;
  const anyArguments = refusedWhateverTheArguments.has(head.errorCode);
  const series = new Series(head);
  for (let index = end - 1; index >= 0; index--) {
    const entry = entries[index]!;
    if (entry.tool !== head.tool) continue;
    // A call that ran shows that the model understood the refusal.
    if (anyArguments && entry.executed) break;
    if (!entry.refused || entry.resultKey !== head.resultKey) continue;
    if (anyArguments || isSameKey(entry.argsKey, head.argsKey)) series.add(entry, index);
  }
  // Refusals of one round count once, and no refusal is a wait.
  const { rounds, indexes } = series;
  const ladder = thresholds.refused;
  if (rounds < ladder.nudge) return undefined;
  const quarters = rounds * fullWeight;
  return { signal: "refused", ladder, count: rounds, quarters, rounds, period: 1, indexes };
};

/** The same call gave the same result, one time after the other. */
const repeat: LoopSignalFunction = (entries, end, head) => {
  if (end === 0 || !isSameOutcome(entries[end - 1]!, head)) return undefined;
  const series = new Series(head);
  for (let index = end - 1; index >= 0 && isSameOutcome(entries[index]!, head); index--) {
    series.add(entries[index]!, index);
  }
  return series.sighting("repeat", thresholds.repeat);
};

/**
 * Two to eight calls repeat in the same order with the same results. A single repeated call matches too, but `repeat`
 * reports it first.
 */
const cycle: LoopSignalFunction = (entries, end, head) => {
  let strongest: LoopSighting | undefined;
  for (let period = 2; period <= longestPeriod && period <= end; period++) {
    if (!isSameOutcome(head, entries[end - period]!)) continue;
    const sighting = cycleOf(period, entries, end, head);
    if (sighting && sighting.quarters > (strongest?.quarters ?? 0)) strongest = sighting;
  }
  return strongest;
};

function cycleOf(
  period: number,
  entries: readonly LoopEntry[],
  end: number,
  head: LoopEntry,
): LoopSighting | undefined {
  // How many of the last calls equal the call one period before them. The head is known to do so.
  let matched = 1;
  while (
    end - matched - period >= 0 &&
    isSameOutcome(entries[end - matched]!, entries[end - matched - period]!)
  ) {
    matched++;
  }
  if (matched < period) return undefined;
  // The first cycle cannot contain waiting, so it weighs as much as the second.
  let quarters = weightOf(head) + (matched === period ? weightOf(head) : 0);
  for (let back = 1; back < matched; back++) {
    const weight = weightOf(entries[end - back]!);
    quarters += back >= matched - period ? 2 * weight : weight;
  }
  quarters /= period;
  const ladder = thresholds.cycle;
  if (quarters < ladder.nudge * fullWeight) return undefined;
  const first = end + 1 - matched - period;
  const series = new Series(head);
  for (let index = end - 1; index >= first; index--) series.add(entries[index]!, index);
  const { rounds, indexes } = series;
  const count = Math.floor((matched + period) / period);
  return { signal: "cycle", ladder, count, quarters, rounds, period, indexes };
}

/**
 * One tool fails in the same way again, with any arguments, without a change in between. Calls of other tools do not end
 * the series unless they change something; any other result of this tool does. An attempt with new arguments after
 * another tool gave a new result is an informed one: it counts half, and is not blocked.
 */
const sameError: LoopSignalFunction = (entries, end, head) => {
  if (!head.isError || head.refused) return undefined;
  const series = new Series(head, weightOfEffect);
  // Something new was learned since the attempt before the newest one of the series.
  let learned = false;
  let isInformed = false;
  for (let index = end - 1; index >= 0; index--) {
    const entry = entries[index]!;
    if (entry.changedWorld) break;
    if (entry.refused) continue;
    const isSame = entry.isError && entry.exactKey === head.exactKey;
    if (entry.tool !== head.tool && !isSame) {
      learned ||= entry.executed && entry.isNew;
      continue;
    }
    if (!isSame) break;
    const wasInformed = learned && series.newest.isNew;
    if (series.count === 1) isInformed = wasInformed;
    series.add(entry, index, wasInformed ? informedWeight : undefined);
    learned = false;
  }
  return series.sighting("same_error", isInformed ? thresholds.sameErrorAfterLearning : thresholds.sameError);
};

/**
 * One tool gives the same result for different arguments in a row. (For equal arguments `repeat` reports it first.)
 * Only for read-only tools, because many writes answer "ok". For other tools a call counts if its arguments are nearly
 * those of the call before and its result is long.
 */
const stagnation: LoopSignalFunction = (entries, end, head) => {
  if (head.refused || head.isShort || (!head.readOnly && !head.similar)) return undefined;
  const series = new Series(head, weightOfEffect);
  for (let index = end - 1; index >= 0; index--) {
    const entry = entries[index]!;
    if (entry.tool !== head.tool || entry.exactKey !== head.exactKey || entry.refused) break;
    // A shell that was silent about changes says nothing about what a look will show.
    if (head.readOnly ? !entry.readOnly : !series.newest.similar) break;
    const [key, before] = [series.newest.argsKey, entry.argsKey];
    const isElsewhere =
      entry.isNew && typeof key !== "string" && typeof before !== "string" && key.keepsPartOf(before);
    series.add(entry, index, isElsewhere ? inferredWeight : undefined);
  }
  return series.sighting("stagnation", thresholds.stagnation);
};

/** The same call gave the same result several times between others, without a change in between. */
const interleaved: LoopSignalFunction = (entries, end, head) => {
  let series: Series | undefined;
  const oldest = Math.max(0, end - interleavedReach + 1);
  for (let index = end - 1; index >= oldest; index--) {
    const entry = entries[index]!;
    if (isSameOutcome(entry, head)) {
      series ??= new Series(head, weightOfEffect);
      series.add(entry, index);
    }
    // The changing call itself belongs to the time after the change, so it is compared first.
    if (entry.changedWorld) break;
  }
  return series?.sighting("interleaved", head.isError ? thresholds.interleavedError : thresholds.interleaved);
};

/**
 * Several calls in a row gave only results that the same calls gave before. This finds long and irregular cycles. A
 * check that is repeated after a change counts as new.
 */
const drought: LoopSignalFunction = (entries, end, head) => {
  if (head.isNew) return undefined;
  const series = new Series(head);
  for (let index = end - 1; index >= 0 && !entries[index]!.isNew; index--) {
    const entry = entries[index]!;
    // A wait and the check that it is for are one repetition, not two.
    series.add(entry, index, entry.waiting && entry.tool !== head.tool ? 0 : weightOf(entry));
  }
  return series.sighting("drought", thresholds.drought);
};

/**
 * Read-only or failing calls in a row whose answers were all given before, to these or other arguments. A known answer to
 * untried arguments counts less, one that is no complaint least. Ends with a new answer, and when a call changes something.
 */
const knownAnswers: LoopSignalFunction = (entries, end, head) => {
  if (!isKnownAnswer(head)) return undefined;
  const series = new Series(head, weightOfAnswer);
  for (let index = end - 1; index >= 0; index--) {
    const entry = entries[index]!;
    if (entry.refused && !entry.blocked) continue;
    if (!isKnownAnswer(entry)) break;
    series.add(entry, index, weightOfAnswer(entry));
  }
  return series.sighting("known_answers", thresholds.knownAnswers);
};

/** The same call with the same result changes nothing either, whatever it does. */
function isKnownAnswer({ isKnown, isNew, readOnly, isError, isShown, refused }: LoopEntry): boolean {
  return isKnown && !refused && (readOnly || isError || isShown || !isNew);
}

function weightOfAnswer(entry: LoopEntry): number {
  const weight = weightOfEffect(entry);
  if (!entry.isNew) return weight;
  return Math.min(
    weight,
    entry.inferred === undefined || entry.isComplaint ? inferredWeight : informedWeight,
  );
}

/** The most telling first: of two signals with the same action the first is reported. */
export const signals: readonly LoopSignalFunction[] = [
  refused,
  repeat,
  cycle,
  sameError,
  stagnation,
  interleaved,
  drought,
  knownAnswers,
];
