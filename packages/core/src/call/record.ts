import type { ToolErrorResponse } from "../error/response.ts";
import { hashValue } from "../schema/hash-value.ts";
import type { CallFlags, CallFrame } from "./frame.ts";
import { maskValue } from "./mask-value.ts";
import { redact } from "./redact.ts";
import { ownSecrets, toEpoch, visibleInput } from "./visible-input.ts";

/** What is remembered of a finished call. Plain JSON, secrets masked. */
export interface ToolCallRecord {
  readonly toolName: string;
  /** The name people see. */
  readonly displayName: string;
  readonly parameters: Record<string, unknown>;
  /** The same for the same arguments in any order of keys. */
  readonly parametersHash: string;
  /** When the call arrived, in milliseconds since the epoch. */
  readonly timestamp: number;
  readonly callId: string;
  readonly parentCallId?: string;
  readonly depth: number;
  readonly sessionID: string;
  readonly messageID: string;
  readonly caller: string;
  readonly tid?: string;
  readonly status: "completed" | "error";
  /** Milliseconds from arrival to end, and the part of it that the tool itself ran. */
  readonly duration: number;
  readonly runDuration: number;
  /** The last part of `runDuration`: checking, masking and cutting the result. 0 when that was not measured. */
  readonly afterDuration?: number;
  readonly error?: ToolErrorResponse;
  readonly flags?: CallFlags;
}

/** `found` is given the secrets of the arguments. */
export function recordOf(frame: CallFrame, found = new Set<string>()): ToolCallRecord {
  const { entry, options, parent, error, flags } = frame;
  const tid = tidOf(frame);
  const record = {
    toolName: frame.toolName,
    displayName: entry?.info.displayName ?? frame.toolName,
    parameters: visibleInput(frame, found),
    parametersHash: frame.parametersHash ?? hashValue(frame.startedAt > 0 ? frame.input : frame.raw),
    timestamp: toEpoch(frame.createdAt),
    callId: frame.callId,
    depth: frame.depth,
    sessionID: frame.sessionID,
    messageID: options.messageID ?? parent?.options.messageID ?? "",
    caller: frame.caller,
    status: error === undefined ? ("completed" as const) : ("error" as const),
    duration: frame.endedAt - frame.createdAt,
    runDuration: frame.startedAt === 0 ? 0 : frame.endedAt - frame.startedAt,
    afterDuration: frame.ranAt === 0 ? 0 : frame.endedAt - frame.ranAt,
  };
  // Most records end here.
  if (parent === undefined && tid === undefined && error === undefined && flags === undefined) return record;
  const known = frame.host.settings.secrets();
  return {
    ...record,
    ...(parent === undefined ? {} : { parentCallId: parent.callId }),
    ...(tid === undefined ? {} : { tid }),
    ...(error === undefined
      ? {}
      : {
          error: redact(error.toResponse(), { known, values: ownSecrets(error, found) }) as ToolErrorResponse,
        }),
    ...(flags === undefined ? {} : { flags: maskValue({ ...flags }, known) }),
  };
}

function tidOf(frame: CallFrame): string | undefined {
  for (let at: CallFrame | undefined = frame; at !== undefined; at = at.parent) {
    if (at.options.tid !== undefined) return at.options.tid;
  }
  return undefined;
}
