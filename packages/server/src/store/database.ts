import { realpathSync } from "node:fs";
import { CompiledQuery, type Dialect, Kysely, MysqlDialect, PostgresDialect } from "kysely";
import type { PoolConnection } from "mysql2";
import { Availability, type Reachability, reportAvailability, StoreUnavailable } from "./database-errors.ts";
import { mysqlAddress } from "./keys.ts";
import { createPostgresPool, type PreparedStatement, PreparedStatements, QUERY_LIMIT } from "./postgres.ts";
import type { Engine, StoreDatabase, Tables } from "./schema.ts";
import { createSqliteDialect } from "./sqlite.ts";
import { SqliteReader } from "./sqlite-reader.ts";

export interface OpenedDatabase {
  readonly engine: Engine;
  readonly db: StoreDatabase;
  /**
   * Runs a query that may look at many rows, without blocking this thread. Rejects with the reason of `signal` when that is
   * aborted before the query begins. With SQLite, one query of each length runs at a time, so that short ones, which are
   * the usual, never wait for long ones; these are best cut into slices.
   */
  scan<Row>(query: Scan<Row>, signal?: AbortSignal, length?: "short" | "long"): Promise<Row[]>;
  /**
   * The writers whose rows are not all in the database yet; shared by all parts of this process that have the
   * same database open.
   */
  readonly pending: PromisedWrites;
  /**
   * With PostgreSQL: runs a statement that each connection prepares once, by its name. For what every call needs: parsing
   * and planning the statement costs more than running it.
   */
  readonly prepared?: (statement: PreparedStatement) => Promise<string[]>;
  close(): Promise<void>;
}

interface Scan<Row> {
  compile(): CompiledQuery;
  execute(): Promise<Row[]>;
}

interface PromisedWriter {
  /**
   * Resolves when the database has all calls of the journal, or the call with the given id. Never rejects.
   */
  commit(callId?: string): Promise<void>;
}

/**
 * The writers of this process whose rows are safe in a journal and not yet in the database. A reader calls
 * `commit` first.
 */
export class PromisedWrites extends Set<PromisedWriter> {
  /**
   * Must be awaited before calls are read: for all calls, or for the call with the given id. Never rejects.
   */
  async commit(callId?: string): Promise<void> {
    for (const writer of this) await writer.commit(callId);
  }
}

const ignoreReachability: Reachability = { lost() {}, found() {} };

/** `place`: the path of the SQLite file, or the URL of the database server. */
export async function openDatabase(
  engine: Engine,
  place: string,
  reachability = ignoreReachability,
): Promise<OpenedDatabase> {
  if (engine === "sqlite") {
    const opened = openShared(place);
    // Another part of this process may have calls in its journal that this reader must see.
    await opened.pending.commit();
    return opened;
  }
  const pool = engine === "postgres" ? await createPostgresPool(place) : undefined;
  const dialect = pool === undefined ? await createMysqlDialect(place) : new PostgresDialect({ pool });
  const availability = new Availability(reachability);
  const db = connect(dialect, availability);
  const pending = new PromisedWrites();
  const scan: OpenedDatabase["scan"] = async (query, signal) => {
    signal?.throwIfAborted();
    return query.execute();
  };
  const opened = { engine, db, pending, scan, close: () => db.destroy() };
  if (pool === undefined) return opened;
  const { answered, failed } = availability;
  const statements = new PreparedStatements(pool);
  return {
    ...opened,
    prepared: (statement) => statements.run(statement).then(answered, failed),
    close() {
      statements.close();
      return db.destroy();
    },
  };
}

const shared = new Map<string, { readonly opened: OpenedDatabase; users: number }>();

/**
 * Opens one connection per file and process. SQLite waits for a lock by blocking the thread, so a second connection of
 * the same thread would wait for the first one forever.
 */
function openShared(file: string): OpenedDatabase {
  const database = shared.get(pathOf(file)) ?? { opened: openSqlite(file), users: 0 };
  // The file exists by now, so that links in its path can be resolved.
  const path = pathOf(file);
  shared.set(path, database);
  database.users++;
  return {
    ...database.opened,
    async close() {
      if (--database.users > 0) return;
      shared.delete(path);
      await database.opened.close();
    },
  };
}

function openSqlite(file: string): OpenedDatabase {
  const db = connect(createSqliteDialect(file), new Availability(ignoreReachability));
  const readers = { short: new SqliteReader(file), long: new SqliteReader(file) };
  return {
    engine: "sqlite",
    db,
    pending: new PromisedWrites(),
    async scan<Row>(query: Scan<Row>, signal?: AbortSignal, length: "short" | "long" = "short") {
      const { sql, parameters } = query.compile();
      const rows = await readers[length].query(sql, parameters, signal).catch((error) => {
        throw StoreUnavailable.from(error) ?? error;
      });
      return rows as Row[]; // The thread runs the same query.
    },
    async close() {
      await Promise.all([readers.short.close(), readers.long.close()]);
      await db.destroy();
    },
  };
}

function connect(dialect: Dialect, availability: Availability): StoreDatabase {
  return new Kysely<Tables>({ dialect: reportAvailability(dialect, availability) });
}

/** The real path of the file, or the given path when the file does not exist yet. */
function pathOf(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return file;
  }
}

/** Reads the engine from a `DATABASE_URL`; SQLite when there is none. */
export function engineOf(url: string | undefined): Engine {
  if (url === undefined || url === "") return "sqlite";
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(url)?.[1]?.toLowerCase();
  if (scheme === "postgres" || scheme === "postgresql") return "postgres";
  if (scheme === "mysql" || scheme === "mariadb") return "mysql";
  // The URL itself is not repeated: it may hold a password.
  const found = scheme === undefined ? "is no URL" : `begins with ${scheme}://`;
  throw new Error(
    `The database URL ${found}. It must begin with postgres://, mysql:// or mariadb://; leave it out to keep records in SQLite.`,
  );
}

/** For MySQL and MariaDB. */
async function createMysqlDialect(url: string): Promise<Dialect> {
  // Loaded only where it is used: most workspaces keep their records in SQLite.
  const { default: mysql } = await import("mysql2");
  const pool = mysql.createPool({
    ...mysqlAddress(url),
    charset: "utf8mb4_bin",
    connectTimeout: 10_000,
    connectionLimit: 10,
  });
  pool.on("connection", limitQueries);
  return new MysqlDialect({
    pool,
    onCreateConnection: async (connection) => {
      for (const setting of sessionSettings) await connection.executeQuery(CompiledQuery.raw(setting));
    },
  });
}

const sessionSettings = [
  // The driver quotes values with backslashes, which some modes of the server do not understand. A server that is not
  // strict cuts long texts silently.
  "set session sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'",
  // The default level locks the gaps between rows, and writers on several nodes would wait for each other.
  "set session transaction isolation level read committed",
];

/** Gives every query a time limit, which the driver accepts per query only. */
function limitQueries(connection: PoolConnection): void {
  const query = connection.query.bind(connection);
  // The dialect calls only this overload.
  const limited = (sql: string, values: unknown[], done: () => void) =>
    query({ sql, values, timeout: QUERY_LIMIT }, done);
  Object.assign(connection, { query: limited });
}
