import { isSameRound } from "../entry-likeness.ts";
import { fullWeight, thresholds } from "../thresholds.ts";
import type { LoopEntry, LoopSighting } from "../types.ts";

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
