import type { ToolErrorResponse } from "../error/codes.ts";
import { hashValue } from "../schema/hash.ts";
import type { ToolResult } from "../tool/result.ts";
import type { ToolMetadata } from "../tool/types.ts";
import { loopMessage } from "./loop-messages.ts";
import { emptyLoopState, recordCall } from "./loop-state.ts";
import { resultKeys } from "./result-keys.ts";
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
  /** The result with its whole text. */
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
  const { error, timestamp, duration, parameters } = record;
  const said = withoutNotice(record, result);
  const at = timestamp + duration;
  // Of a recorded error only the text is known.
  const failure = error === undefined ? "" : `${error.message} ${error.details?.cause ?? ""}`;
  return {
    callId: record.callId,
    tool: record.toolName,
    argsKey: declaredKey(metadata, parameters) ?? record.parametersHash,
    ...resultKeys(said, at, parameters, { name: record.toolName, metadata }),
    resultLength: said.content.length,
    isError: error !== undefined,
    errorCode: error?.code,
    infrastructure: saysBusy(failure),
    executed: error === undefined || !refusals.has(error.code),
    readOnly: metadata.readOnly === true,
    changes: metadata.readOnly === false,
    poll: isPoll(metadata),
    round: record.messageID || undefined,
    startedAt: timestamp + (record.flags?.waited ?? 0),
    at,
  };
}

/** Whether the tool waits for something, so that its calls may repeat. */
export function isPoll(metadata: ToolMetadata | undefined): boolean {
  const loop = metadata?.loop;
  return loop !== undefined && loop !== false && loop.repeatable === "poll";
}

/** The hash of the part of the arguments that the tool declared as its key. Undefined when it declared none. */
export function declaredKey(
  metadata: ToolMetadata | undefined,
  input: Record<string, unknown>,
): string | undefined {
  const key = metadata?.loop === false ? undefined : metadata?.loop?.key;
  if (key === undefined) return undefined;
  return hashValue(typeof key === "function" ? key(input) : key.map((name) => input[name]));
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

const connectionCode =
  /\b(?:E(?:CONN(?:REFUSED|RESET|ABORTED)|AI_AGAIN|(?:NET|HOST)(?:DOWN|UNREACH)|NOTFOUND|PIPE|TIMEDOUT)|UND_ERR_(?:\w+_TIMEOUT|SOCKET))\b/;

const busy =
  /\b(?:HTTP(?:\/[\d.]+)?|status(?: code)?):? (?:429|5\d\d)\b|\b(?:429 too many requests|50[0234] (?:internal server error|bad gateway|service unavailable|gateway time-?out))|\brate limit exceeded/i;

/** Whether the text of an error says that the network or an overloaded service failed. */
export function saysBusy(text: string): boolean {
  const start = text.slice(0, 400);
  return busy.test(start) || connectionCode.test(start);
}

const deepestCause = 8;

/**
 * Whether an error comes from the network or an overloaded service (429, 5xx, connection), by the status or code of it
 * or its causes. Such a failure is not evidence of a loop. Never throws.
 */
export function isInfrastructureFailure(thrown: unknown): boolean {
  try {
    let current = thrown;
    for (let depth = 0; depth < deepestCause; depth++) {
      if (typeof current !== "object" || current === null) return false;
      // Anything may be thrown, so its properties are read as unknown and checked one by one.
      const error = current as Record<string, unknown>;
      if (isBusy(error.status) || isBusy(error.statusCode) || isBusy(error.code)) return true;
      if (connectionCode.test(String(error.code))) return true;
      current = error.cause;
    }
    return false;
  } catch {
    return false;
  }
}

function isBusy(status: unknown): boolean {
  return typeof status === "number" && (status === 429 || (status >= 500 && status <= 599));
}
