import { type Expression, type ExpressionBuilder, type SqlBool, sql } from "kysely";
import { toKey, toStorableText } from "../keys.ts";
import { contains, matchesGlob } from "../row-mapping.ts";
import { type Engine, type Tables, wasCancelled, wasInLoop } from "../schema.ts";

export interface CallQuery {
  /** Glob over the tool's name: `*` for any characters, `?` for one. */
  readonly tool?: string;
  readonly status?: "running" | "completed" | "error" | "interrupted" | "cancelled";
  readonly session?: string;
  readonly minDuration?: number;
  readonly maxDuration?: number;
  /** Milliseconds since the epoch, like `until`. */
  readonly since?: number;
  readonly until?: number;
  /**
   * Must occur in the arguments, the recorded result or the error. The case of Latin letters does not matter.
   */
  readonly text?: string;
  readonly parent?: string;
  /** Only this call and its descendants. */
  readonly root?: string;
  /** Glob over the caller. */
  readonly caller?: string;
  /** Only calls of chains that this caller began. For callers with a token; see the column `owner`. */
  readonly owner?: string;
  /** Only calls that no other call made. */
  readonly top?: boolean;
  readonly flag?: "loop";
  /** How many calls a page has: at most 500, default 50. The newest calls come first. */
  readonly limit?: number;
  /** `next` of the page before. */
  readonly cursor?: string;
  /** Stops a search when nobody waits for its answer any more. */
  readonly signal?: AbortSignal;
}

/** Added to conditions that imply it: SQLite uses the partial index only when a query repeats its condition. */
export const isNotCompleted = sql<SqlBool>`state <> 'completed'`;
const hasSession = sql<SqlBool>`session_id <> ''`;
const isNested = sql<SqlBool>`root_call_id is not null`;
const hasOwner = sql<SqlBool>`owner <> ''`;

/** The conditions of a query, by how the database finds their calls. */
interface CallFilter {
  /** One index gives these calls, in the order of their time. */
  readonly indexed: readonly Expression<SqlBool>[];
  /** The part of that order that is wanted. */
  readonly times: readonly Expression<SqlBool>[];
  /** Calls must be looked at, one by one, for the rest. */
  readonly rest: readonly Expression<SqlBool>[];
}

/**
 * Splits the conditions of a query. Of those that have an index, the most selective kind is chosen here and not by the
 * database: SQLite knows nothing about how many rows have which value. `chain`: the first call of the chain, which all
 * others of it name; it does not name itself, and is looked up apart from them. Without it a chain is walked.
 */
export function filterCalls(
  expression: ExpressionBuilder<Tables, "calls">,
  engine: Engine,
  query: CallQuery,
  chain: string | undefined,
): CallFilter {
  const rest: Expression<SqlBool>[] = [];
  const times: Expression<SqlBool>[] = [];
  // The plus keeps SQLite from using an index.
  const equals = (column: string, value: string) =>
    sql<SqlBool>`${sql.raw(engine === "sqlite" ? "+" : "")}${sql.ref(column)} = ${value}`;
  let indexed: Expression<SqlBool>[] = [];
  /** The first condition with an index wins. `alone`: the conditions of that index, which the query must repeat. */
  const choose = (value: string | undefined, column: string, ...alone: Expression<SqlBool>[]) => {
    if (value === undefined) return;
    if (indexed.length === 0 && alone.length > 0) indexed = [sql`${sql.ref(column)} = ${value}`, ...alone];
    else rest.push(equals(column, value), ...(engine === "sqlite" ? [] : alone));
  };
  const { tool, session, status, caller } = query;
  const root = query.root === undefined ? undefined : toKey(query.root);
  if (root !== undefined && chain === undefined) indexed = [isInChain(root, engine)];
  choose(chain, "root_call_id", isNested);
  choose(query.parent && toKey(query.parent), "parent_call_id", sql`parent_call_id is not null`);
  choose(session === undefined ? undefined : toKey(session), "session_id", ...(session ? [hasSession] : []));
  const isExact = tool !== undefined && !isGlob(tool);
  const isExactCaller = caller !== undefined && !isGlob(caller);
  choose(query.owner && toKey(query.owner), "owner", ...(query.owner ? [hasOwner] : []));
  choose(isExactCaller ? toStorableText(caller) : undefined, "caller", sql`caller is not null`);
  choose(isExact ? toStorableText(tool) : undefined, "tool_name", sql`tool_name is not null`);
  /** MySQL has no index of these calls. */
  const chooseFew = (few: Expression<SqlBool>) => {
    if (indexed.length === 0 && engine !== "mysql") indexed = [few];
    else rest.push(few);
  };
  const isCancelled = sql.raw<SqlBool>(wasCancelled(engine));
  if (query.flag === "loop") chooseFew(sql.raw(wasInLoop(engine)));
  // A cancelled call is recorded as one that failed, and is no error.
  if (status === "cancelled") chooseFew(isCancelled);
  else choose(status, "state", ...(status === "completed" ? [] : [isNotCompleted]));
  if (status === "error") rest.push(sql`not (error is not null and ${isCancelled})`);
  if (query.since !== undefined) times.push(expression("timestamp", ">=", Math.ceil(query.since)));
  if (query.until !== undefined) times.push(expression("timestamp", "<=", Math.floor(query.until)));
  if (tool !== undefined && !isExact) rest.push(matchesGlob(engine, "tool_name", toStorableText(tool)));
  if (query.top === true) rest.push(expression("parent_call_id", "is", null));
  if (caller !== undefined && !isExactCaller)
    rest.push(matchesGlob(engine, "caller", toStorableText(caller)));
  if (query.minDuration !== undefined) rest.push(expression("duration", ">=", query.minDuration));
  if (query.maxDuration !== undefined) rest.push(expression("duration", "<=", query.maxDuration));
  if (query.text !== undefined && query.text !== "") {
    // In columns of JSON, quotes and line breaks are escaped.
    const inJson = JSON.stringify(query.text).slice(1, -1);
    rest.push(
      expression.or([
        contains(engine, "result_text", toStorableText(query.text)),
        contains(engine, "parameters", inJson),
        contains(engine, "error", inJson),
      ]),
    );
  }
  if (root === undefined || chain === undefined || chain === root) return { indexed, times, rest };
  // Climbing costs most, so that it is done for calls that fit otherwise. Left to itself, SQLite climbs first.
  const isWanted = sql<SqlBool>`case when ${expression.and(rest)} then ${isBelow(root)} else false end`;
  return { indexed, times, rest: [isWanted] };
}

export function isGlob(pattern: string): boolean {
  return /[*?]/.test(pattern);
}

/** Whether a call is the given one or was made by it, directly or not: climbs from each call until it meets that one. */
function isBelow(callId: string): Expression<SqlBool> {
  return sql`${callId} in (
    with recursive above AS (
      select calls.call_id as id
      union
      select made.parent_call_id from above join calls made on made.call_id = above.id where above.id <> ${callId}
    ) select id from above where id is not null
  )`;
}

/**
 * Whether a call is the given one or one of its descendants: walks down from it. Its own row may not be written yet.
 * `union` drops repeated rows, so damaged records cannot cause an endless loop.
 */
function isInChain(callId: string, engine: Engine): Expression<SqlBool> {
  const chain = sql`with recursive chain AS (
      select call_id from calls where call_id = ${callId}
      union
      select call_id from calls where parent_call_id = ${callId}
      union
      select made.call_id from chain ${sql.raw(madeBy[engine])}
    ) select call_id from chain`;
  // As an array, the chain is found first, and its expected cost does not hide that of the rest of the query.
  return engine === "postgres" ? sql`call_id = any(array(${chain}))` : sql`call_id in (${chain})`;
}

/**
 * Joins the calls that each call of the chain made, by their index. Left to themselves, PostgreSQL and MariaDB expect so
 * many rows that they read all calls for each step.
 */
const madeBy: Readonly<Record<Engine, string>> = {
  sqlite: "join calls made on made.parent_call_id = chain.call_id",
  postgres:
    "cross join lateral (select call_id from calls where parent_call_id = chain.call_id offset 0) as made",
  mysql: "straight_join calls made on made.parent_call_id = chain.call_id",
};
