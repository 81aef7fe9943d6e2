import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Connection, ConnectionOptions, FieldPacket, ResultSetHeader } from "mysql2";
import type { Client, ClientConfig, Query, QueryArrayConfig, QueryConfig, QueryResultBase } from "pg";
import { mysqlAddress } from "../../../store/index.ts";
import { RowCollector, uniqueColumns } from "./rows.ts";
import {
  type BoundSql,
  bindParameters,
  type DatabaseEngine,
  type JsonValue,
  leadingWord,
  type Statement,
  type StatementResult,
  toSafeInteger,
} from "./statement.ts";

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
        const result = await Promise.race([runOnPostgres(client, query, statement), stopped]);
        signal.throwIfAborted();
        signal.removeEventListener("abort", stop);
        if (statement.isWrite) await client.query("COMMIT");
        // Takes leave and does not wait for the answer. With rows still on their way it drops the connection at once.
        void client.end().catch(() => {});
        return result;
      } catch (error) {
        dropPostgres(client);
        throw error;
      } finally {
        signal.removeEventListener("abort", stop);
      }
    },
  };
}

async function runOnPostgres(client: Client, query: Query, statement: Statement): Promise<StatementResult> {
  await client.connect();
  await client.query(statement.isWrite ? "BEGIN" : "BEGIN READ ONLY");
  // This takes the transaction's first snapshot, after which read-only can no longer be switched off. The server's
  // own limit is for the case that this process dies.
  await client.query("SELECT set_config('statement_timeout', $1, true)", [String(statement.timeout + 1_000)]);
  return collectFromPostgres(client, query, statement);
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

function collectFromPostgres(
  client: Client,
  query: Query,
  { limit, isWrite }: Statement,
): Promise<StatementResult> {
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
function dropPostgres(client: Client): void {
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
    dropPostgres(second);
  }
}

const CONNECT_TIMEOUT = 10_000;

/** For MySQL and MariaDB. */
export function createMysqlEngine(url: string): DatabaseEngine {
  return {
    name: "MySQL",
    async run(statement, signal) {
      const bound = bindParameters("mysql", statement.sql, statement.params);
      if (!statement.isWrite) refuseFiles(statement.sql);
      // Loaded when the first statement needs it: most workspaces have no MySQL.
      const { default: mysql } = await import("mysql2");
      const connect = () => mysql.createConnection(connectionOptions(url));
      signal.throwIfAborted();
      const connection = connect();
      // A connection that breaks also fails the command in flight, which is where it is reported.
      connection.on("error", () => {});
      const { promise: stopped, reject } = Promise.withResolvers<never>();
      const stop = () => {
        void killConnection(connect, connection).finally(() => reject(signal.reason));
      };
      signal.addEventListener("abort", stop, { once: true });
      try {
        const result = await Promise.race([runOn(connection, bound, statement), stopped]);
        signal.throwIfAborted();
        signal.removeEventListener("abort", stop);
        if (statement.isWrite) await send(connection, "COMMIT");
        return result;
      } finally {
        signal.removeEventListener("abort", stop);
        // Without a commit the server rolls back.
        drop(connection);
      }
    },
  };
}

async function runOn(
  connection: Connection,
  bound: BoundSql,
  statement: Statement,
): Promise<StatementResult> {
  // Also for transactions that a procedure might begin after ending this one.
  if (!statement.isWrite) await send(connection, "SET SESSION TRANSACTION READ ONLY");
  await send(connection, statement.isWrite ? "START TRANSACTION" : "START TRANSACTION READ ONLY");
  return collect(connection, bound, statement);
}

/**
 * Ends a connection at once. The driver's own way only stops sending: a server that is in the middle of a large result
 * would go on with it. The socket is not part of the driver's types.
 */
function drop(connection: Connection): void {
  connection.destroy();
  (connection as Connection & { readonly stream: Duplex }).stream.destroy();
}

function connectionOptions(url: string): ConnectionOptions {
  return {
    ...mysqlAddress(url),
    connectTimeout: CONNECT_TIMEOUT,
    rowsAsArray: true,
    dateStrings: true,
    supportBigNumbers: true,
    // Row parsers are worth generating for many statements, and this connection lives for one.
    disableEval: true,
  };
}

function send(connection: Connection, sql: string): Promise<void> {
  return new Promise((resolve, reject) => {
    connection.query(sql, (error) => (error === null ? resolve() : reject(error)));
  });
}

function collect(
  connection: Connection,
  bound: BoundSql,
  { sql, limit, isWrite }: Statement,
): Promise<StatementResult> {
  const collector = new RowCollector(limit);
  let columns: string[] | undefined;
  let header: ResultSetHeader | undefined;
  let resultSets = 0;
  const finish = (): StatementResult => ({
    columns: columns ?? [],
    rows: collector.rows,
    isTruncated: collector.isTruncated,
    ...changes(sql, header, collector.rows.length),
  });
  return new Promise((resolve, reject) => {
    // Values travel apart from the text, as in a prepared statement; some statements cannot be prepared.
    const command =
      bound.values.length > 0
        ? connection.execute(bound.sql, bound.values.map(toSqlValue))
        : connection.query(bound.sql);
    command.on("error", reject);
    command.on("fields", (fields: FieldPacket[] | undefined) => {
      resultSets++;
      if (fields !== undefined) columns ??= uniqueColumns(fields.map(({ name }) => name));
    });
    command.on("result", (row: unknown[] | ResultSetHeader) => {
      if (!Array.isArray(row)) {
        header = row;
        return;
      }
      // A procedure may give several sets of rows; the first one is the answer.
      if (resultSets > 1) return;
      // A change runs to its end; of a reading statement the rest is left unread.
      if (!collector.add(row) && !isWrite) resolve(finish());
    });
    command.on("end", () => resolve(finish()));
  });
}

function changes(sql: string, header: ResultSetHeader | undefined, returned: number) {
  const word = leadingWord(sql);
  if (!["INSERT", "UPDATE", "DELETE", "REPLACE", "WITH", "CALL"].includes(word)) {
    return { affectedRows: null, lastInsertId: null };
  }
  // With RETURNING there is no header: every changed row is given back instead.
  return { affectedRows: header?.affectedRows ?? returned, lastInsertId: header?.insertId || null };
}

function toSqlValue(value: JsonValue): string | number | null {
  if (typeof value === "boolean") return value ? 1 : 0;
  if (typeof value === "object" && value !== null) return JSON.stringify(value);
  return value;
}

/** A read-only transaction does not keep a SELECT from writing a file on the server. */
function refuseFiles(sql: string): void {
  const bare = sql.replace(
    /'(?:[^'\\]|\\[\s\S]|'')*(?:'|$)|"(?:[^"\\]|\\[\s\S]|"")*(?:"|$)|`(?:[^`]|``)*(?:`|$)|\/\*(?!M?!)[\s\S]*?(?:\*\/|$)|(?:#|--(?=\s|$))[^\n]*/g,
    " ",
  );
  if (!/\binto\s+(outfile|dumpfile)\b/i.test(bare)) return;
  throw new Error(
    "INTO OUTFILE and INTO DUMPFILE write files on the database server, and this tool only reads.",
  );
}

/** Tells the server to stop. A closed connection alone would not: it is noticed only when rows are sent. */
async function killConnection(connect: () => Connection, connection: Connection): Promise<void> {
  // Zero or missing until the server has greeted.
  if (!connection.threadId) return;
  const second = connect();
  second.on("error", () => {});
  try {
    await send(second, `KILL ${Number(connection.threadId)}`);
  } catch {
    // Nothing more can be done from here; the server ends the statement when it next looks at the connection.
  } finally {
    drop(second);
  }
}
