import type { ToolCallRecord } from "../call/events.ts";
import { hashValue } from "../schema/hash.ts";
import type { LoopPolicy, ToolMetadata } from "../tool/define.ts";
import type { ToolResult } from "../tool/result.ts";
import { nearIdentical, waitingGap } from "./detect-doom-loop.ts";
import { argumentTokens, isSameCall, isSameRound, similarity, tellsOfInfrastructure } from "./likeness.ts";
import { loopMessage } from "./loop-messages.ts";
import { emptyLoopState, recordCall, resultKeys } from "./loop-state.ts";
import type { LoopCandidate, LoopEntry, LoopRecord, LoopState } from "./types.ts";

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

/** A finished call as it was recorded. */
export interface RecalledCall {
  readonly record: Pick<
    ToolCallRecord,
    | "callId"
    | "toolName"
    | "parameters"
    | "parametersHash"
    | "timestamp"
    | "duration"
    | "messageID"
    | "error"
    | "flags"
  >;
  /** With its whole text. */
  readonly result: ToolResult;
  /** What the tool says about itself. */
  readonly metadata: ToolMetadata;
}

/** Errors that a call meets before its tool runs. */
const refusals: ReadonlySet<string> = new Set([
  "tool_not_found",
  "tool_disabled",
  "invalid_arguments",
  "permission_denied",
  "loop_blocked",
  "approval_denied",
]);

/**
 * The memory that a session has of calls which were recorded, oldest first: for one that goes on in another process.
 * Hand it to `restoreLoopState`. Where a record was masked or cut, the memory is weaker than the original, never
 * stronger. Never throws.
 */
export function recallCalls(calls: readonly RecalledCall[]): LoopState {
  return calls.reduce((state, call) => {
    try {
      if (call.metadata.loop === false) return state;
      return recordCall(state, loopRecordOf(call), call.record.parameters);
    } catch {
      // A key function of a tool may throw. The call is forgotten, like any that detection cannot read.
      return state;
    }
  }, emptyLoopState());
}

function loopRecordOf({ record, result, metadata }: RecalledCall): LoopRecord {
  const { error, timestamp, duration } = record;
  const said = asTheToolSaidIt(record, result);
  const at = timestamp + duration;
  const policy = metadata.loop === false ? undefined : metadata.loop;
  return {
    callId: record.callId,
    tool: record.toolName,
    argsKey: argsKeyOf(record, policy?.key),
    ...resultKeys(said, at),
    resultLength: said.content.length,
    isError: error !== undefined,
    ...(error === undefined ? {} : { errorCode: error.code }),
    infrastructure:
      error !== undefined && tellsOfInfrastructure(`${error.message} ${error.details?.cause ?? ""}`),
    readOnly: metadata.readOnly === true,
    executed: error === undefined || !refusals.has(error.code),
    poll: policy?.repeatable === "poll",
    ...(record.messageID === "" ? {} : { round: record.messageID }),
    startedAt: timestamp + (record.flags?.waited ?? 0),
    at,
  };
}

function argsKeyOf({ parameters, parametersHash }: RecalledCall["record"], key: LoopPolicy["key"]): string {
  if (key === undefined) return parametersHash;
  return hashValue(typeof key === "function" ? key(parameters) : key.map((name) => parameters[name]));
}

/** Without what detection itself appended. */
function asTheToolSaidIt({ flags }: RecalledCall["record"], result: ToolResult): ToolResult {
  if (flags?.loop?.action !== "nudge") return result;
  const notice = loopMessage(flags.loop);
  const { content, blocks } = result;
  if (!content.endsWith(notice)) return result;
  const last = blocks?.at(-1);
  const isNotice = last?.type === "text" && last.text === notice;
  return {
    ...result,
    content: content.slice(0, -notice.length).replace(/\n\n$/, ""),
    ...(isNotice ? { blocks: blocks!.slice(0, -1) } : {}),
  };
}
