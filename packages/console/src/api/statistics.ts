import { ApiError } from "./api-error.ts";
import { isUnderWay } from "./calls.ts";
import type { CallSummary, Statistics } from "./generated-types.ts";
import { readPages, request } from "./request.ts";

type CallTotals = Omit<Statistics["buckets"][number], "at">;
/** `buckets`: slices of time by their start, oldest first, including empty ones. */
export interface CallStatistics extends CallTotals, Pick<Statistics, "buckets"> {}
/** `latest`: only so many calls, the latest, were counted. */
export interface RackStatistics extends CallStatistics, Pick<Statistics, "tools"> {
  readonly latest?: number;
}

interface Wanted {
  readonly since: number;
  readonly tool?: string;
  /** How many tools are listed. Default 0. */
  readonly tools?: number;
}

/**
 * Counts and durations of calls since a moment. For a person who is not an admin they are computed from the
 * latest calls that this person may see.
 */
export async function readStatistics(wanted: Wanted, signal: AbortSignal): Promise<RackStatistics> {
  try {
    const found = await request("GET /api/stats", { query: { tools: 0, ...wanted }, signal });
    return { ...found, buckets: fillBuckets(found) };
  } catch (thrown) {
    if (thrown instanceof ApiError && thrown.code === "forbidden") return summariseLatest(wanted, signal);
    throw thrown;
  }
}

const MOST = 1_000;
const SLICES = 60;

async function summariseLatest(
  { tools: _, ...wanted }: Wanted,
  signal: AbortSignal,
): Promise<RackStatistics> {
  const range = { since: wanted.since, until: Date.now() + 1 };
  const query = { ...wanted, limit: 500 };
  const { items: calls } = await readPages("GET /api/calls", { query, signal }, MOST);
  const tools = [...Map.groupBy(calls, ({ toolName }) => toolName)].map(([toolName, group]) => {
    return { toolName, ...summariseCalls(group, { ...range, slices: 1 }) };
  });
  return {
    ...summariseCalls(calls, { ...range, slices: SLICES }),
    tools: tools.filter((tool) => tool.calls > 0),
    ...(calls.length >= MOST ? { latest: MOST } : {}),
  };
}

/** Counts and durations of the ended calls that began between two moments, in total and per time slice. */
export function summariseCalls(
  calls: readonly CallSummary[],
  { since, until, slices }: { readonly since: number; readonly until: number; readonly slices: number },
): CallStatistics {
  const width = (until - since) / slices;
  const groups: CallSummary[][] = Array.from({ length: slices }, () => []);
  const ended = calls.filter(
    (call) => !isUnderWay(call) && since <= (call.timestamp ?? -1) && call.timestamp! < until,
  );
  for (const call of ended) groups[Math.floor((call.timestamp! - since) / width)]?.push(call);
  const buckets = groups.map((group, index) => ({ at: since + index * width, ...totals(group) }));
  return { ...totals(ended), buckets };
}

function totals(calls: readonly CallSummary[]): CallTotals {
  const ran = calls.filter(({ error }) => !calledOff.has(error?.code ?? ""));
  const durations = ran
    .map(({ duration = 0, flags }) => Math.max(0, duration - (flags?.waited ?? 0)))
    .sort((left, right) => left - right);
  return {
    calls: calls.length,
    errors: ran.filter(({ status }) => status !== "completed").length,
    cancelled: calls.length - ran.length,
    ...(durations.length > 0 && { p50: percentile(durations, 0.5), p95: percentile(durations, 0.95) }),
  };
}

const calledOff: ReadonlySet<string> = new Set(["cancelled", "approval_denied"]);

function percentile(sorted: readonly number[], part: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]!;
}

/** Adds the empty slices that the server leaves out. */
export function fillBuckets(
  statistics: Pick<Statistics, "since" | "until" | "interval" | "buckets">,
): CallStatistics["buckets"] {
  const { since, until, interval, buckets } = statistics;
  const known = new Map(buckets.map((bucket) => [bucket.at, bucket]));
  const first = Math.floor(since / interval) * interval;
  const count = Math.floor((until - first) / interval) + 1;
  return Array.from({ length: count }, (_, index) => {
    const at = first + index * interval;
    return { calls: 0, errors: 0, cancelled: 0, ...known.get(at), at };
  });
}
