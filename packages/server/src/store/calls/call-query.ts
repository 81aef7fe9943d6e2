import { type Expression, type ExpressionBuilder, type SqlBool, sql } from "kysely";
import { toKey, toStorableText } from "../forms.ts";
import { contains, matchesGlob } from "../rows.ts";
import type { Engine, Tables } from "../schema.ts";

export interface CallQuery {
  /** Glob over the tool's name: `*` for any characters, `?` for one. */
  readonly tool?: string;
  readonly status?: "running" | "completed" | "error" | "interrupted";
  readonly session?: string;
  readonly minDuration?: number;
  readonly maxDuration?: number;
  /** Milliseconds since the epoch. */
  readonly since?: number;
  readonly until?: number;
  /** Anywhere in the arguments, the recorded result or the error, whatever the case of Latin letters. */
  readonly text?: string;
  /** The call that made them. */
  readonly parent?: string;
  /** A call, all that it made, and all that those made. */
  readonly root?: string;
  /** Glob over the caller. */
  readonly caller?: string;
  /** Only calls that no other call made. */
  readonly top?: boolean;
  /** Only calls that bear this flag. */
  readonly flag?: "loop";
  /** At most 500; default 50. Newest first. */
  readonly limit?: number;
  /** From the page before. */
  readonly cursor?: string;
}

/** No index helps with what these ask for. */
export function looksAtMany({ text, tool, caller, minDuration, maxDuration, top, flag }: CallQuery): boolean {
  return [top || undefined, text, tool, caller, minDuration, maxDuration, flag].some(
    (condition) => condition !== undefined,
  );
}

/** Said beside what implies it, because the index by state has only rows of which it is said. */
export const isNotCompleted = sql<SqlBool>`state <> 'completed'`;
const hasSession = sql<SqlBool>`session_id <> ''`;

/** The conditions of a query, all of them checked by the database. */
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
    conditions.push(expression("state", "=", query.status));
    if (query.status !== "completed") conditions.push(isNotCompleted);
  }
  if (query.session !== undefined) {
    conditions.push(expression("session_id", "=", toKey(query.session)));
    if (query.session !== "") conditions.push(hasSession);
  }
  if (query.parent !== undefined) conditions.push(expression("parent_call_id", "=", toKey(query.parent)));
  if (query.top === true) conditions.push(expression("parent_call_id", "is", null));
  // A quote within a text of the flags is written with a backslash, so that this is the name of one and nothing else.
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
    // In JSON, quotes and line breaks are written differently.
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
 * Whether a call is the given one or was made by it, directly or not. The root itself may not have been written yet when
 * calls that it made are. `union` leaves out what was found before, so that damaged records cannot go round in circles.
 */
function isInChain(root: string): Expression<SqlBool> {
  return sql`call_id in (
    with recursive chain AS (
      select call_id from calls where call_id = ${root} or parent_call_id = ${root}
      union
      select made.call_id from calls made join chain on made.parent_call_id = chain.call_id
    ) select call_id from chain)`;
}
