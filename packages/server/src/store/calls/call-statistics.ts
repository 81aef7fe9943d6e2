import { type Expression, type SqlBool, sql } from "kysely";
import type { OpenedDatabase } from "../database.ts";
import { toStorableText } from "../keys.ts";
import { matchesGlob } from "../row-mapping.ts";
import type { Engine } from "../schema.ts";
import { ALL_TOOLS, keptFor, type Span, spans, UNKNOWN } from "./call-counts.ts";

export interface StatisticsQuery {
  /**
   * Milliseconds since the epoch, taken to the minute: calls of the first and of the last minute are counted. A time more
   * than three days ago is taken to the hour, one more than nine days ago to the day of UTC.
   */
  readonly since: number;
  readonly until: number;
  /** Glob over the tool's name. */
  readonly tool?: string;
  /** Stops when nobody waits for the answer any more. */
  readonly signal?: AbortSignal;
}

/** Counts of ended calls, and how long their tools took, in milliseconds, where known. */
interface CallTotals {
  readonly calls: number;
  /** Calls that failed. */
  readonly errors: number;
  /** Calls that were cancelled, or that nobody approved; neither errors nor part of `p50` and `p95`. */
  readonly cancelled: number;
  /**
   * Half of the calls took at most `p50`, 19 of 20 at most `p95`, without the time for which they waited for an approval.
   * From a histogram: the mean of calls that differ by less than a fifth.
   */
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
  readonly cancelled: number | string;
  readonly p50: number | null;
  readonly p95: number | null;
}

const MOST_TOOLS = 500;

/** The database adds up the counts. */
export async function readStatistics(
  database: OpenedDatabase,
  query: StatisticsQuery,
): Promise<CallStatistics> {
  const { signal, tool } = query;
  const interval = Math.max(intervalFor(query.until - query.since), finestOf(query, toolSpans).length);
  const scan = (wanted: ReturnType<typeof totalsBy>) => database.scan(wanted, signal);
  // Where all tools are meant, the counts of all are read, where there are some.
  const allowed = tool === undefined ? allSpans : toolSpans;
  const of = tool ?? ALL_TOOLS;
  const [whole] = await scan(totalsBy(database, piecesOf(query, allowed), sql<string>`'all'`, of));
  const slices = piecesOf(
    query,
    allowed.filter((span) => spans[span] <= interval),
  );
  const slice = sql<number>`starts_at - starts_at % ${sql.lit(interval)}`;
  const sliced = await scan(totalsBy(database, slices, slice, of).orderBy("key"));
  const tools = await scan(
    totalsBy(database, piecesOf(query, toolSpans), sql<string>`tool_name`, tool ?? "*")
      .orderBy("calls", "desc")
      .orderBy("key")
      .limit(MOST_TOOLS),
  );
  return {
    ...toTotals(whole ?? { calls: 0, errors: 0, cancelled: 0, p50: null, p95: null }),
    interval,
    buckets: sliced.map((row) => ({ at: Number(row.key), ...toTotals(row) })),
    tools: tools.map((row) => ({ toolName: String(row.key), ...toTotals(row) })),
  };
}

/** The spans that are counted by tool, and those from which all tools are added up with the fewest rows. */
const toolSpans: readonly Span[] = ["day", "hour", "minute"];
const allSpans: readonly Span[] = ["day", "quarter", "minute"];

/** A stretch of time whose counts are read in slices of one length. `to` is not part of it. */
interface Piece {
  readonly span: Span;
  readonly from: number;
  readonly to: number;
}

/** Splits a time into as few slices as possible: long ones in the middle, shorter ones at the ends. */
function piecesOf(query: StatisticsQuery, allowed: readonly Span[]): Piece[] {
  const { since, until } = query;
  const { span, length } = finestOf(query, allowed);
  const to = until - (until % spans.minute) + spans.minute;
  const pieces = split(since - (since % length), to, allowed.slice(0, allowed.indexOf(span) + 1));
  // A time that ends before it begins has no counts.
  return pieces.length === 0 ? [{ span, from: to, to }] : pieces;
}

/** The shortest of the spans whose counts are still kept for the beginning of the time. */
function finestOf({ since }: StatisticsQuery, allowed: readonly Span[]) {
  const age = Date.now() - since;
  const span = allowed.findLast((one) => age < keptFor[one]) ?? "day";
  return { span, length: spans[span] };
}

function split(from: number, to: number, allowed: readonly Span[]): Piece[] {
  const [span, ...finer] = allowed;
  if (span === undefined || from >= to) return [];
  if (finer.length === 0) return [{ span, from, to }];
  const start = Math.ceil(from / spans[span]) * spans[span];
  const end = Math.floor(to / spans[span]) * spans[span];
  if (start >= end) return split(from, to, finer);
  return [...split(from, start, finer), { span, from: start, to: end }, ...split(end, to, finer)];
}

/**
 * The totals of each group of counts of a tool, by its name, a glob or `ALL_TOOLS`. `upto` is how many calls of known duration are in this bucket and those below it;
 * `p50` is in the first bucket that reaches more than half of the known ones, `p95` in the first beyond 19 of 20. Uses
 * integers only, because the engines divide differently.
 */
function totalsBy(
  { db, engine }: OpenedDatabase,
  pieces: readonly Piece[],
  key: ReturnType<typeof sql<string | number>>,
  tool: string,
) {
  const counts = pieces.map(
    (piece) =>
      sql`select bucket, calls, errors, cancelled, total, ${key} as grp
        from call_counts where span = ${piece.span} and ${isMeant(engine, piece, tool)}`,
  );
  const known = sql`case when bucket = ${sql.lit(UNKNOWN)} then 0 else calls end`;
  const placed = sql<{ grp: string | number }>`(
    select grp, calls, errors, cancelled, bucket, total / nullif(calls, 0) as mean,
      sum(${known}) over (partition by grp order by bucket) as upto,
      sum(${known}) over (partition by grp) as known
    from (
      select grp, bucket,
        sum(calls) as calls,
        sum(errors) as errors,
        sum(cancelled) as cancelled,
        sum(total) as total
      from (${sql.join(counts, sql` union all `)}) as counted
      group by grp, bucket
    ) as summed
  )`;
  const isKnown = sql`bucket <> ${sql.lit(UNKNOWN)} and known > 0`;
  return db
    .selectFrom(placed.as("placed"))
    .select([
      sql<string | number>`grp`.as("key"),
      // PostgreSQL and MySQL return these numbers as text.
      sql<number | string>`sum(calls)`.as("calls"),
      sql<number | string>`sum(errors)`.as("errors"),
      sql<number | string>`sum(cancelled)`.as("cancelled"),
      sql<number | null>`min(case when ${isKnown} and 2 * upto > known then mean end)`.as("p50"),
      sql<number | null>`min(case when ${isKnown} and 20 * upto > 19 * known then mean end)`.as("p95"),
    ])
    .groupBy("grp")
    .having(sql<SqlBool>`sum(calls) > 0`)
    .$castTo<TotalsRow>();
}

/** More slices than this are read with the counts of all other tools between them. */
const MOST_SLICES = 500;

/** Whether a row counts the tool, by its name, a glob or `ALL_TOOLS`, within a piece of time. */
function isMeant(engine: Engine, { span, from, to }: Piece, tool: string): Expression<SqlBool> {
  const isCounted = tool !== ALL_TOOLS || span !== "minute";
  const isOne = isCounted && !/[*?]/.test(tool);
  const name = toStorableText(tool);
  const range = sql<SqlBool>`starts_at >= ${from} and starts_at < ${to}`;
  if (isOne && (to - from) / spans[span] <= MOST_SLICES) {
    const starts: number[] = [];
    for (let start = from; start < to; start += spans[span]) starts.push(start);
    // Slice by slice, the index finds the rows of one tool without those of the others.
    return starts.length === 0 ? range : sql`starts_at in (${sql.join(starts)}) and tool_name = ${name}`;
  }
  if (isOne) return sql`${range} and tool_name = ${name}`;
  const each = sql<SqlBool>`${range} and tool_name <> ${ALL_TOOLS}`;
  return tool === "*" || !isCounted ? each : sql`${each} and ${matchesGlob(engine, "tool_name", name)}`;
}

function toTotals({ calls, errors, cancelled, p50, p95 }: Omit<TotalsRow, "key">): CallTotals {
  return {
    calls: Number(calls),
    errors: Number(errors),
    cancelled: Number(cancelled),
    ...(p50 === null ? {} : { p50 }),
    ...(p95 === null ? {} : { p95 }),
  };
}

/**
 * The length of a slice for a span of time: a familiar unit that gives a chart neither too few nor too many
 * slices.
 */
function intervalFor(length: number): number {
  if (length <= 2 * spans.hour) return spans.minute;
  if (length <= 2 * spans.day) return spans.quarter;
  return length <= 7 * spans.day ? spans.hour : spans.day;
}
