import { realpathSync } from "node:fs";
import { type CompiledQuery, type Dialect, Kysely } from "kysely";
import type { Engine } from "./engine.ts";
import { createMysqlDialect } from "./mysql-dialect.ts";
import { createPostgresDialect } from "./postgres-dialect.ts";
import { PromisedWrites } from "./promised-writes.ts";
import type { StoreDatabase, Tables } from "./schema.ts";
import { createSqliteDialect } from "./sqlite-dialect.ts";
import { SqliteReader } from "./sqlite-reader.ts";

export interface OpenedDatabase {
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

/** `place` is the file of SQLite, the URL of a server. */
export async function openDatabase(engine: Engine, place: string): Promise<OpenedDatabase> {
  if (engine === "sqlite") {
    const opened = openShared(place);
    // Whoever opens it does not know of those who have it open already.
    await opened.pending.commit();
    return opened;
  }
  const db = connect(
    await (engine === "postgres" ? createPostgresDialect(place) : createMysqlDialect(place)),
  );
  const pending = new PromisedWrites();
  return { db, pending, scan: (query) => query.execute(), close: () => db.destroy() };
}

interface SharedDatabase {
  readonly db: StoreDatabase;
  readonly reader: SqliteReader;
  readonly pending: PromisedWrites;
  users: number;
}

const shared = new Map<string, SharedDatabase>();

/**
 * One connection for each file in a process. SQLite waits for a lock by blocking the thread: a second connection would
 * keep the first from ever letting go of it.
 */
function openShared(file: string): OpenedDatabase {
  const known = shared.get(pathOf(file));
  const database = known ?? {
    db: connect(createSqliteDialect(file)),
    reader: new SqliteReader(file),
    pending: new PromisedWrites(),
    users: 0,
  };
  const path = pathOf(file);
  shared.set(path, database);
  database.users++;
  return {
    db: database.db,
    pending: database.pending,
    async scan<Row>(query: Scan<Row>) {
      const { sql, parameters } = query.compile();
      // The thread answers with what the query itself would have.
      return (await database.reader.query(sql, parameters)) as Row[];
    },
    async close() {
      if (--database.users > 0) return;
      shared.delete(path);
      await database.reader.close();
      await database.db.destroy();
    },
  };
}

function connect(dialect: Dialect): StoreDatabase {
  return new Kysely<Tables>({ dialect });
}

/** Also for a file that is not there yet. */
function pathOf(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return file;
  }
}
