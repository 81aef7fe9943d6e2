import { type Expression, type ExpressionBuilder, type SqlBool, sql } from "kysely";
import { toKey, toStorableText } from "../keys.ts";
import { contains, matchesGlob } from "../row-mapping.ts";
import type { Engine, Tables } from "../schema.ts";

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
  /** Only calls that no other call made. */
  readonly top?: boolean;
  readonly flag?: "loop";
  /** How many calls a page has: at most 500, default 50. The newest calls come first. */
  readonly limit?: number;
  /** `next` of the page before. */
  readonly cursor?: string;
}

/**
 * Whether the query has a condition that may make the database look at many rows, because no index fits it.
 */
export function looksAtMany({ text, tool, caller, minDuration, maxDuration, top, flag }: CallQuery): boolean {
  return [top || undefined, text, tool, caller, minDuration, maxDuration, flag].some(
    (condition) => condition !== undefined,
  );
}

/** Added to conditions that imply it: SQLite uses the partial index only when a query repeats its condition. */
export const isNotCompleted = sql<SqlBool>`state <> 'completed'`;
/** The JSON of an error begins with its name and its code. */
const wasCancelled = sql<SqlBool>`(error is not null and error like '{"name":"ToolCancelledError"%')`;
const hasSession = sql<SqlBool>`session_id <> ''`;

export function filterCalls(
  expression: ExpressionBuilder<Tables, "calls">,
  engine: Engine,
  query: CallQuery,
): Expression<SqlBool> {
  const conditions: Expression<SqlBool>[] = [];
  if (query.tool !== undefined) {
    conditions.push(matchesGlob(engine, "tool_name", toStorableText(query.tool)));
  }
  if (query.status !== undefined) {
    const isCancelled = query.status === "cancelled";
    conditions.push(expression("state", "=", isCancelled ? "error" : query.status));
    if (query.status !== "completed") conditions.push(isNotCompleted);
    if (isCancelled) conditions.push(wasCancelled);
    if (query.status === "error") conditions.push(sql<SqlBool>`not ${wasCancelled}`);
  }
  if (query.session !== undefined) {
    conditions.push(expression("session_id", "=", toKey(query.session)));
    if (query.session !== "") conditions.push(hasSession);
  }
  if (query.parent !== undefined) conditions.push(expression("parent_call_id", "=", toKey(query.parent)));
  if (query.top === true) conditions.push(expression("parent_call_id", "is", null));
  // Quotes inside JSON texts are escaped, so this matches a key and nothing else.
  if (query.flag !== undefined) conditions.push(contains(engine, "flags", `"${query.flag}":`));
  if (query.root !== undefined) conditions.push(isInChain(toKey(query.root)));
  if (query.caller !== undefined) {
    conditions.push(matchesGlob(engine, "caller", toStorableText(query.caller)));
  }
  if (query.minDuration !== undefined) conditions.push(expression("duration", ">=", query.minDuration));
  if (query.maxDuration !== undefined) conditions.push(expression("duration", "<=", query.maxDuration));
  if (query.since !== undefined) conditions.push(expression("timestamp", ">=", Math.ceil(query.since)));
  if (query.until !== undefined) conditions.push(expression("timestamp", "<=", Math.floor(query.until)));
  if (query.text !== undefined && query.text !== "") {
    // In columns of JSON, quotes and line breaks are escaped.
    const inJson = JSON.stringify(query.text).slice(1, -1);
    conditions.push(
      expression.or([
        contains(engine, "result_text", toStorableText(query.text)),
        contains(engine, "parameters", inJson),
        contains(engine, "error", inJson),
      ]),
    );
  }
  return expression.and(conditions);
}

/**
 * Whether a call is the root or one of its descendants. The root's own row may not be written yet. `union` drops
 * repeated rows, so damaged records cannot cause an endless loop.
 */
function isInChain(root: string): Expression<SqlBool> {
  return sql`call_id in (
    with recursive chain AS (
      select call_id from calls where call_id = ${root} or parent_call_id = ${root}
      union
      select made.call_id from calls made join chain on made.parent_call_id = chain.call_id
    ) select call_id from chain)`;
}
