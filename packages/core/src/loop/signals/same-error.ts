import { isSameRound, weightOf } from "../entry-likeness.ts";
import { fullWeight, thresholds } from "../thresholds.ts";
import type { LoopEntry, LoopSighting } from "../types.ts";

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
