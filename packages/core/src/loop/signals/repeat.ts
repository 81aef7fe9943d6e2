import { isSameOutcome, weightOf } from "../entry-likeness.ts";
import { fullWeight, thresholds } from "../thresholds.ts";
import type { LoopEntry, LoopSighting } from "../types.ts";

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
