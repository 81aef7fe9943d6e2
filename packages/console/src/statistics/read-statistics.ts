import { ApiError } from "../api/api-error.ts";
import { request } from "../api/request.ts";
import type { Statistics } from "../api/types.ts";
import { fillBuckets } from "./fill-buckets.ts";
import { readCalls } from "./read-calls.ts";
import { type CallStatistics, type CallTotals, summariseCalls } from "./summarise-calls.ts";

export interface RackStatistics extends CallStatistics {
  readonly tools: readonly (CallTotals & { readonly toolName: string })[];
  /** Made of so many of the latest calls only. */
  readonly latest?: number;
}

interface Wanted {
  readonly since: number;
  readonly tool?: string;
}

/** Counts and times of calls since a moment. Who is no admin is given those of the latest calls that it may see. */
export async function readStatistics(wanted: Wanted, signal: AbortSignal): Promise<RackStatistics> {
  try {
    const { p50, p95, ...found } = await request<Statistics>("/api/stats", { query: { ...wanted }, signal });
    const tools = found.tools.map((tool) => ({ ...tool, p50: tool.p50, p95: tool.p95 }));
    return { ...found, p50, p95, tools, buckets: fillBuckets(found) };
  } catch (thrown) {
    if (thrown instanceof ApiError && thrown.code === "forbidden") return summariseLatest(wanted, signal);
    throw thrown;
  }
}

const MOST = 1_000;
const SLICES = 60;

async function summariseLatest(wanted: Wanted, signal: AbortSignal): Promise<RackStatistics> {
  const range = { since: wanted.since, until: Date.now() + 1 };
  const calls = await readCalls(wanted, MOST, signal);
  const tools = [...Map.groupBy(calls, ({ toolName }) => toolName)].map(([toolName, group]) => {
    const { buckets: _, ...totals } = summariseCalls(group, { ...range, slices: 1 });
    return { toolName, ...totals };
  });
  return {
    ...summariseCalls(calls, { ...range, slices: SLICES }),
    tools: tools.filter((tool) => tool.calls > 0),
    ...(calls.length >= MOST ? { latest: MOST } : {}),
  };
}
