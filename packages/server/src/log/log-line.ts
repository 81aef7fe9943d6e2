import type { ToolCallRecord, ToolError } from "@toolrack/core";

/** One line of `ToolBox.log`. The first eight fields are those of the toolbox contract. */
export interface LogLine {
  /** ISO 8601. */
  readonly ts: string;
  readonly tool: string;
  readonly caller: string;
  readonly args: Record<string, unknown>;
  readonly stat: "success" | "error";
  /** Milliseconds. */
  readonly cost: number;
  readonly err?: string;
  readonly trace?: string;
  readonly callId: string;
  readonly parentCallId?: string;
  readonly tid?: string;
  readonly session?: string;
  /** The name people know it by, when that is another one. */
  readonly display?: string;
  /** The stable code of the error. */
  readonly code?: string;
}

export function toLogLine(record: ToolCallRecord, error: ToolError | undefined): LogLine {
  const { toolName, displayName, callId, parentCallId, tid, sessionID } = record;
  return {
    ts: new Date(record.timestamp).toISOString(),
    tool: toolName,
    caller: record.caller,
    args: record.parameters,
    stat: record.status === "error" ? "error" : "success",
    cost: Math.round(record.duration * 1000) / 1000,
    ...(record.error === undefined ? {} : { err: record.error.message, code: record.error.code }),
    ...traceOf(error, record),
    callId,
    ...(parentCallId === undefined ? {} : { parentCallId }),
    ...(tid === undefined ? {} : { tid }),
    ...(sessionID === "" ? {} : { session: sessionID }),
    ...(displayName === toolName ? {} : { display: displayName }),
  };
}

/** The stack, whose first line is the message: secrets are masked in the record's message, so it takes its place. */
function traceOf(error: ToolError | undefined, { error: response }: ToolCallRecord): { trace?: string } {
  if (error?.stack === undefined || response === undefined) return {};
  const frames = error.stack.split("\n").filter((line) => line.trimStart().startsWith("at "));
  return { trace: [`${response.name}: ${response.message}`, ...frames].join("\n") };
}
