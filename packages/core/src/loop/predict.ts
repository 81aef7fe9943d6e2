import { argumentTokens, isSameCall, isSameRound, similarity } from "./likeness.ts";
import { nearIdentical, waitingGap } from "./thresholds.ts";
import type { LoopCandidate, LoopEntry } from "./types.ts";

/** A call that has not run, with its predicted result. */
interface LoopPrediction {
  readonly head: LoopEntry;
  /** The calls before it are `entries[0..end)`. */
  readonly end: number;
}

/**
 * Predicts the result of a call: that of its last identical call or, for new arguments, the last result of the tool.
 * Undefined when nothing can be predicted, also when the last two results of identical calls differ; so a changing
 * result is never blocked.
 */
export function predict(
  entries: readonly LoopEntry[],
  candidate: LoopCandidate,
  ordinal: number,
): LoopPrediction | undefined {
  let end = entries.length;
  let twin: LoopEntry | undefined;
  let isTwinCurrent = false;
  let sibling: LoopEntry | undefined;
  let worldChanged = false;
  for (let index = end - 1; index >= 0; index--) {
    const entry = entries[index]!;
    if (entry.tool === candidate.tool && !isOutdatedRefusal(entry)) {
      if (!isSameCall(entry, candidate)) {
        if (sibling === undefined && !entry.refused) sibling = entry;
      } else if (isSameRound(entry, candidate)) {
        // Identical calls of one round count once: all get the verdict of the first.
        end = index;
        twin = undefined;
        sibling = undefined;
        worldChanged = false;
        continue;
      } else if (twin === undefined) {
        twin = entry;
        isTwinCurrent = !worldChanged;
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
  // Without an identical call only two signals apply: the same error, and a series of equal results.
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
    isNew: !isTwinCurrent,
    changedWorld: false,
    waiting: poll || candidate.at - model.at >= waitingGap || last?.poll === true,
    similar,
    tokens: undefined,
  };
  return { head, end };
}

/**
 * The candidate has passed the checks of name, arguments and permissions, so earlier refusals for these say nothing
 * about it; only a person's denial does.
 */
function isOutdatedRefusal(entry: LoopEntry): boolean {
  return entry.refused && !entry.blocked && entry.errorCode !== "approval_denied";
}

function isNearlyTheSame(candidate: LoopCandidate, model: LoopEntry): boolean {
  if (candidate.readOnly || model.tokens === undefined || candidate.args === undefined) return false;
  return similarity(argumentTokens(candidate.args), model.tokens) >= nearIdentical;
}
