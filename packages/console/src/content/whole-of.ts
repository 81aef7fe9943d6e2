import type { ToolResult } from "../api/types.ts";

export interface WholeText {
  /** As much of the beginning as is at hand. */
  readonly text: string;
  readonly total: number;
  /** The call whose record has the rest. */
  readonly callId: string | undefined;
}

/**
 * The text of a result as the tool gave it. What a model is given has its middle cut out and a note put there; people
 * are shown the beginning, and the rest from the record.
 */
export function wholeOf({ content, metadata }: ToolResult, total = 0, callId?: string): WholeText {
  const cut = metadata?.truncated;
  if (
    typeof cut === "object" &&
    cut !== null &&
    "head" in cut &&
    "total" in cut &&
    typeof cut.head === "number" &&
    typeof cut.total === "number"
  ) {
    const origin = "callId" in cut && typeof cut.callId === "string" ? cut.callId : callId;
    return { text: content.slice(0, cut.head), total: cut.total, callId: origin };
  }
  return { text: content, total: Math.max(total, content.length), callId };
}
