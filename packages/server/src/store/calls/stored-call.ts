import type { ToolErrorResponse, ToolResult } from "@toolrack/core";
import type { CallRow } from "../database/schema.ts";
import { fromJson, tooLarge } from "../database/stored-json.ts";
import type { StoredCall } from "../store.ts";
import type { MoreOfResult } from "./call-row.ts";

/** In a list, what is long is left in the database. */
export type ListedRow = Omit<CallRow, "parameters" | "more" | "more_blob" | "log"> & {
  parameters: string | null;
};

/** The call as it was recorded. `more`: what the result has besides its text, where that and the log have been read. */
export function toStoredCall(row: ListedRow, more?: string | null, logged?: string | null): StoredCall {
  const parameters = fromJson<Record<string, unknown>>(row.parameters) ?? tooLarge(row.size);
  const error = errorOf(row, parameters);
  const flags = fromJson<StoredCall["flags"]>(row.flags);
  const log = fromJson<StoredCall["log"]>(logged ?? null);
  return {
    callId: row.call_id,
    ...(row.parent_call_id === null ? {} : { parentCallId: row.parent_call_id }),
    ...(row.replay_of === null ? {} : { replayOf: row.replay_of }),
    toolName: row.tool_name,
    displayName: row.display_name,
    parameters,
    parametersHash: row.parameters_hash,
    timestamp: row.timestamp,
    depth: row.depth,
    sessionID: row.session_id,
    messageID: row.message_id,
    caller: row.caller,
    ...(row.tid === null ? {} : { tid: row.tid }),
    status: row.state === "interrupted" ? "error" : row.state,
    outcome: row.state,
    duration: row.duration ?? 0,
    runDuration: row.run_duration ?? 0,
    ...(row.after_duration === null ? {} : { afterDuration: row.after_duration }),
    ...(error === undefined ? {} : { error }),
    ...(flags === undefined ? {} : { flags }),
    result: resultOf(row, error, more ?? null),
    resultSize: row.result_size,
    ...(log === undefined ? {} : { log }),
  };
}

function errorOf(row: ListedRow, parameters: Record<string, unknown>): ToolErrorResponse | undefined {
  const error = fromJson<ToolErrorResponse>(row.error);
  if (error?.details === undefined) return error;
  return { ...error, details: { ...error.details, input: error.details.input ?? parameters } };
}

function resultOf(row: ListedRow, error: ToolErrorResponse | undefined, more: string | null): ToolResult {
  const { structuredIsText, ...rest } = fromJson<MoreOfResult>(more) ?? {};
  return {
    content: row.result_text,
    type: row.result_type,
    ...(structuredIsText ? { structured: fromJson(row.result_text) } : {}),
    ...rest,
    ...(row.result_type === "error" && error !== undefined ? { error } : {}),
  };
}
