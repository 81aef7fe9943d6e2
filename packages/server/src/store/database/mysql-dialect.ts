import { CompiledQuery, type Dialect, MysqlDialect } from "kysely";
import type { PoolOptions } from "mysql2";
import { mysqlAddress } from "../../database/mysql-address.ts";

/** For MySQL and MariaDB. */
export async function createMysqlDialect(url: string): Promise<Dialect> {
  // Loaded only where it is used: most workspaces keep their records in SQLite.
  const { default: mysql } = await import("mysql2");
  return new MysqlDialect({
    pool: mysql.createPool(poolOptions(url)),
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

function poolOptions(url: string): PoolOptions {
  return {
    ...mysqlAddress(url),
    charset: "utf8mb4_bin",
    connectTimeout: 10_000,
    connectionLimit: 10,
  };
}
