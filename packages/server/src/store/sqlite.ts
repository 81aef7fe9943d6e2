import { chmodSync, closeSync, openSync } from "node:fs";
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { setTimeout as wait } from "node:timers/promises";
import {
  type DatabaseConnection,
  type Dialect,
  SqliteAdapter,
  type SqliteDatabase,
  SqliteDialect,
  type SqliteDialectConfig,
  SqliteDriver,
  type SqliteStatement,
} from "kysely";
import { isTransientError } from "./database-errors.ts";

/** SQLite waits for another process by blocking this one, so it does not wait long; the driver waits on without. */
const BUSY_TIMEOUT = 50;
const LONGEST_WAIT = 5_000;
/** Nothing else goes on while a file is opened, which another process that has just closed it may hold up. */
const OPENING_TIMEOUT = 5_000;
const CACHED_STATEMENTS = 200;
/** Pages of the log, 16 MB. Calls change the same few pages again and again, which are then copied once. */
const CHECKPOINT_AFTER = 4_000;

/** Kysely on node:sqlite, with every statement compiled once. */
export function createSqliteDialect(file: string): Dialect {
  return new LockingDialect({ database: new CachingDatabase(openDatabase(file)) });
}

class LockingDialect extends SqliteDialect {
  readonly #config: SqliteDialectConfig;

  constructor(config: SqliteDialectConfig) {
    super(config);
    this.#config = config;
  }

  override createDriver(): SqliteDriver {
    return new PatientDriver(this.#config);
  }

  override createAdapter(): SqliteAdapter {
    return new LockingAdapter();
  }
}

/** Waits for the lock of another process while this one goes on with everything else. */
class PatientDriver extends SqliteDriver {
  override async acquireConnection(): Promise<DatabaseConnection> {
    const connection = await super.acquireConnection();
    return {
      executeQuery: (query) => patiently(() => connection.executeQuery(query)),
      streamQuery: (query, size) => connection.streamQuery(query, size),
    };
  }

  /** SQLite ends the transaction itself when the disk is full or fails; what it said then is what counts. */
  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    try {
      await super.rollbackTransaction(connection);
    } catch (error) {
      if (!(error instanceof Error) || !error.message.includes("no transaction is active")) throw error;
    }
  }
}

async function patiently<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  const end = performance.now() + LONGEST_WAIT;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!isTransientError(error) || performance.now() > end) throw error;
      await wait(10 + Math.random() * 40);
    }
  }
}

/** Migrations run in one transaction, which takes the write lock at once: that is the lock between processes. */
class LockingAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}

function openDatabase(file: string): DatabaseSync {
  // SQLite gives its side files the mode of the main one, so that one is made first.
  closeSync(openSync(file, "a", 0o600));
  chmodSync(file, 0o600);
  const database = new DatabaseSync(file, { timeout: OPENING_TIMEOUT, enableForeignKeyConstraints: true });
  try {
    // The first takes effect in a new file only: what is deleted later can then be given back to the disk.
    database.exec(
      "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;",
    );
    database.exec(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_AFTER}; PRAGMA busy_timeout = ${BUSY_TIMEOUT}`);
  } catch (error) {
    database.close();
    throw error;
  }
  return database;
}

/** What Kysely needs of a driver. The statements used least lately make room for new ones. */
class CachingDatabase implements SqliteDatabase {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, SqliteStatement>();

  constructor(database: DatabaseSync) {
    this.#database = database;
  }

  prepare(text: string): SqliteStatement {
    const known = this.#statements.get(text);
    if (known !== undefined) {
      this.#statements.delete(text);
      this.#statements.set(text, known);
      return known;
    }
    // A transaction that reads first and then finds another writer cannot wait for it: it fails. So take the lock.
    const made = wrap(this.#database.prepare(text === "begin" ? "begin immediate" : text));
    this.#statements.set(text, made);
    for (const oldest of this.#statements.keys()) {
      if (this.#statements.size <= CACHED_STATEMENTS) break;
      this.#statements.delete(oldest);
    }
    return made;
  }

  close(): void {
    this.#statements.clear();
    this.#database.close();
  }
}

function wrap(statement: StatementSync): SqliteStatement {
  // The repositories bind texts, numbers and nulls only; Kysely's type cannot say so.
  const values = (parameters: readonly unknown[]) => parameters as SQLInputValue[];
  return {
    reader: statement.columns().length > 0,
    all: (parameters) => statement.all(...values(parameters)),
    run: (parameters) => statement.run(...values(parameters)),
    iterate: (parameters) => statement.iterate(...values(parameters)),
  };
}
