import { isSameOutcome, isSameRound, weightOf } from "./likeness.ts";
import { fullWeight, interleavedReach, longestPeriod, thresholds } from "./thresholds.ts";
import type { LoopEntry, LoopSighting } from "./types.ts";

/**
 * Two to eight calls came again and again in the same order with the same results. One call over and over fits
 * that too, but `repeat` sees it earlier and is asked first.
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
  // How many trailing calls equal the one a period before them; the head is known to.
  let matched = 1;
  while (
    end - matched - period >= 0 &&
    isSameOutcome(entries[end - matched]!, entries[end - matched - period]!)
  ) {
    matched++;
  }
  if (matched < period) return undefined;

  // The first time round nobody has waited yet, so it weighs what the second time round weighs.
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
 * Call after call brought only results that the same calls had already brought. This sees cycles of any length
 * and irregular ones. A check repeated after something was changed is new, even when its answer stays the same.
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

/** The same call gave the same result several times among others, and nothing was changed in between. */
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
    // What made the change belongs to the changed world itself, hence after the comparison.
    if (entry.changedWorld) break;
  }
  if (quarters < thresholds.interleaved.nudge * fullWeight) return undefined;
  const ladder = head.isError ? thresholds.interleavedError : thresholds.interleaved;
  return { signal: "interleaved", ladder, count, quarters, rounds: count, period: 1, since };
}

/** Refusals that do not hang on what exactly was asked: other arguments with the same complaint are the same. */
const refusedWhateverTheArguments: ReadonlySet<string | undefined> = new Set([
  "tool_not_found",
  "tool_disabled",
  "invalid_arguments",
  "permission_denied",
]);

/** The same call was refused for the same reason before; refusals do not go away by insisting. */
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
    // A call of the tool that went through shows that the complaint was understood.
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
  // The first of a series cannot have waited for its like, so each entry weighs what its follower weighs:
  // that way a series of waits has exactly four times the patience.
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
 * One tool failed in the same way again, whatever its arguments, and nothing was changed in between. Calls of
 * other tools do not end the series unless they changed something; any other result of this tool does.
 *
 * Arguments that were never tried deserve a run once something was learned after a block; otherwise the first
 * block would close the tool for good. Each block grants one such run, and it still counts towards the stop.
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
 * One tool answered different arguments with the same result, one time after the other. (Equal arguments fit
 * too, but `repeat` sees those earlier and is asked first.) Only read-only tools
 * are judged so, because a batch of writes may well answer "ok" each time. Of a tool that is not declared
 * read-only a call counts when its arguments are nearly those of the call before and its result is a long one.
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
