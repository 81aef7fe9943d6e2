import { realpathSync } from "node:fs";
import { CompiledQuery, type Dialect, Kysely, MysqlDialect, PostgresDialect } from "kysely";
import type { PoolConnection } from "mysql2";
import type { PoolConfig } from "pg";
import { type Reachability, reporting, StoreUnavailable } from "./database-errors.ts";
import { mysqlAddress } from "./forms.ts";
import type { Engine, StoreDatabase, Tables } from "./schema.ts";
import { createSqliteDialect } from "./sqlite.ts";
import { SqliteReader } from "./sqlite-reader.ts";

export interface OpenedDatabase {
  readonly engine: Engine;
  readonly db: StoreDatabase;
  /** Runs a query that may look at many rows, without holding up anything else. */
  scan<Row>(query: Scan<Row>): Promise<Row[]>;
  /** Of everybody in this process who has the same database open. */
  readonly pending: PromisedWrites;
  close(): Promise<void>;
}

interface Scan<Row> {
  compile(): CompiledQuery;
  execute(): Promise<Row[]>;
}

const nobodyListens: Reachability = { lost() {}, found() {} };

/** `place` is the file of SQLite, the URL of a server. */
export async function openDatabase(
  engine: Engine,
  place: string,
  reachability = nobodyListens,
): Promise<OpenedDatabase> {
  if (engine === "sqlite") {
    const opened = openShared(place);
    // Whoever opens it does not know of those who have it open already.
    await opened.pending.commit();
    return opened;
  }
  const db = connect(
    await (engine === "postgres" ? createPostgresDialect(place) : createMysqlDialect(place)),
    reachability,
  );
  const pending = new PromisedWrites();
  return { engine, db, pending, scan: (query) => query.execute(), close: () => db.destroy() };
}

/** What this process has promised to write to a database, and a reader of it must see. */
export class PromisedWrites {
  readonly #writers = new Set<PromisedWriter>();

  /** Answers how to take it off again. */
  add(writer: PromisedWriter): () => void {
    this.#writers.add(writer);
    return () => void this.#writers.delete(writer);
  }

  /** To be awaited before calls are read: all of them, or one. Never rejects. */
  async commit(callId?: string): Promise<void> {
    for (const writer of this.#writers) await writer.commit(callId);
  }
}

interface PromisedWriter {
  /** Resolves when the database has the calls that are safe by now, or only the one that is named. Never rejects. */
  commit(callId?: string): Promise<void>;
}

const shared = new Map<string, { readonly opened: OpenedDatabase; users: number }>();

/**
 * One connection for each file in a process. SQLite waits for a lock by blocking the thread: a second connection would
 * keep the first from ever letting go of it.
 */
function openShared(file: string): OpenedDatabase {
  const database = shared.get(pathOf(file)) ?? { opened: openSqlite(file), users: 0 };
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
  const db = connect(createSqliteDialect(file));
  const reader = new SqliteReader(file);
  return {
    engine: "sqlite",
    db,
    pending: new PromisedWrites(),
    async scan<Row>(query: Scan<Row>) {
      const { sql, parameters } = query.compile();
      const rows = await reader.query(sql, parameters).catch((error) => {
        throw StoreUnavailable.from(error) ?? error;
      });
      return rows as Row[]; // The thread answers with what the query itself would have.
    },
    async close() {
      await reader.close();
      await db.destroy();
    },
  };
}

function connect(dialect: Dialect, reachability = nobodyListens): StoreDatabase {
  return new Kysely<Tables>({ dialect: reporting(dialect, reachability) });
}

/** Also for a file that is not there yet. */
function pathOf(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return file;
  }
}

/** Which engine a `DATABASE_URL` means; SQLite when there is none. */
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

const INT8 = 20;

async function createPostgresDialect(url: string): Promise<Dialect> {
  // Loaded only where it is used: most workspaces keep their records in SQLite.
  const { default: pg } = await import("pg");
  const getTypeParser = (oid: number, format?: "text" | "binary") =>
    // Every bigint of ours is a time or a size, far below where numbers get inexact.
    oid === INT8 && format !== "binary" ? Number : pg.types.getTypeParser(oid, format as "text");
  const pool = new pg.Pool({
    connectionString: url,
    connectionTimeoutMillis: 10_000,
    // A server that hangs fails what waits for it: nothing here takes that long.
    query_timeout: QUERY_LIMIT,
    statement_timeout: QUERY_LIMIT,
    keepAlive: true,
    application_name: "toolrack",
    max: 10,
    // The declared type is a family of overloads for each format; this one function answers all of them.
    types: { getTypeParser } as unknown as NonNullable<PoolConfig["types"]>,
  });
  // A connection that breaks fails the query in flight or is replaced with the next one. Unheard, these events would end
  // the process: the pool's for idle connections, the client's own for those between two queries of a transaction.
  pool.on("error", () => {});
  pool.on("connect", (client) => client.on("error", () => {}));
  return new PostgresDialect({ pool });
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
      // The driver quotes values with backslashes, which a server's own mode may not understand; and a server that is
      // not strict cuts what is too long without a word.
      await connection.executeQuery(
        CompiledQuery.raw("set session sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'"),
      );
      // The usual level locks the gaps between rows, and writers on several nodes would wait for each other.
      await connection.executeQuery(
        CompiledQuery.raw("set session transaction isolation level read committed"),
      );
    },
  });
}

const QUERY_LIMIT = 30_000;

/** A server that hangs fails what waits for it: nothing here takes that long. The driver takes a limit by query only. */
function limitQueries(connection: PoolConnection): void {
  const query = connection.query.bind(connection);
  // The overloads cannot be told apart in one function; the dialect uses this form alone.
  const limited = (sql: string, values: unknown[], done: () => void) =>
    query({ sql, values, timeout: QUERY_LIMIT }, done);
  Object.assign(connection, { query: limited });
}
