import { sql } from "kysely";
import type { Engine } from "../database/engine.ts";
import type { OpenedDatabase } from "../database/open-database.ts";
import type { StoreDatabase } from "../database/schema.ts";
import { filterCalls } from "./call-filters.ts";

export interface StatisticsQuery {
  /** Milliseconds since the epoch: only calls that arrived at it or after it, and not after `until`. */
  readonly since: number;
  readonly until: number;
  /** Glob over the tool's name. */
  readonly tool?: string;
}

/** How many calls ended, and how long they took, in milliseconds. Without times where none is known. */
export interface CallTotals {
  readonly calls: number;
  /** Those that did not complete. */
  readonly errors: number;
  /** So long took half of them at the most, and nineteen of twenty. */
  readonly p50?: number;
  readonly p95?: number;
}

export interface CallStatistics extends CallTotals {
  /** The length of a slice of time, in milliseconds. Slices begin at whole multiples of it since the epoch. */
  readonly interval: number;
  /** The oldest first; slices without a call are left out. */
  readonly buckets: readonly (CallTotals & { readonly at: number })[];
  /** Those with the most calls first, at most 500. */
  readonly tools: readonly (CallTotals & { readonly toolName: string })[];
}

interface Parts {
  readonly db: StoreDatabase;
  readonly engine: Engine;
  readonly scan: OpenedDatabase["scan"];
}

interface TotalsRow {
  readonly key: string | number;
  // PostgreSQL and MySQL answer some of them as text.
  readonly calls: number | string;
  readonly errors: number | string;
  readonly p50: number | null;
  readonly p95: number | null;
}

const MOST_TOOLS = 500;

/** Counts in the database, so that no call has to leave it. */
export async function readStatistics(parts: Parts, query: StatisticsQuery): Promise<CallStatistics> {
  const interval = intervalFor(query.until - query.since);
  const whole = await parts.scan(totalsBy(parts, query, sql<number>`0`));
  const slice = sql<number>`timestamp - timestamp % ${sql.lit(interval)}`;
  const slices = await parts.scan(totalsBy(parts, query, slice).orderBy("key"));
  const tools = await parts.scan(
    totalsBy(parts, query, sql<string>`tool_name`).orderBy("calls", "desc").orderBy("key").limit(MOST_TOOLS),
  );
  const [all] = whole;
  return {
    ...(all === undefined ? { calls: 0, errors: 0 } : toTotals(all)),
    interval,
    buckets: slices.map((row) => ({ at: Number(row.key), ...toTotals(row) })),
    tools: tools.map((row) => ({ toolName: String(row.key), ...toTotals(row) })),
  };
}

/**
 * The totals of each group of calls. Every call is given its place in the order of durations within its group, those of
 * which none is known last; a percentile is the longest of the first so many. Whole numbers only, because the engines
 * divide them differently.
 */
function totalsBy(
  { db, engine }: Parts,
  query: StatisticsQuery,
  key: ReturnType<typeof sql<string | number>>,
) {
  return db
    .selectFrom((from) =>
      from
        .selectFrom((inner) =>
          inner
            .selectFrom("calls")
            .select(["duration", "state", key.as("key")])
            .where((expression) => filterCalls(expression, engine, query))
            .where("state", "!=", "running")
            .as("ended"),
        )
        .select(["ended.key", "ended.duration", "ended.state"])
        .select(
          sql<number>`row_number() over (partition by ended.key order by ${unknownLast}, duration)`.as(
            "place",
          ),
        )
        .select(sql<number>`count(duration) over (partition by ended.key)`.as("known"))
        .as("placed"),
    )
    .select([
      "placed.key as key",
      sql<number | string>`count(*)`.as("calls"),
      sql<number | string>`sum(case when state = 'completed' then 0 else 1 end)`.as("errors"),
      sql<number | null>`max(case when 2 * (place - 1) <= known then duration end)`.as("p50"),
      sql<number | null>`max(case when 20 * (place - 1) <= 19 * known then duration end)`.as("p95"),
    ])
    .groupBy("placed.key")
    .$castTo<TotalsRow>();
}

const unknownLast = sql`case when duration is null then 1 else 0 end`;

function toTotals({ calls, errors, p50, p95 }: TotalsRow): CallTotals {
  return {
    calls: Number(calls),
    errors: Number(errors),
    ...(p50 === null ? {} : { p50 }),
    ...(p95 === null ? {} : { p95 }),
  };
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** So that a chart has some dozens of slices, each of a length that people think in. */
function intervalFor(span: number): number {
  if (span <= 2 * HOUR) return MINUTE;
  if (span <= 2 * DAY) return 15 * MINUTE;
  return span <= 7 * DAY ? HOUR : DAY;
}
