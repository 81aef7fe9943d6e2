import { type Expression, type SqlBool, sql } from "kysely";
import type { OpenedDatabase } from "../database.ts";
import { toStorableText } from "../keys.ts";
import { matchesGlob } from "../row-mapping.ts";
import type { Engine } from "../schema.ts";
import { ALL_TOOLS, allSpans, keptFor, type Span, spans, toolSpans, UNKNOWN } from "./call-counts.ts";
import { isGlob } from "./call-query.ts";

export interface StatisticsQuery {
  /**
   * Milliseconds since the epoch, taken to the minute: calls of the first and of the last minute are counted. A time more
   * than three days ago is taken to the hour, one more than nine days ago to the day of UTC.
   */
  readonly since: number;
  readonly until: number;
  /** Glob over the tool's name. */
  readonly tool?: string;
  /** How many tools are listed: at most 500, default 500. */
  readonly tools?: number;
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
  /**
   * The tools with the most calls first. Of a time of more than three hours, tools that were not among the first 500 on any
   * day are missing. Only the first 50 have `p50` and `p95`.
   */
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

/** How many tools are listed at the most, and read of each day to find them. */
const MOST_TOOLS = 500;
/** For how many tools histograms are added up: of a busy tool, 30 days have about 600 rows. */
const MOST_MEASURED = 50;

/** The database adds up the counts. */
export async function readStatistics(
  database: OpenedDatabase,
  query: StatisticsQuery,
): Promise<CallStatistics> {
  const { tool = ALL_TOOLS } = query;
  const asked = await withinCounts(database, query);
  const interval = Math.max(intervalFor(query.until - query.since), finestOf(query, toolSpans).length);
  const scan: OpenedDatabase["scan"] = (wanted) =>
    // Of a pattern, all counts of the time are read.
    database.scan(wanted, query.signal, isGlob(tool) ? "long" : "short");
  // Where all tools are meant, the counts of all are read.
  const allowed = tool === ALL_TOOLS ? allSpans : toolSpans;
  const [whole] = await scan(totalsBy(database, piecesOf(asked, allowed), sql<string>`'all'`, tool));
  const slices = piecesOf(
    asked,
    allowed.filter((span) => spans[span] <= interval),
  );
  const slice = sql<number>`starts_at - starts_at % ${sql.lit(interval)}`;
  const sliced = await scan(totalsBy(database, slices, slice, tool).orderBy("key"));
  const totals = toTotals(whole ?? { calls: 0, errors: 0, cancelled: 0, p50: null, p95: null });
  return {
    ...totals,
    interval,
    buckets: sliced.map((row) => ({ at: Number(row.key), ...toTotals(row) })),
    tools: await listTools({ ...database, scan }, asked, totals),
  };
}

/** The tools with the most calls first. `whole`: the totals of all that are meant. */
async function listTools(
  database: OpenedDatabase,
  query: StatisticsQuery,
  whole: CallTotals,
): Promise<CallStatistics["tools"]> {
  const { tool = "*", tools: wanted = MOST_TOOLS } = query;
  const most = Math.min(wanted, MOST_TOOLS);
  if (most === 0 || whole.calls === 0) return [];
  if (!isGlob(tool)) return [{ toolName: tool, ...whole }];
  const pieces = piecesOf(query, toolSpans);
  const leading = await database.scan(leadingTools(database, pieces, tool));
  const names = leading.map(({ tool_name }) => tool_name);
  // The histograms have the calls too, so that few tools are read once.
  const counted =
    names.length <= MOST_MEASURED ? undefined : await database.scan(callsByTool(database, pieces, names));
  const first = counted?.slice(0, Math.min(most, MOST_MEASURED)).map(({ key }) => String(key)) ?? names;
  if (first.length === 0) return [];
  const byTool = totalsBy(database, pieces, sql<string>`tool_name`, first);
  const measured = await database.scan(byTool.orderBy("calls", "desc").orderBy("key"));
  const rest = counted?.slice(MOST_MEASURED) ?? [];
  return [...measured, ...rest]
    .slice(0, most)
    .map((row) => ({ toolName: String(row.key), ...toTotals(row) }));
}

/** Begins the time at the first day that is counted, so that it has no more days than that. */
async function withinCounts({ db }: OpenedDatabase, query: StatisticsQuery): Promise<StatisticsQuery> {
  const days = db.selectFrom("call_counts").select("starts_at").where("span", "=", "day");
  const first = await days.orderBy("starts_at").limit(1).executeTakeFirst();
  return { ...query, since: Math.max(query.since, first?.starts_at ?? 0) };
}

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
  const used = allowed.slice(0, allowed.indexOf(span) + 1);
  const longest = spans[used[0] ?? span];
  const now = Date.now();
  // Nothing comes after now, so that the slice that has begun may be taken whole.
  const isOpen = until >= now && until - (until % longest) <= now;
  const last = isOpen ? longest : spans.minute;
  const to = until - (until % last) + last;
  const pieces = split(since - (since % length), to, used);
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
 * The totals of each group of counts of a tool, by its name, a glob or `ALL_TOOLS`, or of some tools. `upto` is how many
 * calls of known duration are in this bucket and those below it; `p50` is in the first bucket that reaches more than half of the known ones, `p95` in the first beyond 19 of 20. Uses
 * integers only, because the engines divide differently.
 */
function totalsBy(
  { db, engine }: OpenedDatabase,
  pieces: readonly Piece[],
  key: ReturnType<typeof sql<string | number>>,
  tool: string | readonly string[],
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

/** Tools among which those with the most calls are. Of a time of more than some hours, they are those that lead on its days. */
function leadingTools({ db, engine }: OpenedDatabase, pieces: readonly Piece[], tool: string) {
  const isWanted = isNamed(engine, tool);
  const from = pieces[0]!.from; // There is always a piece.
  const to = pieces.at(-1)!.to;
  const days: Piece = {
    span: "day",
    from: from - (from % spans.day),
    to: Math.ceil(to / spans.day) * spans.day,
  };
  const leading = (time: Expression<SqlBool>) =>
    sql`select tool_name, calls from (
      select tool_name, calls from tool_days where ${time} and ${isWanted}
      order by calls desc, tool_name desc limit ${sql.lit(MOST_TOOLS)}
    ) AS listed`;
  const all = ({ span }: Piece, time: Expression<SqlBool>) =>
    sql`select tool_name, calls from call_counts where span = ${span} and ${time} and ${isWanted}`;
  const lists =
    to - from > LONGEST_READ ? eachTime(days).map(leading) : pieces.map((piece) => all(piece, timeOf(piece)));
  return db
    .selectFrom(sql<{ tool_name: string }>`(${sql.join(lists, sql` union all `)})`.as("counted"))
    .select(["tool_name", sql<number>`sum(calls)`.as("calls")])
    .groupBy("tool_name")
    .orderBy("calls", "desc")
    .orderBy("tool_name")
    .limit(MOST_TOOLS);
}

/** All calls of the named tools, the tools with the most first. */
function callsByTool({ db }: OpenedDatabase, pieces: readonly Piece[], names: readonly string[]) {
  const isWanted = sql<SqlBool>`tool_name in (${sql.join(names)})`;
  const counts = pieces.map((piece) => {
    const isDay = piece.span === "day";
    const table = isDay ? sql`tool_days where` : sql`call_counts where span = ${piece.span} and`;
    // Of minutes, the index finds those of all tools sooner than each minute of each tool; days are in its order by tool.
    const time = piece.span === "hour" ? timesOf(piece) : timeOf(piece);
    return sql`select tool_name, calls, errors, cancelled from ${table} ${time} and ${isWanted}`;
  });
  return db
    .selectFrom(sql<{ tool_name: string }>`(${sql.join(counts, sql` union all `)})`.as("counted"))
    .select([
      "tool_name as key",
      sql<number | string>`sum(calls)`.as("calls"),
      sql<number | string>`sum(errors)`.as("errors"),
      sql<number | string>`sum(cancelled)`.as("cancelled"),
      sql<null>`null`.as("p50"),
      sql<null>`null`.as("p95"),
    ])
    .groupBy("tool_name")
    .having(sql<SqlBool>`sum(calls) > 0`)
    .orderBy("calls", "desc")
    .orderBy("key")
    .$castTo<TotalsRow>();
}

/** Milliseconds. The counts of a longer time are not all read to find the tools with the most calls. */
const LONGEST_READ = 3 * spans.hour;
/** More slices than this are read with the counts of all other tools between them. SQLite joins at most 500 lists. */
const MOST_SLICES = 400;

/** The beginnings of a piece's slices, unless there are too many of them. */
function startsOf({ span, from, to }: Piece): number[] {
  const count = (to - from) / spans[span];
  return count > MOST_SLICES ? [] : Array.from({ length: count }, (_, at) => from + at * spans[span]);
}

/** A condition for each slice, or one for all of them. */
function eachTime(piece: Piece): Expression<SqlBool>[] {
  const starts = startsOf(piece);
  return starts.length === 0 ? [timeOf(piece)] : starts.map((start) => sql`starts_at = ${start}`);
}

function timeOf({ from, to }: Piece): Expression<SqlBool> {
  return sql`starts_at >= ${from} and starts_at < ${to}`;
}

/** Slice by slice, the index finds the rows of some tools without those of the others. */
function timesOf(piece: Piece): Expression<SqlBool> {
  const starts = startsOf(piece);
  return starts.length === 0 ? timeOf(piece) : sql`starts_at in (${sql.join(starts)})`;
}

/** Whether a row counts a tool whose name matches a glob. */
function isNamed(engine: Engine, glob: string): Expression<SqlBool> {
  const isTool = sql<SqlBool>`tool_name <> ${ALL_TOOLS}`;
  return glob === "*" ? isTool : sql`${isTool} and ${matchesGlob(engine, "tool_name", toStorableText(glob))}`;
}

/** Whether a row counts what is meant, within a piece of time: a tool by its name, a glob, `ALL_TOOLS`, or some names. */
function isMeant(engine: Engine, piece: Piece, tool: string | readonly string[]): Expression<SqlBool> {
  if (typeof tool !== "string") return sql`${timesOf(piece)} and tool_name in (${sql.join(tool)})`;
  if (isGlob(tool)) return sql`${timeOf(piece)} and ${isNamed(engine, tool)}`;
  return sql`${timesOf(piece)} and tool_name = ${toStorableText(tool)}`;
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
