import { isSameRound, weightOf } from "../entry-likeness.ts";
import { fullWeight, thresholds } from "../thresholds.ts";
import type { LoopEntry, LoopSighting } from "../types.ts";

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
