import type { CallSummary } from "../../api/types.ts";

/** The newest page put before what was read earlier. Calls that changed are replaced; none is there twice. */
export function mergeHead(known: readonly CallSummary[], head: readonly CallSummary[]): CallSummary[] {
  const fresh = new Set(head.map(({ callId }) => callId));
  const oldest = head.at(-1)?.timestamp ?? Number.POSITIVE_INFINITY;
  // What is as new as the page and not in it any more was deleted, or does not fit the filter since it ended.
  const rest = known.filter(({ callId, timestamp = 0 }) => !fresh.has(callId) && timestamp <= oldest);
  return [...head, ...rest];
}

export interface FeedRow {
  readonly call: CallSummary;
  /** The same call again and again, newest first; the first of them is `call`. */
  readonly repeats: readonly CallSummary[];
}

/** Calls that follow each other with the same tool, arguments, caller and outcome become one row. */
export function foldRepeats(calls: readonly CallSummary[], unfolded: ReadonlySet<string>): FeedRow[] {
  const rows: { call: CallSummary; repeats: CallSummary[] }[] = [];
  for (const call of calls) {
    const last = rows.at(-1);
    if (last !== undefined && isRepeat(last.call, call) && !unfolded.has(last.call.callId))
      last.repeats.push(call);
    else rows.push({ call, repeats: [call] });
  }
  return rows;
}

function isRepeat(left: CallSummary, right: CallSummary): boolean {
  return (
    left.toolName === right.toolName &&
    left.parametersHash !== undefined &&
    left.parametersHash === right.parametersHash &&
    left.status === right.status &&
    left.caller === right.caller &&
    left.parentCallId === right.parentCallId
  );
}
