import { isSameOutcome, isSameRound, weightOf } from "../entry-likeness.ts";
import { fullWeight, longestPeriod, thresholds } from "../thresholds.ts";
import type { LoopEntry, LoopSighting } from "../types.ts";

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
