import type { Expression, ExpressionBuilder, SqlBool } from "kysely";
import type { Engine } from "../database/engine.ts";
import { contains, matchesGlob } from "../database/like-pattern.ts";
import type { Tables } from "../database/schema.ts";
import { toKey, toStorableText } from "../database/storable-text.ts";
import type { CallQuery } from "../store.ts";

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
  if (query.status !== undefined) conditions.push(expression("state", "=", query.status));
  if (query.session !== undefined) conditions.push(expression("session_id", "=", toKey(query.session)));
  if (query.parent !== undefined) conditions.push(expression("parent_call_id", "=", toKey(query.parent)));
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
