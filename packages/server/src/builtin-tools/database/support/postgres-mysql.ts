import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Connection, FieldPacket, ResultSetHeader } from "mysql2";
import type { Client, ClientConfig, Query, QueryArrayConfig, QueryResultBase } from "pg";
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

const CONNECT_TIMEOUT_MS = 10_000;

/** One connection to a server, made for one statement. */
interface Session {
  /** Begins a transaction and runs the statement in it. */
  run(): Promise<StatementResult>;
  commit(): Promise<unknown>;
  /**
   * Tells the server to stop the statement. Closing the connection would not stop it: the server notices that
   * only when it sends rows.
   */
  cancel(): Promise<void>;
  /** Closes the connection after a success. */
  leave(): void;
  /** Destroys the connection at once, even a dead one; the server then rolls back. */
  drop(): void;
}

/**
 * `open` loads the driver on use, because most workspaces have no such database, and returns a function that
 * makes the connection.
 */
function createEngine(
  name: string,
  dialect: "postgres" | "mysql",
  open: (statement: Statement, bound: BoundSql) => Promise<() => Session>,
): DatabaseEngine {
  return {
    name,
    async run(statement, signal) {
      const begin = await open(statement, bindParameters(dialect, statement.sql, statement.params));
      signal.throwIfAborted();
      const session = begin();
      const { promise: stopped, reject } = Promise.withResolvers<never>();
      // When the cancel fails, the server ends the statement by its own limit, or when it next checks the connection.
      const stop = () => {
        const cancelled = session.cancel().catch(() => {});
        void cancelled.then(() => reject(signal.reason));
      };
      signal.addEventListener("abort", stop, { once: true });
      try {
        const result = await Promise.race([session.run(), stopped]);
        signal.throwIfAborted();
        signal.removeEventListener("abort", stop);
        if (statement.isWrite) await session.commit();
        session.leave();
        return result;
      } catch (error) {
        session.drop();
        throw error;
      } finally {
        signal.removeEventListener("abort", stop);
      }
    },
  };
}

export function createPostgresEngine(url: string): DatabaseEngine {
  return createEngine("PostgreSQL", "postgres", async (statement, bound) => {
    const { default: pg } = await import("pg");
    // A broken connection also fails the running query, which reports it.
    const connect = () => new pg.Client(clientConfig(url, pg.types.getTypeParser)).on("error", () => {});
    return () => {
      const client = connect();
      return {
        async run() {
          await client.connect();
          await client.query(statement.isWrite ? "BEGIN" : "BEGIN READ ONLY");
          // This takes the transaction's first snapshot, after which read-only can no longer be switched off. The
          // server's own limit is for the case that this process dies.
          const limit = String(statement.timeout + 1_000);
          await client.query("SELECT set_config('statement_timeout', $1, true)", [limit]);
          // The extended protocol accepts exactly one statement.
          const config: QueryArrayConfig & { readonly queryMode: "extended" } = {
            text: bound.sql,
            values: [...bound.values],
            rowMode: "array",
            queryMode: "extended",
          };
          return collectFromPostgres(client, new pg.Query<unknown[]>(config), statement);
        },
        commit: () => client.query("COMMIT"),
        async cancel() {
          // `processID` is set once connected; the declared type lacks it.
          const { processID } = client as Client & { readonly processID?: number | null };
          if (processID === null || processID === undefined) return;
          const second = connect();
          try {
            await second.connect();
            await second.query("SELECT pg_cancel_backend($1)", [processID]);
          } finally {
            dropClient(second);
          }
        },
        // Does not wait for the server's reply. While rows are unread, `end` drops the connection at once.
        leave: () => void client.end().catch(() => {}),
        drop: () => dropClient(client),
      };
    };
  });
}

/** Dates and times stay as text: a JavaScript date would move them to this machine's time zone. */
const dateTypes = new Set([1082, 1083, 1114, 1184, 1266, 1186, 1115, 1182, 1183, 1185, 1187, 1270]);
const INT8 = 20;

function clientConfig(
  url: string,
  defaultParser: (oid: number, format?: "text") => (text: string) => unknown,
): ClientConfig {
  const getTypeParser = (oid: number, format?: string) => {
    if (format === "binary" || dateTypes.has(oid)) return (value: unknown) => value;
    if (oid === INT8) return (text: string) => toSafeInteger(BigInt(text));
    return defaultParser(oid, "text");
  };
  return {
    connectionString: url,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    application_name: "toolrack",
    // The declared type has an overload for each format; this function handles all of them.
    types: { getTypeParser } as unknown as NonNullable<ClientConfig["types"]>,
  };
}

const changingCommands = new Set(["INSERT", "UPDATE", "DELETE", "MERGE"]);

function collectFromPostgres(
  client: Client,
  query: Query<unknown[]>,
  { limit, isWrite }: Statement,
): Promise<StatementResult> {
  const collector = new RowCollector(limit);
  const { promise, resolve, reject } = Promise.withResolvers<StatementResult>();
  const finish = ({ fields, rowCount, command }: QueryResultBase) => {
    const columns = uniqueColumns(fields.map(({ name }) => name));
    const affectedRows = isWrite && changingCommands.has(command) ? rowCount : null;
    resolve({ columns, ...collector.collected, affectedRows, lastInsertId: null });
  };
  // A change runs to its end. Of a reading statement, the rows beyond the limit stay unread.
  query.on("row", (row: unknown[], result) => {
    if (!collector.add(row) && !isWrite && result !== undefined) finish(result);
  });
  query.on("end", finish);
  query.on("error", reject);
  client.query(query);
  return promise;
}

function dropClient(client: Client): void {
  void client.end().catch(() => {});
  // The socket is not part of the driver's types.
  (client as Client & { readonly connection: { readonly stream: Socket } }).connection.stream.destroy();
}

/** For MySQL and MariaDB. */
export function createMysqlEngine(url: string): DatabaseEngine {
  return createEngine("MySQL", "mysql", async (statement, bound) => {
    const { isWrite } = statement;
    if (!isWrite) refuseFiles(statement.sql);
    const { default: mysql } = await import("mysql2");
    const connect = () => {
      const connection = mysql.createConnection({
        ...mysqlAddress(url),
        connectTimeout: CONNECT_TIMEOUT_MS,
        rowsAsArray: true,
        dateStrings: true,
        supportBigNumbers: true,
        // Generated row parsers pay off only for many statements; this connection runs one.
        disableEval: true,
      });
      // A broken connection also fails the running command, which reports it.
      return connection.on("error", () => {});
    };
    return () => {
      const connection = connect();
      const drop = () => dropConnection(connection);
      return {
        async run() {
          // Holds for the whole session, because a procedure may end this transaction and begin another.
          if (!isWrite) await send(connection, "SET SESSION TRANSACTION READ ONLY");
          await send(connection, isWrite ? "START TRANSACTION" : "START TRANSACTION READ ONLY");
          return collectFromMysql(connection, bound, statement);
        },
        commit: () => send(connection, "COMMIT"),
        async cancel() {
          // Without a thread id the server has not sent its greeting, so no statement runs yet.
          if (!connection.threadId) return;
          const second = connect();
          await send(second, `KILL ${Number(connection.threadId)}`).finally(() => dropConnection(second));
        },
        leave: drop,
        drop,
      };
    };
  });
}

/** The driver's own `destroy` only stops sending: the server would go on with a large result. */
function dropConnection(connection: Connection): void {
  connection.destroy();
  // The socket is not part of the driver's types.
  (connection as Connection & { readonly stream: Duplex }).stream.destroy();
}

function send(connection: Connection, sql: string): Promise<void> {
  return new Promise((resolve, reject) => {
    connection.query(sql, (error) => (error === null ? resolve() : reject(error)));
  });
}

const changingWords = new Set(["INSERT", "UPDATE", "DELETE", "REPLACE", "WITH", "CALL"]);

function collectFromMysql(
  connection: Connection,
  bound: BoundSql,
  { sql, limit, isWrite }: Statement,
): Promise<StatementResult> {
  const collector = new RowCollector(limit);
  let columns: string[] = [];
  let header: ResultSetHeader | undefined;
  let resultSets = 0;
  const { promise, resolve, reject } = Promise.withResolvers<StatementResult>();
  const finish = () => {
    const isChange = changingWords.has(leadingWord(sql));
    const { rows } = collector.collected;
    // With RETURNING there is no header; the returned rows are counted instead, up to the limit.
    const affectedRows = isChange ? (header?.affectedRows ?? rows.length) : null;
    const lastInsertId = (isChange && header?.insertId) || null;
    resolve({ columns, ...collector.collected, affectedRows, lastInsertId });
  };
  // With values, the statement is prepared, and the values are sent apart from its text. Without values it is
  // not prepared, because some statements cannot be.
  const command =
    bound.values.length > 0
      ? connection.execute(bound.sql, bound.values.map(toSqlValue))
      : connection.query(bound.sql);
  command.on("error", reject);
  command.on("fields", (fields: FieldPacket[] | undefined) => {
    resultSets++;
    if (columns.length === 0) columns = uniqueColumns((fields ?? []).map(({ name }) => name));
  });
  command.on("result", (row: unknown[] | ResultSetHeader) => {
    if (!Array.isArray(row)) header = row;
    // A procedure may return several sets of rows; only the first counts. A change runs to its end. Of a
    // reading statement, the rows beyond the limit stay unread.
    else if (resultSets === 1 && !collector.add(row) && !isWrite) finish();
  });
  command.on("end", finish);
  return promise;
}

function toSqlValue(value: JsonValue): string | number | null {
  if (typeof value === "boolean") return value ? 1 : 0;
  if (typeof value === "object" && value !== null) return JSON.stringify(value);
  return value;
}

/** A read-only transaction does not stop a SELECT from writing a file on the server. */
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
