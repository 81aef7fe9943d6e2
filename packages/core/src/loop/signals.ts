import { isSameOutcome, isSameRound, weightOf } from "./likeness.ts";
import { fullWeight, interleavedReach, longestPeriod, thresholds } from "./thresholds.ts";
import type { LoopEntry, LoopSighting } from "./types.ts";

/**
 * Two to eight calls repeat in the same order with the same results. A single repeated call matches too, but `repeat`
 * reports it first.
 */
export function cycle(entries: readonly LoopEntry[], end: number, head: LoopEntry): LoopSighting | undefined {
  let strongest: LoopSighting | undefined;
  for (let period = 2; period <= longestPeriod && period <= end; period++) {
    if (!isSameOutcome(head, entries[end - period]!)) continue;
    const sighting = cycleOf(period, entries, end, head);
    if (sighting && sighting.quarters > (strongest?.quarters ?? 0)) strongest = sighting;
  }
  return strongest;
}

function cycleOf(
  period: number,
  entries: readonly LoopEntry[],
  end: number,
  head: LoopEntry,
): LoopSighting | undefined {
  // How many of the last calls equal the call one period before. The head is known to.
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
  if (quarters < thresholds.cycle.nudge * fullWeight) return undefined;
  const since = end + 1 - matched - period;
  return {
    signal: "cycle",
    ladder: thresholds.cycle,
    count: Math.floor((matched + period) / period),
    quarters,
    rounds: roundsOf(entries, since, end, head),
    period,
    since,
  };
}

function roundsOf(entries: readonly LoopEntry[], since: number, end: number, head: LoopEntry): number {
  let rounds = 1;
  let newer = head;
  for (let index = end - 1; index >= since; index--) {
    const entry = entries[index]!;
    if (!isSameRound(entry, newer)) rounds++;
    newer = entry;
  }
  return rounds;
}

/**
 * Several calls in a row gave only results that the same calls gave before. This finds long and irregular cycles. A
 * check that is repeated after a change counts as new.
 */
export function drought(
  entries: readonly LoopEntry[],
  end: number,
  head: LoopEntry,
): LoopSighting | undefined {
  if (head.isNew) return undefined;
  let since = end;
  let count = 1;
  let quarters = weightOf(head);
  let rounds = 1;
  let newer = head;
  for (let index = end - 1; index >= 0; index--) {
    const entry = entries[index]!;
    if (entry.isNew) break;
    since = index;
    if (!isSameRound(entry, newer)) rounds++;
    newer = entry;
    count++;
    quarters += weightOf(entry);
  }
  if (quarters < thresholds.drought.nudge * fullWeight) return undefined;
  return { signal: "drought", ladder: thresholds.drought, count, quarters, rounds, period: 1, since };
}

/** The same call gave the same result several times between others, without a change in between. */
export function interleaved(
  entries: readonly LoopEntry[],
  end: number,
  head: LoopEntry,
): LoopSighting | undefined {
  let since = end;
  let count = 1;
  let weight = weightOf(head);
  let quarters = weight;
  const oldest = Math.max(0, end - interleavedReach + 1);
  for (let index = end - 1; index >= oldest; index--) {
    const entry = entries[index]!;
    if (isSameOutcome(entry, head)) {
      since = index;
      count++;
      quarters += weight;
      weight = weightOf(entry);
    }
    // The changing call itself belongs to the time after the change, so it is compared first.
    if (entry.changedWorld) break;
  }
  if (quarters < thresholds.interleaved.nudge * fullWeight) return undefined;
  const ladder = head.isError ? thresholds.interleavedError : thresholds.interleaved;
  return { signal: "interleaved", ladder, count, quarters, rounds: count, period: 1, since };
}

/** Refusals that do not depend on the arguments. */
const refusedWhateverTheArguments: ReadonlySet<string | undefined> = new Set([
  "tool_not_found",
  "tool_disabled",
  "invalid_arguments",
  "permission_denied",
]);

/** The same call was refused before for the same reason. */
export function refused(
  entries: readonly LoopEntry[],
  end: number,
  head: LoopEntry,
): LoopSighting | undefined {
  if (!head.refused) return undefined;
  const anyArguments = refusedWhateverTheArguments.has(head.errorCode);
  let since = end;
  let count = 1;
  let newest = head;
  for (let index = end - 1; index >= 0; index--) {
    const entry = entries[index]!;
    if (entry.tool !== head.tool) continue;
    // A successful call of the tool shows that the model understood.
    if (anyArguments && entry.executed) break;
    if (!entry.refused || entry.resultKey !== head.resultKey) continue;
    if (!anyArguments && entry.argsKey !== head.argsKey) continue;
    since = index;
    if (isSameRound(entry, newest)) continue;
    newest = entry;
    count++;
  }
  if (count < thresholds.refused.nudge) return undefined;
  const quarters = count * fullWeight;
  return { signal: "refused", ladder: thresholds.refused, count, quarters, rounds: count, period: 1, since };
}

/** The same call gave the same result, one time after the other. */
export function repeat(
  entries: readonly LoopEntry[],
  end: number,
  head: LoopEntry,
): LoopSighting | undefined {
  let since = end;
  // The first call of a series cannot have waited, so each entry weighs as much as its successor: a series of waits
  // then gets exactly four times as many repetitions.
  let weight = weightOf(head);
  let quarters = weight;
  while (since > 0) {
    const entry = entries[since - 1]!;
    if (!isSameOutcome(entry, head)) break;
    since--;
    quarters += weight;
    weight = weightOf(entry);
  }
  if (quarters < thresholds.repeat.nudge * fullWeight) return undefined;
  const count = end - since + 1;
  return { signal: "repeat", ladder: thresholds.repeat, count, quarters, rounds: count, period: 1, since };
}

/**
 * One tool fails in the same way again, with any arguments, without a change in between. Calls of other tools do not
 * end the series unless they change something; any other result of this tool does. After a block, new arguments get one
 * run if something was learned since, or the tool would be closed for good. That run still counts towards the stop.
 */
export function sameError(
  entries: readonly LoopEntry[],
  end: number,
  head: LoopEntry,
): LoopSighting | undefined {
  if (!head.isError || head.refused) return undefined;
  let since = end;
  let count = 1;
  let weight = weightOf(head);
  let quarters = weight;
  let rounds = 1;
  let newer = head;
  let met = false;
  let learned = false;
  let spared = false;
  for (let index = end - 1; index >= 0; index--) {
    const entry = entries[index]!;
    if (entry.changedWorld) break;
    if (entry.refused) continue;
    if (entry.tool !== head.tool) {
      learned ||= !met && entry.executed && entry.isNew;
      continue;
    }
    if (entry.exactKey !== head.exactKey || !entry.isError) break;
    since = index;
    if (!met) spared = learned && head.isNew && entry.blocked;
    met = true;
    if (!isSameRound(entry, newer)) rounds++;
    newer = entry;
    count++;
    quarters += weight;
    weight = weightOf(entry);
  }
  if (quarters < thresholds.sameError.nudge * fullWeight) return undefined;
  const ladder = spared ? thresholds.sameErrorAfterLearning : thresholds.sameError;
  return { signal: "same_error", ladder, count, quarters, rounds, period: 1, since };
}

/**
 * One tool gives the same result for different arguments in a row. (For equal arguments `repeat` reports it first.)
 * Only for read-only tools, because many writes answer "ok". For other tools a call counts if its arguments are nearly
 * those of the call before and its result is long.
 */
export function stagnation(
  entries: readonly LoopEntry[],
  end: number,
  head: LoopEntry,
): LoopSighting | undefined {
  if (head.refused || (!head.readOnly && !head.similar)) return undefined;
  let since = end;
  let count = 1;
  let weight = weightOf(head);
  let quarters = weight;
  let rounds = 1;
  let newer = head;
  for (let index = end - 1; index >= 0; index--) {
    const entry = entries[index]!;
    if (entry.tool !== head.tool || entry.exactKey !== head.exactKey || entry.refused) break;
    if (!head.readOnly && !newer.similar) break;
    since = index;
    if (!isSameRound(entry, newer)) rounds++;
    newer = entry;
    count++;
    quarters += weight;
    weight = weightOf(entry);
  }
  if (quarters < thresholds.stagnation.nudge * fullWeight) return undefined;
  return { signal: "stagnation", ladder: thresholds.stagnation, count, quarters, rounds, period: 1, since };
}
