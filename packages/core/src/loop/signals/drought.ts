import { isSameRound, weightOf } from "../entry-likeness.ts";
import { fullWeight, thresholds } from "../thresholds.ts";
import type { LoopEntry, LoopSighting } from "../types.ts";

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
