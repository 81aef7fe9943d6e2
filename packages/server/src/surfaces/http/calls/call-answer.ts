import type { ToolResult } from "@toolrack/core";
import type { EndedCall } from "../../../calls/call-desk.ts";
import { refusalOf } from "./call-refusal.ts";

/** What a caller is told of a call that ran, whatever came of it. */
export interface CallAnswer {
  readonly callId: string;
  readonly toolName: string;
  readonly status: "completed" | "error";
  /** Milliseconds. */
  readonly duration: number;
  readonly result: ToolResult;
  /** False when the store could not keep the record. */
  readonly recorded: boolean;
  readonly replayOf?: string;
}

/** Throws the refusal when the tool did not run. */
export function answerOf(ended: EndedCall, replayOf?: string): CallAnswer {
  const refusal = refusalOf(ended);
  if (refusal !== undefined) throw refusal;
  const { callId, record, result, recorded } = ended;
  return {
    callId,
    toolName: record.toolName,
    status: record.status,
    duration: record.duration,
    result,
    recorded,
    ...(replayOf === undefined ? {} : { replayOf }),
  };
}
