import { setImmediate as nextTurn } from "node:timers/promises";
import { sql } from "kysely";
import type { BlobDirectory } from "../blobs.ts";
import type { OpenedDatabase } from "../database.ts";
import type { StoreDatabase } from "../schema.ts";
import { filterCalls } from "./call-query.ts";

export interface StatisticsQuery {
  /** Milliseconds since the epoch. A call at exactly `since` or `until` is counted. */
  readonly since: number;
  readonly until: number;
  /** Glob over the tool's name. */
  readonly tool?: string;
}

/** Counts of ended calls, and their durations in milliseconds where known. */
interface CallTotals {
  readonly calls: number;
  /** Calls that did not complete. */
  readonly errors: number;
  /** Half of the calls took at most `p50`, 19 of 20 at most `p95`. */
  readonly p50?: number;
  readonly p95?: number;
}

export interface CallStatistics extends CallTotals {
  /** The length of a slice of time, in milliseconds. Slices begin at whole multiples of it since the epoch. */
  readonly interval: number;
  /**
   * The slices of time, the oldest first, each with the time `at` which it begins; slices without calls are
   * left out.
   */
  readonly buckets: readonly (CallTotals & { readonly at: number })[];
  /** The tools with the most calls first, at most 500. */
  readonly tools: readonly (CallTotals & { readonly toolName: string })[];
}

interface TotalsRow {
  readonly key: string | number;
  readonly calls: number | string;
  readonly errors: number | string;
  readonly p50: number | null;
  readonly p95: number | null;
}

const MOST_TOOLS = 500;

/** The database does the counting. */
export async function readStatistics(
  database: OpenedDatabase,
  query: StatisticsQuery,
): Promise<CallStatistics> {
  const interval = intervalFor(query.until - query.since);
  const [whole] = await database.scan(totalsBy(database, query, sql<string>`'all'`));
  const slice = sql<number>`timestamp - timestamp % ${sql.lit(interval)}`;
  const slices = await database.scan(totalsBy(database, query, slice).orderBy("key"));
  const tools = await database.scan(
    totalsBy(database, query, sql<string>`tool_name`)
      .orderBy("calls", "desc")
      .orderBy("key")
      .limit(MOST_TOOLS),
  );
  return {
    ...toTotals(whole ?? { calls: 0, errors: 0, p50: null, p95: null }),
    interval,
    buckets: slices.map((row) => ({ at: Number(row.key), ...toTotals(row) })),
    tools: tools.map((row) => ({ toolName: String(row.key), ...toTotals(row) })),
  };
}

/**
 * The totals of each group of calls. Calls are numbered by duration within their group, unknown durations
 * last; `p50` is the longest duration in the first half of the known ones, `p95` in the first 19 of 20. Uses
 * integers only, because the engines divide differently.
 */
function totalsBy(
  { db, engine }: OpenedDatabase,
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
      // PostgreSQL and MySQL return these numbers as text.
      sql<number | string>`count(*)`.as("calls"),
      sql<number | string>`sum(case when state = 'completed' then 0 else 1 end)`.as("errors"),
      sql<number | null>`max(case when 2 * (place - 1) <= known then duration end)`.as("p50"),
      sql<number | null>`max(case when 20 * (place - 1) <= 19 * known then duration end)`.as("p95"),
    ])
    .groupBy("placed.key")
    .$castTo<TotalsRow>();
}

const unknownLast = sql`case when duration is null then 1 else 0 end`;

function toTotals({ calls, errors, p50, p95 }: Omit<TotalsRow, "key">): CallTotals {
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

/**
 * The length of a slice for a span of time: a familiar unit that gives a chart neither too few nor too many
 * slices.
 */
function intervalFor(span: number): number {
  if (span <= 2 * HOUR) return MINUTE;
  if (span <= 2 * DAY) return 15 * MINUTE;
  return span <= 7 * DAY ? HOUR : DAY;
}

interface Retention {
  /** Milliseconds after which a call is deleted. */
  readonly maxAge?: number;
  /** The most bytes that all calls together may take, blobs included. */
  readonly maxBytes?: number;
}

const ROWS_AT_ONCE = 500;

/** Deletes the oldest finished calls, in small steps so that calls can be written in between. */
export async function pruneCalls(db: StoreDatabase, { maxAge, maxBytes }: Retention): Promise<void> {
  const oldest = maxAge === undefined ? Number.NEGATIVE_INFINITY : Date.now() - maxAge;
  let excess = maxBytes === undefined ? 0 : (await totalSize(db)) - maxBytes;
  for (;;) {
    const rows = await db
      .selectFrom("calls")
      .select(["call_id", "timestamp", "size"])
      .where("state", "!=", "running")
      .orderBy("timestamp")
      .orderBy("call_id")
      .limit(ROWS_AT_ONCE)
      .execute();
    const expired: string[] = [];
    for (const { call_id, timestamp, size } of rows) {
      if (timestamp >= oldest && excess <= 0) break;
      expired.push(call_id);
      excess -= size;
    }
    if (expired.length === 0) return;
    await db.deleteFrom("calls").where("call_id", "in", expired).where("state", "!=", "running").execute();
    if (expired.length < ROWS_AT_ONCE) return;
    await nextTurn();
  }
}

/** Deletes the blobs that no call refers to any more. */
export async function collectBlobs(db: StoreDatabase, blobs: BlobDirectory): Promise<number> {
  return blobs.collect(async () => {
    const rows = await db
      .selectFrom("calls")
      .select(["result_blob", "more_blob"])
      .where(({ or, eb }) => or([eb("result_blob", "is not", null), eb("more_blob", "is not", null)]))
      .execute();
    return new Set(rows.flatMap(({ result_blob, more_blob }) => [result_blob ?? "", more_blob ?? ""]));
  });
}

async function totalSize(db: StoreDatabase): Promise<number> {
  const { total } = await db
    .selectFrom("calls")
    .select(({ fn }) => fn.sum("size").as("total"))
    .executeTakeFirstOrThrow();
  // PostgreSQL and MySQL give a decimal as text; without calls the sum is null.
  return Number(total ?? 0);
}
