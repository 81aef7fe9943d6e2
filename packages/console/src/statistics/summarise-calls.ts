import type { CallSummary } from "../api/types.ts";

export interface CallTotals {
  readonly calls: number;
  readonly errors: number;
  readonly p50: number | undefined;
  readonly p95: number | undefined;
}

export interface CallStatistics extends CallTotals {
  /** Slices of time by when they begin, oldest first, also those in which nothing happened. */
  readonly buckets: readonly (CallTotals & { readonly at: number })[];
}

/** Counts and times of the calls that ended between two moments, over all and in slices of equal length. */
export function summariseCalls(
  calls: readonly CallSummary[],
  { since, until, slices }: { readonly since: number; readonly until: number; readonly slices: number },
): CallStatistics {
  const width = (until - since) / slices;
  const groups: CallSummary[][] = Array.from({ length: slices }, () => []);
  const ended = calls.filter(
    ({ status, timestamp }) =>
      isEnded(status) && timestamp !== undefined && timestamp >= since && timestamp < until,
  );
  for (const call of ended) groups[Math.floor((call.timestamp! - since) / width)]?.push(call);
  const buckets = groups.map((group, index) => ({ at: since + index * width, ...totals(group) }));
  return { ...totals(ended), buckets };
}

function totals(calls: readonly CallSummary[]): CallTotals {
  const durations = calls.map(({ duration = 0 }) => duration).sort((left, right) => left - right);
  return {
    calls: calls.length,
    errors: calls.filter(({ status }) => status !== "completed").length,
    p50: percentile(durations, 0.5),
    p95: percentile(durations, 0.95),
  };
}

function isEnded(status: CallSummary["status"]): boolean {
  return status === "completed" || status === "error" || status === "interrupted";
}

function percentile(sorted: readonly number[], part: number): number | undefined {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
}
