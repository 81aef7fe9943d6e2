import { type Expression, type RawBuilder, type SqlBool, sql } from "kysely";
import type { OpenedDatabase } from "../database.ts";
import { PatternTooWideError } from "../errors.ts";
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
  /** Glob over the tool's name, which may mean at most `MOST_MEANT` tools unless it means all. */
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
  readonly key: string | number | null;
  readonly calls: number | string;
  readonly errors: number | string;
  readonly cancelled: number | string;
  readonly p50: number | null;
  readonly p95: number | null;
}

/** How many tools are listed at the most, and read of each day to find them. */
const MOST_TOOLS = 500;
/** How many tools a pattern may mean: their counts of 30 days are added up in a twentieth of a second. */
export const MOST_MEANT = 250;
/** For how many tools histograms are added up: of a busy tool, 30 days have about 600 rows. */
const MOST_MEASURED = 50;

/** The database adds up the counts. Throws `PatternTooWideError`. */
export async function readStatistics(
  opened: OpenedDatabase,
  query: StatisticsQuery,
): Promise<CallStatistics> {
  const meant = await meantTools(opened, query);
  const isPattern = meant !== undefined && isGlob(query.tool ?? "");
  const scan: OpenedDatabase["scan"] = (wanted) =>
    opened.scan(wanted, query.signal, isPattern ? "long" : "short");
  const database = { ...opened, scan };
  const asked = await withinCounts(database, query);
  const usual = intervalFor(query.until - query.since, isPattern);
  const interval = Math.max(usual, finestOf(query, toolSpans).length);
  // Where all tools are meant, the counts of all are read.
  const allowed = (meant === undefined ? allSpans : toolSpans).filter((span) => spans[span] <= interval);
  const pieces = piecesOf(asked, allowed);
  const names = meant ?? [ALL_TOOLS];
  const slice = sql<number>`starts_at - starts_at % ${sql.lit(interval)}`;
  const summed = withWhole(sumsBy(database, pieces, slice, names));
  const isNothing = pieces.length === 0 || names.length === 0;
  const rows = isNothing ? [] : await scan(totalsOf(database, summed).orderBy("key"));
  const totals = toTotals(rows.find(({ key }) => key === null) ?? none);
  const sliced = rows.filter(({ key }) => key !== null);
  return {
    ...totals,
    interval,
    buckets: sliced.map((row) => ({ at: Number(row.key), ...toTotals(row) })),
    tools: await listTools(database, asked, meant, totals),
  };
}

const none = { calls: 0, errors: 0, cancelled: 0, p50: null, p95: null };

/** The tools that a pattern means, of those that were ever called; undefined where it means all. */
async function meantTools(
  database: OpenedDatabase,
  { tool = "*", signal }: StatisticsQuery,
): Promise<readonly string[] | undefined> {
  if (/^\**$/.test(tool)) return undefined;
  if (!isGlob(tool)) return [toStorableText(tool)];
  const called = await database.scan(calledTools(database, tool), signal, "long");
  const names = called.map(({ name }) => name);
  if (names.length > MOST_MEANT) throw new PatternTooWideError(tool, MOST_MEANT);
  return names;
}

/** The tools with the most calls first. `meant`: those of a pattern; `whole`: the totals of all that are meant. */
async function listTools(
  database: OpenedDatabase,
  query: StatisticsQuery,
  meant: readonly string[] | undefined,
  whole: CallTotals,
): Promise<CallStatistics["tools"]> {
  const { tool = "*", tools: wanted = MOST_TOOLS } = query;
  const most = Math.min(wanted, MOST_TOOLS);
  if (most === 0 || whole.calls === 0) return [];
  if (meant !== undefined && !isGlob(tool)) return [{ toolName: tool, ...whole }];
  const pieces = piecesOf(query, toolSpans);
  const names =
    meant ?? (await database.scan(leadingTools(database, pieces))).map(({ tool_name }) => tool_name);
  // The histograms have the calls too, so that few tools are read once.
  const counted =
    names.length <= MOST_MEASURED ? undefined : await database.scan(callsByTool(database, pieces, names));
  const first = counted?.slice(0, Math.min(most, MOST_MEASURED)).map(({ key }) => String(key)) ?? names;
  if (first.length === 0) return [];
  const byTool = totalsOf(database, sumsBy(database, pieces, sql<string>`tool_name`, first));
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

/** Splits a time into as few slices as possible: long ones in the middle, shorter ones at the ends. None if it ends before it begins. */
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
  return split(since - (since % length), to, used);
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

/** The counts of some tools, added up by a key and their bucket. */
function sumsBy(
  { engine }: OpenedDatabase,
  pieces: readonly Piece[],
  key: ReturnType<typeof sql<string | number>>,
  names: readonly string[],
) {
  const counts = pieces.map(
    (piece) => sql`select bucket, calls, errors, cancelled, total, ${key} as grp
        from ${countsOf(engine, piece, sql`tool_name in (${sql.join(names)})`)}`,
  );
  return sql`select grp, bucket, ${sums}
    from (${sql.join(counts, sql` union all `)}) AS counted group by grp, bucket`;
}

/** The rows of a piece, slice by slice, as the index finds those of some tools without those of the others. */
function countsOf(engine: Engine, piece: Piece, isWanted: Expression<SqlBool>) {
  const { span } = piece;
  if (engine !== "postgres")
    return sql`call_counts where span = ${span} and ${timesOf(piece)} and ${isWanted}`;
  // Left to itself, it reads the others too.
  const starts = startsOf(piece).map((start) => sql`(${sql.lit(start)})`);
  return sql`(values ${sql.join(starts)}) AS slices(slice) cross join lateral (
      select * from call_counts where span = ${span} and starts_at = slice and ${isWanted} offset 0
    ) AS counts`;
}

const sums = sql`sum(calls) as calls, sum(errors) as errors, sum(cancelled) as cancelled, sum(total) as total`;

/** Adds the whole to the sums of its parts, with null as its key. */
function withWhole(parts: RawBuilder<unknown>) {
  return sql`with parts AS (${parts})
    select grp, bucket, calls, errors, cancelled, total from parts
    union all select null, bucket, ${sums} from parts group by bucket`;
}

/**
 * The totals of each group of sums. `upto` is how many calls of known duration are in this bucket and those below it; `p50`
 * is in the first bucket that reaches more than half of the known ones, `p95` in the first beyond 19 of 20. Uses integers
 * only, because the engines divide differently.
 */
function totalsOf({ db }: OpenedDatabase, summed: RawBuilder<unknown>) {
  const known = sql`case when bucket = ${sql.lit(UNKNOWN)} then 0 else calls end`;
  const placed = sql<{ grp: string | number | null }>`(
    select grp, calls, errors, cancelled, bucket, total / nullif(calls, 0) as mean,
      sum(${known}) over (partition by grp order by bucket) as upto,
      sum(${known}) over (partition by grp) as known
    from (${summed}) as summed
  )`;
  const isKnown = sql`bucket <> ${sql.lit(UNKNOWN)} and known > 0`;
  return db
    .selectFrom(placed.as("placed"))
    .select([
      sql<string | number | null>`grp`.as("key"),
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

/**
 * The tools that a pattern means, in order of their names, or one more than it may mean. Each is found behind the one
 * before, so that the counts of the tools are not read.
 */
function calledTools({ db, engine }: OpenedDatabase, tool: string) {
  const pattern = toStorableText(tool);
  const start = pattern.slice(0, pattern.search(/[*?]/));
  // To ask every name for its beginning, or for the least one with `min`, takes a quarter longer.
  const goesOn =
    start === ""
      ? sql`named.name is not null`
      : sql`substr(named.name, 1, ${sql.lit([...start].length)}) = ${start}`;
  const named = sql<{ name: string }>`(${
    // It does so by itself, and its recursion ends after a thousand steps.
    engine === "mysql"
      ? sql`select distinct tool_name as name from tool_days where tool_name >= ${start}`
      : sql`with recursive named(name) AS (
          select min(tool_name) from tool_days where tool_name >= ${start}
          union all
          select (select tool_name from tool_days where tool_name > named.name order by tool_name limit 1)
          from named where ${goesOn}
        ) select name from named where name is not null`
  })`;
  return db
    .selectFrom(named.as("named"))
    .select("name")
    .where(matchesGlob(engine, "name", pattern))
    .limit(MOST_MEANT + 1);
}

/** Tools among which those with the most calls are. Of a time of more than some hours, they are those that lead on its days. */
function leadingTools({ db }: OpenedDatabase, pieces: readonly Piece[]) {
  const isTool = sql<SqlBool>`tool_name <> ${ALL_TOOLS}`;
  const from = pieces[0]!.from; // Something was counted, so that there is a piece.
  const to = pieces.at(-1)!.to;
  const days: Piece = {
    span: "day",
    from: from - (from % spans.day),
    to: Math.ceil(to / spans.day) * spans.day,
  };
  const leading = (time: Expression<SqlBool>) =>
    sql`select tool_name, calls from (
      select tool_name, calls from tool_days where ${time} and ${isTool}
      order by calls desc, tool_name desc limit ${sql.lit(MOST_TOOLS)}
    ) AS listed`;
  const all = ({ span }: Piece, time: Expression<SqlBool>) =>
    sql`select tool_name, calls from call_counts where span = ${span} and ${time} and ${isTool}`;
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
/** With more slices than this, those of all tools between them are read too. SQLite joins at most 500 lists. */
const MOST_LISTS = 400;

/** A condition for each slice, or one for all of them. */
function eachTime(piece: Piece): Expression<SqlBool>[] {
  const starts = startsOf(piece);
  return starts.length > MOST_LISTS ? [timeOf(piece)] : starts.map((start) => sql`starts_at = ${start}`);
}

function timeOf({ from, to }: Piece): Expression<SqlBool> {
  return sql`starts_at >= ${from} and starts_at < ${to}`;
}

function timesOf(piece: Piece): Expression<SqlBool> {
  return sql`starts_at in (${sql.join(startsOf(piece))})`;
}

/** The beginnings of a piece's slices; its end may be within the last of them. */
function startsOf({ span, from, to }: Piece): number[] {
  const length = Math.ceil((to - from) / spans[span]);
  return Array.from({ length }, (_, at) => from + at * spans[span]);
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
 * slices. Of many tools, a quarter of an hour would have to be added up from minutes.
 */
function intervalFor(length: number, isOfMany: boolean): number {
  if (length <= 2 * spans.hour) return spans.minute;
  if (length <= 2 * spans.day && !isOfMany) return spans.quarter;
  return length <= 7 * spans.day ? spans.hour : spans.day;
}
