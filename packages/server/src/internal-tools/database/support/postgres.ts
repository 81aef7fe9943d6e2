import type { Socket } from "node:net";
import type { Client, ClientConfig, Query, QueryArrayConfig, QueryConfig, QueryResultBase } from "pg";
import { toSafeInteger } from "./json-value.ts";
import { type BoundSql, bindParameters } from "./placeholders.ts";
import { RowCollector, uniqueColumns } from "./row-collector.ts";
import type { DatabaseEngine, Statement, StatementResult } from "./statement.ts";

const CONNECT_TIMEOUT = 10_000;

export function createPostgresEngine(url: string): DatabaseEngine {
  return {
    name: "PostgreSQL",
    async run(statement, signal) {
      const bound = bindParameters("postgres", statement.sql, statement.params);
      // Loaded when the first statement needs it: most workspaces have no PostgreSQL.
      const { default: pg } = await import("pg");
      const connect = () => new pg.Client(clientConfig(url, pg.types.getTypeParser));
      signal.throwIfAborted();
      const client = connect();
      // A connection that breaks also fails the query in flight, which is where it is reported.
      client.on("error", () => {});
      const { promise: stopped, reject } = Promise.withResolvers<never>();
      const stop = () => {
        void cancelBackend(connect, client).finally(() => reject(signal.reason));
      };
      signal.addEventListener("abort", stop, { once: true });
      try {
        const query = new pg.Query(queryConfig(bound));
        const result = await Promise.race([runOn(client, query, statement), stopped]);
        signal.throwIfAborted();
        signal.removeEventListener("abort", stop);
        if (statement.isWrite) await client.query("COMMIT");
        // Takes leave and does not wait for the answer. With rows still on their way it drops the connection at once.
        void client.end().catch(() => {});
        return result;
      } catch (error) {
        drop(client);
        throw error;
      } finally {
        signal.removeEventListener("abort", stop);
      }
    },
  };
}

async function runOn(client: Client, query: Query, statement: Statement): Promise<StatementResult> {
  await client.connect();
  await client.query(statement.isWrite ? "BEGIN" : "BEGIN READ ONLY");
  // This takes the transaction's first snapshot, after which read-only can no longer be switched off. The server's
  // own limit is for the case that this process dies.
  await client.query("SELECT set_config('statement_timeout', $1, true)", [String(statement.timeout + 1_000)]);
  return collect(client, query, statement);
}

/** Dates and times stay as the server writes them: a JavaScript date would move them to this machine's time zone. */
const dateTypes = new Set([1082, 1083, 1114, 1184, 1266, 1186, 1115, 1182, 1183, 1185, 1187, 1270]);
const INT8 = 20;

function clientConfig(
  url: string,
  usual: (oid: number, format?: "text") => (text: string) => unknown,
): ClientConfig {
  const getTypeParser = (oid: number, format?: string) => {
    if (format === "binary") return (value: unknown) => value;
    if (dateTypes.has(oid)) return (text: string) => text;
    if (oid === INT8) return (text: string) => toSafeInteger(BigInt(text));
    return usual(oid, "text");
  };
  return {
    connectionString: url,
    connectionTimeoutMillis: CONNECT_TIMEOUT,
    application_name: "toolrack",
    // The declared type is a family of overloads for each format; this one function answers all of them.
    types: { getTypeParser } as unknown as NonNullable<ClientConfig["types"]>,
  };
}

/** The extended protocol takes exactly one statement; the server refuses a second one. */
function queryConfig({ sql, values }: BoundSql): QueryConfig {
  const config: QueryArrayConfig & { readonly queryMode: "extended" } = {
    text: sql,
    values: [...values],
    rowMode: "array",
    queryMode: "extended",
  };
  return config;
}

function collect(client: Client, query: Query, { limit, isWrite }: Statement): Promise<StatementResult> {
  const collector = new RowCollector(limit);
  const finish = ({ fields, rowCount, command }: QueryResultBase): StatementResult => ({
    columns: uniqueColumns(fields.map(({ name }) => name)),
    rows: collector.rows,
    isTruncated: collector.isTruncated,
    affectedRows: isWrite && changesRows.has(command) ? rowCount : null,
    lastInsertId: null,
  });
  return new Promise((resolve, reject) => {
    // A change runs to its end; of a reading statement the rest is left unread.
    query.on("row", (row: unknown[], result) => {
      if (!collector.add(row) && !isWrite && result !== undefined) resolve(finish(result));
    });
    query.on("end", (result: QueryResultBase) => resolve(finish(result)));
    query.on("error", reject);
    client.query(query);
  });
}

const changesRows = new Set(["INSERT", "UPDATE", "DELETE", "MERGE"]);

/**
 * Ends a connection at once, also one on which nobody answers; the server then rolls back. The socket is not part of
 * the driver's types.
 */
function drop(client: Client): void {
  void client.end().catch(() => {});
  (client as Client & { readonly connection: { readonly stream: Socket } }).connection.stream.destroy();
}

/** Tells the server to stop. A closed connection alone would not: it is noticed only when rows are sent. */
async function cancelBackend(connect: () => Client, client: Client): Promise<void> {
  // Set once the connection stands; the declared type leaves it out.
  const { processID } = client as Client & { readonly processID?: number | null };
  if (processID === null || processID === undefined) return;
  const second = connect();
  second.on("error", () => {});
  try {
    await second.connect();
    await second.query("SELECT pg_cancel_backend($1)", [processID]);
  } catch {
    // The server's own statement_timeout ends the statement then.
  } finally {
    drop(second);
  }
}
