import type { ToolCallRecord, ToolResult } from "@toolrack/core";
import type { StartedCall } from "../calls/call-row.ts";

let made = 0;

/** A finished call like those the registry records. */
export function makeRecord(overrides: Partial<ToolCallRecord> = {}): ToolCallRecord {
  made++;
  return {
    toolName: "search_web",
    displayName: "Search/搜索",
    parameters: { query: "weather" },
    parametersHash: "0a1b2c",
    timestamp: 1_700_000_000_000 + made,
    callId: `call_${made}`,
    depth: 0,
    sessionID: "session",
    messageID: "message",
    caller: "agent",
    status: "completed",
    duration: 12.5,
    runDuration: 11.25,
    ...overrides,
  };
}

export function makeStart(record: ToolCallRecord): StartedCall {
  const { callId, toolName, displayName, sessionID, caller, timestamp, parameters } = record;
  return { callId, toolName, displayName, sessionID, caller, timestamp, parameters };
}

export function textResult(content: string): ToolResult {
  return { content, type: "text" };
}
