import { type Dialect, PostgresDialect } from "kysely";
import type { PoolConfig } from "pg";

const INT8 = 20;
const QUERY_LIMIT = 30_000;

export async function createPostgresDialect(url: string): Promise<Dialect> {
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
