import type { ToolErrorResponse } from "../error/codes.ts";
import { hashValue } from "../schema/hash.ts";
import type { ToolResult } from "../tool/result.ts";
import type { LoopPolicy, ToolMetadata } from "../tool/types.ts";
import { tellsOfInfrastructure } from "./likeness.ts";
import { loopMessage } from "./loop-messages.ts";
import { emptyLoopState, recordCall, resultKeys } from "./loop-state.ts";
import type { LoopRecord, LoopState, LoopVerdict } from "./types.ts";

/** A finished call as it was recorded. */
export interface RecalledCall {
  readonly record: {
    readonly callId: string;
    readonly toolName: string;
    readonly parameters: Record<string, unknown>;
    readonly parametersHash: string;
    readonly timestamp: number;
    readonly duration: number;
    readonly messageID: string;
    readonly error?: ToolErrorResponse | undefined;
    readonly flags?: { readonly loop?: LoopVerdict; readonly waited?: number } | undefined;
  };
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
 * Rebuilds the loop state from recorded calls, oldest first, for a session that goes on in another process; pass it to
 * `restoreLoopState`. Masked or cut records give a weaker state, never a stronger one. Never throws.
 */
export function recallCalls(calls: readonly RecalledCall[]): LoopState {
  return calls.reduce((state, call) => {
    try {
      if (call.metadata.loop === false) return state;
      return recordCall(state, loopRecordOf(call), call.record.parameters);
    } catch {
      // A tool's key function may throw; the call is then left out.
      return state;
    }
  }, emptyLoopState());
}

function loopRecordOf({ record, result, metadata }: RecalledCall): LoopRecord {
  const { error, timestamp, duration } = record;
  const said = withoutNotice(record, result);
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

/** Removes the notice that loop detection appended. */
function withoutNotice({ flags }: RecalledCall["record"], result: ToolResult): ToolResult {
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
