import { constants, DatabaseSync, type SQLInputValue } from "node:sqlite";
import { Worker } from "node:worker_threads";
import { RowCollector, uniqueColumns } from "./rows.ts";
import type { SqliteAnswer, SqliteRequest } from "./sqlite.ts";
import {
  bindParameters,
  isBlank,
  type JsonValue,
  leadingWord,
  type Statement,
  type StatementResult,
  toSafeInteger,
} from "./statement.ts";

/** The most memory of this process, in bytes. Node's own limit does not count SQLite's memory. */
const MOST_MEMORY = 1_024 * 1_048_576;

/** A statement that has run, in a transaction that is still open. */
let pending: { readonly database: DatabaseSync; readonly result: StatementResult } | undefined;

// The program of a child process. It receives a request and sends the result. A change then waits for the parent's
// commit message, so that the parent knows for certain whether it was made.
process.on("message", (message: SqliteRequest | "commit") => {
  let answer: SqliteAnswer;
  try {
    answer = message === "commit" ? commit() : run(message);
  } catch (error) {
    pending = undefined;
    answer = { error: error instanceof Error ? error.message : String(error) };
  }
  process.send?.(answer, () => {
    if (pending === undefined) process.disconnect?.();
  });
});

function run({ file, statement }: SqliteRequest): SqliteAnswer {
  const { isWrite, timeout } = statement;
  endAfter(timeout + 2_000);
  // SQLite undoes what is not committed when this process ends.
  const database = new DatabaseSync(file, {
    readOnly: !isWrite,
    enableForeignKeyConstraints: true,
    allowExtension: false,
    timeout: Math.min(5_000, timeout),
    readBigInts: true,
    returnArrays: true,
    limits: { attach: 0, length: 64 * 1_048_576 },
  });
  database.exec(isWrite ? "BEGIN IMMEDIATE" : "PRAGMA query_only = ON; BEGIN");
  database.setAuthorizer(authorize);
  const result = execute(database, statement);
  database.setAuthorizer(null);
  if (isWrite) {
    pending = { database, result };
    return "ready";
  }
  database.close();
  return { result };
}

/**
 * Ends this process after this time, in case the parent has died, or when the statement takes too much
 * memory. While SQLite works, only another thread can do that.
 */
function endAfter(milliseconds: number): void {
  const program = `
    const end = () => process.kill(process.pid, "SIGKILL");
    setTimeout(end, ${Number(milliseconds)});
    setInterval(() => {
      if (process.memoryUsage.rss() < ${MOST_MEMORY}) return;
      require("node:fs").writeSync(2, "heap out of memory");
      end();
    }, 20);`;
  new Worker(program, { eval: true }).unref();
}

function commit(): SqliteAnswer {
  if (pending === undefined) throw new Error("there is nothing to commit");
  const { database, result } = pending;
  database.exec("COMMIT");
  database.close();
  pending = undefined;
  return { result };
}

function execute(database: DatabaseSync, { sql, params, limit, isWrite }: Statement): StatementResult {
  const bound = bindParameters("sqlite", sql, params);
  const prepared = database.prepare(bound.sql);
  // SQLite would run only the first statement and silently ignore the others.
  if (!isBlank(bound.sql.slice(prepared.sourceSQL.length))) {
    throw new Error("only one statement can be run at a time; send the others in calls of their own");
  }
  const values = bound.values.map(toSqlValue);
  const columns = uniqueColumns(prepared.columns().map(({ name }) => name));
  const collector = new RowCollector(limit);
  if (columns.length === 0) prepared.run(...values);
  const found: Iterable<unknown> = columns.length === 0 ? [] : prepared.iterate(...values);
  // Rows are arrays because of `returnArrays`, which the type does not show. A change runs to its end: only the rows
  // that it returns are limited.
  for (const row of found) if (!collector.add(row as unknown[]) && !isWrite) break;
  return { columns, ...collector.collected, ...changes(database, sql, isWrite) };
}

function changes(database: DatabaseSync, sql: string, isWrite: boolean) {
  const word = leadingWord(sql);
  if (!isWrite || !changesRows.has(word)) return { affectedRows: null, lastInsertId: null };
  const done = database.prepare("SELECT changes(), last_insert_rowid()").get();
  // An array because of `returnArrays`, and big integers because of `readBigInts`.
  const [count, id] = done as unknown as [bigint, bigint];
  const isInsert = word === "INSERT" || word === "REPLACE";
  return { affectedRows: Number(count), lastInsertId: isInsert && count > 0n ? toSafeInteger(id) : null };
}

const changesRows = new Set(["INSERT", "UPDATE", "DELETE", "REPLACE", "WITH"]);

/** Passes whole numbers as integers; a column without a type would otherwise store 5 as 5.0. */
function toSqlValue(value: JsonValue): SQLInputValue {
  if (typeof value === "number" && Number.isSafeInteger(value)) return BigInt(value);
  if (typeof value === "boolean") return value ? 1n : 0n;
  if (typeof value === "object" && value !== null) return JSON.stringify(value);
  return value;
}

/** Pragmas that only read when they have no value. `database_list` is missing because it shows the file's path. */
const plainPragmas =
  "application_id auto_vacuum collation_list compile_options data_version encoding foreign_keys freelist_count " +
  "function_list journal_mode module_list page_count page_size pragma_list schema_version table_list user_version";

/** Pragmas that only read, also with a value, which names the table or index to read about. */
const valuePragmas =
  "foreign_key_check foreign_key_list index_info index_list index_xinfo integrity_check quick_check table_info " +
  "table_list table_xinfo";

/**
 * Keeps a statement inside its database and its transaction. Changes are not checked here: a read-only connection
 * refuses them itself, and extensions such as R*Tree prepare changes even for reading.
 */
function authorize(action: number, first: string | null, second: string | null): number {
  const { SQLITE_PRAGMA, SQLITE_FUNCTION, SQLITE_ATTACH, SQLITE_DETACH } = constants;
  const { SQLITE_TRANSACTION, SQLITE_SAVEPOINT, SQLITE_DENY, SQLITE_OK } = constants;
  const isRefused =
    action === SQLITE_PRAGMA
      ? !isAllowedPragma(first?.toLowerCase() ?? "", second)
      : (action === SQLITE_FUNCTION && second === "load_extension") ||
        [SQLITE_ATTACH, SQLITE_DETACH, SQLITE_TRANSACTION, SQLITE_SAVEPOINT].includes(action);
  return isRefused ? SQLITE_DENY : SQLITE_OK;
}

function isAllowedPragma(name: string, value: string | null): boolean {
  const names = value === null ? `${plainPragmas} ${valuePragmas}` : valuePragmas;
  return names.split(" ").includes(name);
}
