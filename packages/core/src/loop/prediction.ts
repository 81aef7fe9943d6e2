import { argumentTokens, isSameKey, similarity } from "./arguments.ts";
import type { EntryIndex } from "./entry-index.ts";
import { namesCommand, seemsReadOnly, seemsToChange, seemsToWait } from "./inference.ts";
import { nearIdentical, waitingTime, windowSize } from "./thresholds.ts";
import { isSameRound, type LoopCandidate, type LoopEntry, type LoopRecord } from "./types.ts";

/** A call that has not run, with its predicted result. */
interface LoopPrediction {
  readonly head: LoopEntry;
  /** The calls before it are the remembered ones, up to this index. */
  readonly end: number;
}

/**
 * Predicts the result of a call: that of its last identical call or, for new arguments, the last result of the tool.
 * Undefined when nothing can be predicted, also when the last two results of identical calls differ; so a changing
 * result is never blocked. `busy`: milliseconds that the session has spent inside tools.
 */
export function predict(
  entries: readonly LoopEntry[],
  candidate: LoopCandidate,
  ordinal: number,
  busy: number,
  known?: EntryIndex,
): LoopPrediction | undefined {
  const isSurelyNew = known !== undefined && !known.mayHave(candidate.argsKey);
  const oldest = Math.max(0, entries.length - windowSize);
  let end = entries.length;
  let twin: LoopEntry | undefined;
  let isTwinCurrent = false;
  let sibling: LoopEntry | undefined;
  let worldChanged = false;
  for (let index = end - 1; index >= oldest; index--) {
    const entry = entries[index]!;
    // The candidate has passed the checks of name, arguments and permissions, so earlier refusals for these say nothing
    // about it; only a person's denial does.
    const isOutdated = entry.refused && !entry.blocked && entry.errorCode !== "approval_denied";
    if (entry.tool === candidate.tool && !isOutdated) {
      if (!isSameKey(entry.argsKey, candidate.argsKey)) {
        if (sibling === undefined && !entry.refused) sibling = entry;
        if (isSurelyNew && sibling !== undefined) break;
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
  const { tool, args } = candidate;
  const last = end === oldest ? undefined : entries[end - 1];
  const follows = model === last;
  const isRead =
    candidate.readOnly || (twin?.readOnly ?? isReadByInference(candidate, args, { isToolStable: false }));
  const isCompared = twin === undefined && follows && !isRead && model.tokens !== undefined;
  const similar = isCompared && args !== undefined && isNearIdentical(argumentTokens(args), model.tokens);
  // Without an identical call only two signals apply: the same error, and a series of equal results.
  if (twin === undefined && !similar) {
    const isLikely = model.isError
      ? isWithinAttempts(entries.slice(oldest, end), model, args, isRead)
      : follows && isRead;
    if (!isLikely) return undefined;
  }

  const poll = candidate.poll === true;
  const head: LoopEntry = {
    ...model,
    callId: "",
    argsKey: candidate.argsKey,
    readOnly: isRead,
    inferred: model.inferred ?? (isRead && !candidate.readOnly && !model.isError ? "readOnly" : undefined),
    executed: !model.refused,
    blocked: false,
    poll,
    round: candidate.round,
    ordinal,
    isNew: !isTwinCurrent,
    isKnown: isTwinCurrent || twin === undefined,
    changedWorld: false,
    waiting: poll || last?.poll === true || (!model.isError && isWait(model, tool, args, busy)),
    isNext: isNextOf(model, tool, candidate.argsKey, model.exactKey),
    similar,
    tokens: undefined,
  };
  return { head, end: end - oldest };
}

/** How many attempts it takes where no two have a word in common: each may ask for another thing. */
const attemptsWithoutLikeness = 7;

/**
 * Whether arguments that were not tried yet are within what was tried: a tool that fails in one way for arguments of some
 * variety will fail for these, if they are not further from the attempts than those are from each other. So a shell in
 * which `mvn` is missing may still be asked for `ls`.
 */
function isWithinAttempts(
  entries: readonly LoopEntry[],
  model: LoopEntry,
  args: unknown,
  isRead: boolean,
): boolean {
  const attempts: (readonly number[])[] = [];
  const failing = new Set<string>();
  for (let index = entries.length - 1; index >= 0; index--) {
    const { tool, exactKey, isError, tokens, changedWorld } = entries[index]!;
    if (changedWorld) break;
    if (!isError || exactKey !== model.exactKey) continue;
    failing.add(tool);
    if (tool === model.tool && tokens !== undefined) attempts.push(tokens);
  }
  // An error that several tools give does not depend on what they are asked.
  if (failing.size > 1) return true;
  // Without the words of the attempts, their number alone decides.
  if (args === undefined || attempts.length === 0) return true;
  // Calls that read ask for one thing after the other: what all of them name does not make them alike.
  const shared = new Set(
    isRead ? attempts[0]!.filter((word) => attempts.every((all) => all.includes(word))) : [],
  );
  const own = (words: readonly number[]) =>
    shared.size === 0 ? words : words.filter((word) => !shared.has(word));
  const words = own(argumentTokens(args));
  let nearest = 0;
  let spread = 1;
  const tried = attempts.map(own);
  for (const [index, attempt] of tried.entries()) {
    nearest = Math.max(nearest, similarity(words, attempt));
    const others = tried.filter((_, other) => other !== index);
    if (others.length > 0)
      spread = Math.min(spread, Math.max(...others.map((other) => similarity(attempt, other))));
  }
  return nearest >= spread && (nearest > 0 || attempts.length >= attemptsWithoutLikeness);
}

export function isNearIdentical(
  one: readonly number[] | undefined,
  other: readonly number[] | undefined,
): boolean {
  return one !== undefined && other !== undefined && similarity(one, other) >= nearIdentical;
}

/** A tool that does not say what it does, but whose name, arguments or stable results say that it only reads. */
export function isReadByInference(
  call: Pick<LoopRecord, "tool" | "changes">,
  args: unknown,
  { isToolStable }: { readonly isToolStable: boolean },
): boolean {
  if (seemsReadOnly(call.tool, args, call.changes)) return true;
  return isToolStable && call.changes !== true && !seemsToChange(call.tool) && !namesCommand(args);
}

/** Whether enough time was spent inside tools since the call before. */
export function isWait(like: LoopEntry | undefined, tool: string, args: unknown, busy: number): boolean {
  if (like === undefined || busy === 0) return false;
  const since = busy - like.busy;
  if (since >= waitingTime || since + like.took < waitingTime) return since >= waitingTime;
  const given = typeof args === "object" && args !== null ? args : undefined;
  return seemsToWait(tool, given) || usedItsTime(given, like.took);
}

/** Whether a call took the whole time that its arguments let it wait, in seconds or milliseconds. */
function usedItsTime(args: object | undefined, took: number): boolean {
  return Object.entries(args ?? {}).some(
    ([name, value]) =>
      typeof value === "number" &&
      /wait|timeout|delay/i.test(name) &&
      [value, value * 1_000].some((time) => time >= waitingTime && took >= 0.9 * time && took <= 2 * time),
  );
}

/** Whether a call asks, after another with the same answer, for the next of a row: the next day, page or number. */
export function isNextOf(
  last: LoopEntry | undefined,
  tool: string,
  argsKey: LoopEntry["argsKey"],
  exactKey: number,
): boolean {
  if (last === undefined || last.tool !== tool || last.exactKey !== exactKey || last.isComplaint)
    return false;
  return typeof argsKey !== "string" && !isSameKey(last.argsKey, argsKey) && argsKey.isNextTo(last.argsKey);
}
