import { CompiledQuery, type Dialect, MysqlDialect } from "kysely";
import type { PoolOptions } from "mysql2";

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

/** Read from the URL by hand, so that its query string cannot switch on what is off here. */
function poolOptions(url: string): PoolOptions {
  const { hostname, port, username, password, pathname, searchParams } = new URL(url);
  const socketPath = searchParams.get("socketPath") ?? searchParams.get("socket");
  const ssl = searchParams.get("ssl") ?? searchParams.get("sslmode") ?? searchParams.get("ssl-mode");
  const isEncrypted = ssl !== null && !/^(false|0|disabled?|prefer(red)?)$/i.test(ssl);
  return {
    host: hostname.replace(/^\[|\]$/g, ""),
    port: port === "" ? 3306 : Number(port),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: decodeURIComponent(pathname.slice(1)),
    ...(socketPath === null ? {} : { socketPath }),
    ...(isEncrypted ? { ssl: {} } : {}),
    charset: "utf8mb4_bin",
    connectTimeout: 10_000,
    connectionLimit: 10,
    multipleStatements: false,
    // A server must not be able to ask for files of this machine.
    flags: ["-LOCAL_FILES"],
  };
}
