import type { RackEvent } from "../../api/event-stream.ts";
import type { CallPage, CallSummary } from "../../api/types.ts";

/**
 * The newest page put before what was read earlier. Calls that changed are replaced; none is there twice. A page without
 * a next one is all there is.
 */
export function mergeHead(known: readonly CallSummary[], { items, next }: CallPage): readonly CallSummary[] {
  if (next === undefined) return items;
  const fresh = new Set(items.map(({ callId }) => callId));
  const oldest = items.at(-1)?.timestamp ?? Number.POSITIVE_INFINITY;
  // What is as new as the page and not in it any more was deleted, or does not fit the filter since it ended.
  const rest = known.filter(({ callId, timestamp = 0 }) => !fresh.has(callId) && timestamp <= oldest);
  return [...items, ...rest];
}

const endings: Readonly<Record<string, CallSummary["status"]>> = {
  "call.completed": "completed",
  "call.failed": "error",
  "call.cancelled": "error",
};

/**
 * The calls after an event that tells of the end of one. However far down it is, it is not shown as running any more, nor
 * at all where only running ones are wanted.
 */
export function withEnd(
  calls: readonly CallSummary[],
  { type, data }: RackEvent,
  wantedStatus: string | undefined,
): readonly CallSummary[] {
  const status = endings[type];
  const index = calls.findIndex((call) => call.callId === data.callId);
  const known = calls[index];
  if (status === undefined || known === undefined || !isUnderWay(known)) return calls;
  if (wantedStatus !== undefined && wantedStatus !== status) return calls.toSpliced(index, 1);
  // The event has these as the record has them.
  const { duration, error } = data as Pick<CallSummary, "duration" | "error">;
  return calls.with(index, {
    ...known,
    status,
    ...(duration === undefined ? {} : { duration }),
    ...(error === undefined ? {} : { error }),
  });
}

function isUnderWay({ status }: CallSummary): boolean {
  return status === "running" || status === "pending";
}

export interface FeedRow {
  readonly call: CallSummary;
  /** The same call again and again, newest first; the first of them is `call`. */
  readonly repeats: readonly CallSummary[];
  /** How many rows, this one the first of them, could be folded into one. */
  readonly foldable: number;
}

/** Calls that follow each other with the same tool, arguments, caller and outcome become one row. */
export function foldRepeats(calls: readonly CallSummary[], unfolded: ReadonlySet<string>): FeedRow[] {
  const runs: CallSummary[][] = [];
  for (const call of calls) {
    const last = runs.at(-1);
    if (last !== undefined && isRepeat(last[0]!, call)) last.push(call);
    else runs.push([call]);
  }
  return runs.flatMap((run) => {
    // One that somebody unfolded stays so when it is repeated once more.
    if (!run.some(({ callId }) => unfolded.has(callId)))
      return [{ call: run[0]!, repeats: run, foldable: 1 }];
    return run.map((call, index) => ({ call, repeats: [call], foldable: index === 0 ? run.length : 1 }));
  });
}

/** Where a call is, by itself or among repeats. */
export function rowOf(rows: readonly FeedRow[], callId: string): number {
  return rows.findIndex(({ repeats }) => repeats.some((call) => call.callId === callId));
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
