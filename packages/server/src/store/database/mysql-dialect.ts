import { CompiledQuery, type Dialect, MysqlDialect } from "kysely";
import type { PoolConnection, PoolOptions } from "mysql2";
import { mysqlAddress } from "../../database/mysql-address.ts";

/** For MySQL and MariaDB. */
export async function createMysqlDialect(url: string): Promise<Dialect> {
  // Loaded only where it is used: most workspaces keep their records in SQLite.
  const { default: mysql } = await import("mysql2");
  const pool = mysql.createPool(poolOptions(url));
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

function poolOptions(url: string): PoolOptions {
  return {
    ...mysqlAddress(url),
    charset: "utf8mb4_bin",
    connectTimeout: 10_000,
    connectionLimit: 10,
  };
}
