import { argumentTokens, isSameCall, isSameRound, similarity } from "./likeness.ts";
import { nearIdentical, waitingGap } from "./thresholds.ts";
import type { LoopCandidate, LoopEntry } from "./types.ts";

/** A call that has not run, as it would be remembered if it gave the result its pattern promises. */
interface LoopPrediction {
  readonly head: LoopEntry;
  /** The calls before it are `entries[0..end)`. */
  readonly end: number;
}

/**
 * What a call would give: the result its twin gave or, for arguments not tried yet, the last result of the tool.
 * `undefined` when nothing can be foretold. That is so for a call whose last two results differ, which is why a
 * changing result is never blocked.
 */
export function predict(
  entries: readonly LoopEntry[],
  candidate: LoopCandidate,
  ordinal: number,
): LoopPrediction | undefined {
  let end = entries.length;
  let twin: LoopEntry | undefined;
  let twinInThisWorld = false;
  let sibling: LoopEntry | undefined;
  let worldChanged = false;
  for (let index = end - 1; index >= 0; index--) {
    const entry = entries[index]!;
    if (entry.tool === candidate.tool && !isOutdatedRefusal(entry)) {
      if (!isSameCall(entry, candidate)) {
        if (sibling === undefined && !entry.refused) sibling = entry;
      } else if (isSameRound(entry, candidate)) {
        // Identical calls of one round count once: this one gets the verdict that the first of them got.
        end = index;
        twin = undefined;
        sibling = undefined;
        worldChanged = false;
        continue;
      } else if (twin === undefined) {
        twin = entry;
        twinInThisWorld = !worldChanged;
      } else {
        if (entry.resultKey !== twin.resultKey) return undefined;
        break;
      }
    }
    if (entry.changedWorld) worldChanged = true;
  }

  const model = twin ?? sibling;
  if (model === undefined) return undefined;
  const last = entries[end - 1];
  const follows = model === last;
  const similar = twin === undefined && follows && isNearlyTheSame(candidate, model);
  // Without a twin only two signals can see anything: the same error, and a series of equal results.
  if (twin === undefined && !model.isError && !(follows && candidate.readOnly) && !similar) return undefined;

  const poll = candidate.poll === true;
  const head: LoopEntry = {
    callId: "",
    tool: candidate.tool,
    argsKey: candidate.argsKey,
    resultKey: model.resultKey,
    exactKey: model.exactKey,
    isError: model.isError,
    errorCode: model.errorCode,
    readOnly: candidate.readOnly,
    executed: !model.refused,
    blocked: false,
    refused: model.refused,
    poll,
    round: candidate.round,
    at: candidate.at,
    ordinal,
    isNew: !twinInThisWorld,
    changedWorld: false,
    waiting: poll || candidate.at - model.at >= waitingGap || last?.poll === true,
    similar,
    tokens: undefined,
  };
  return { head, end };
}

/**
 * A call is judged after its name, arguments and permissions were found good. Whatever was refused for one of
 * those before tells nothing of it; only the word of a person does.
 */
function isOutdatedRefusal(entry: LoopEntry): boolean {
  return entry.refused && !entry.blocked && entry.errorCode !== "approval_denied";
}

function isNearlyTheSame(candidate: LoopCandidate, model: LoopEntry): boolean {
  if (candidate.readOnly || model.tokens === undefined || candidate.args === undefined) return false;
  return similarity(argumentTokens(candidate.args), model.tokens) >= nearIdentical;
}
