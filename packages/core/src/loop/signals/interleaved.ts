import { isSameOutcome, weightOf } from "../entry-likeness.ts";
import { fullWeight, interleavedReach, thresholds } from "../thresholds.ts";
import type { LoopEntry, LoopSighting } from "../types.ts";

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
