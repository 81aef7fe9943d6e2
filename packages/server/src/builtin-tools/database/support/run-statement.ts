import type { InternalToolContext } from "../../../calls/index.ts";
import { field, optional, text, type Values, whole } from "../../define.ts";
import { type DeclaredDatabase, openDeclared } from "./databases.ts";
import { checkStatement, type StatementParameters, type StatementResult } from "./statement.ts";

const USUAL_LIMIT = 100;
const MOST_ROWS = 10_000;
const USUAL_TIMEOUT = 30_000;
export const LONGEST_TIMEOUT = 10 * 60_000;

export const statementInput = {
  database: optional(
    text("Name of a database that the workspace declares. May be left out when there is only one."),
  ),
  sql: text("One SQL statement, in the database's own dialect.", { minLength: 1, maxLength: 1_000_000 }),
  params: optional(
    field<StatementParameters>({
      anyOf: [{ type: "array" }, { type: "object" }],
      description:
        "Values for placeholders; never write values into the sql. An array for ? (SQLite, MySQL) or $1 (PostgreSQL), an object for :name (all).",
    }),
  ),
  limit: whole("Most rows to give back.", { minimum: 1, maximum: MOST_ROWS, default: USUAL_LIMIT }),
  timeout: whole("Milliseconds after which the statement is stopped.", {
    minimum: 1,
    maximum: LONGEST_TIMEOUT,
    default: USUAL_TIMEOUT,
  }),
};

export interface RanStatement extends StatementResult {
  readonly database: string;
  readonly elapsed: number;
}

/** Runs a tool's statement. Error messages name the database and hide its password. */
export async function runStatement(
  { database, sql, params = [], limit, timeout }: Values<typeof statementInput>,
  ctx: InternalToolContext,
  isWrite: boolean,
): Promise<RanStatement> {
  checkStatement(sql, isWrite);
  const declared = await openDeclared(ctx.workspace, database, isWrite);
  const expired = AbortSignal.timeout(timeout);
  const startedAt = performance.now();
  try {
    const statement = { sql, params, limit, timeout, isWrite };
    const result = await declared.engine.run(statement, AbortSignal.any([ctx.signal, expired]));
    return { ...result, database: declared.name, elapsed: Math.round(performance.now() - startedAt) };
  } catch (error) {
    if (ctx.signal.aborted) throw ctx.signal.reason;
    if (expired.aborted) throw tookTooLong(declared.name, timeout, isWrite);
    throw failure(declared, error);
  }
}

function tookTooLong(name: string, timeout: number, isWrite: boolean): Error {
  const undone = isWrite ? " and its changes undone" : "";
  return new Error(
    `The statement on "${name}" took longer than ${timeout} ms and was stopped${undone}. Narrow it, or raise timeout.`,
  );
}

/** The database's own message without secrets. The original error is not kept as a cause: it may hold more. */
function failure({ name, engine, secrets }: DeclaredDatabase, error: unknown): Error {
  const { message, detail, hint, code } = describeError(error);
  const said = [message, detail, hint].filter(Boolean).join(" ");
  const safe = secrets.reduce(
    (text, secret) => text.replaceAll(secret, "[hidden]"),
    said || code || "unknown error",
  );
  return new Error(`${engine.name} ("${name}"): ${explain(safe)}`);
}

interface DriverError {
  readonly message?: string;
  readonly detail?: string;
  readonly hint?: string;
  readonly code?: string;
}

function describeError(error: unknown): DriverError {
  // The error of a refused connection to several addresses of a host has its messages in its parts.
  if (error instanceof AggregateError && error.errors.length > 0) return describeError(error.errors[0]);
  return error instanceof Error ? error : { message: String(error) };
}

function explain(message: string): string {
  if (/readonly database|read-only transaction|READ ONLY transaction/i.test(message)) {
    return `${message}. This tool only reads; use internal_database_update to change data.`;
  }
  if (/^not authorized$|not authorized to use|^authorization denied/i.test(message)) {
    return `${message}. A statement may not attach other files, control transactions, load extensions or change settings.`;
  }
  return message;
}
