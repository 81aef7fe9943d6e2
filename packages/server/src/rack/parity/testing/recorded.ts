import type { ToolErrorCode } from "@toolrack/core";
import type { StoredCall } from "../../../store/calls/call-row.ts";
import type { Store } from "../../../store/store.ts";

/** The stored record of a call, without fields that are different for every call. */
export interface Recorded extends RecordedCall {
  /** The calls that this call made, and all calls further down the chain. */
  readonly made: readonly RecordedCall[];
}

export interface RecordedCall {
  readonly tool: string;
  readonly displayName: string;
  readonly status: StoredCall["status"];
  readonly outcome: StoredCall["outcome"];
  readonly code?: ToolErrorCode;
  readonly error?: unknown;
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly parametersHash: string;
  readonly text: string;
  readonly type: StoredCall["result"]["type"];
  readonly structured?: unknown;
  readonly attachments?: unknown;
  readonly metadata?: unknown;
  /** The number of characters of the whole result text, also when `text` is cut. */
  readonly size: number;
  readonly flags: unknown;
  readonly depth: number;
}

/** The record of a call that has ended, with the records of all calls below it. */
export async function recordedOf({ calls }: Store, call: StoredCall): Promise<Recorded> {
  const { items } = await calls.list({ root: call.callId });
  const children = items.filter(({ depth }) => depth > 0).sort((one, other) => one.depth - other.depth);
  const made = await Promise.all(children.map(async ({ callId }) => (await calls.get(callId))!));
  return { ...comparable(call), made: made.map(comparable) };
}

function comparable(call: StoredCall): RecordedCall {
  const { callId, parentCallId, result, error, flags } = call;
  const { waited: _, ...marks } = flags ?? {};
  const known = {
    tool: call.toolName,
    displayName: call.displayName,
    status: call.status,
    outcome: call.outcome,
    code: error?.code,
    error,
    parameters: call.parameters,
    parametersHash: call.parametersHash,
    text: result.content,
    type: result.type,
    structured: result.structured,
    attachments: result.attachments,
    metadata: result.metadata,
    size: call.resultSize,
    flags: marks,
    depth: call.depth,
  };
  // Measured times are different for every call, as ids are.
  const text = JSON.stringify(known, (key, value) => (key === "elapsed" ? "<elapsed>" : value));
  return JSON.parse(withoutIds(text, callId, parentCallId));
}

/** Replaces ids in a text by fixed words. */
export function withoutIds(text: string, callId: string, parentCallId?: string): string {
  const named = text.replaceAll(callId, "<call>").replaceAll(/(the approval rule )\w+/g, "$1<rule>");
  return parentCallId === undefined ? named : named.replaceAll(parentCallId, "<parent>");
}
