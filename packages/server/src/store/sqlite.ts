import { chmodSync, closeSync, openSync, statSync } from "node:fs";
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

/**
 * Milliseconds. SQLite waits for a lock by blocking the thread, so it waits for a short time only; the driver then
 * waits on without blocking.
 */
const BUSY_TIMEOUT = 50;
const LONGEST_WAIT = 5_000;
/** Milliseconds. Opening blocks the thread anyway, and a process that has just closed the file may delay it. */
const OPENING_TIMEOUT = 5_000;
const CACHED_STATEMENTS = 200;
/** Pages of the log, 16 MB. Calls change the same few pages again and again; a late checkpoint copies them once. */
const CHECKPOINT_AFTER = 4_000;

/** Kysely on node:sqlite, with a cache of compiled statements. */
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
    return new RetryingDriver(this.#config);
  }

  override createAdapter(): SqliteAdapter {
    return new LockingAdapter();
  }
}

/** Waits for another process's lock without blocking the thread. */
class RetryingDriver extends SqliteDriver {
  override async acquireConnection(): Promise<DatabaseConnection> {
    const connection = await super.acquireConnection();
    return {
      executeQuery: (query) => retryWhileLocked(() => connection.executeQuery(query)),
      streamQuery: (query, size) => connection.streamQuery(query, size),
    };
  }

  /**
   * SQLite itself ends the transaction when the disk is full or fails. Then the rollback fails, and only the first
   * error matters.
   */
  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    try {
      await super.rollbackTransaction(connection);
    } catch (error) {
      if (!(error instanceof Error) || !error.message.includes("no transaction is active")) throw error;
    }
  }
}

async function retryWhileLocked<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
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

/** Lets migrations run in one transaction. It takes the write lock at once, which keeps other processes out. */
class LockingAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}

function openDatabase(file: string): DatabaseSync {
  // SQLite gives its side files the mode of the main file, so that is made private first.
  closeSync(openSync(file, "a", 0o600));
  chmodSync(file, 0o600);
  const isNew = statSync(file).size === 0;
  const database = new DatabaseSync(file, { timeout: OPENING_TIMEOUT, enableForeignKeyConstraints: true });
  try {
    // With it, deleted pages can be given back to the disk. An existing file can no longer be changed to it.
    if (isNew) database.exec("PRAGMA auto_vacuum = INCREMENTAL");
    database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
    database.exec(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_AFTER}; PRAGMA busy_timeout = ${BUSY_TIMEOUT}`);
  } catch (error) {
    database.close();
    throw error;
  }
  return database;
}

/** The database as Kysely needs it. Keeps the most recently used statements compiled. */
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
    // A transaction that reads first and then meets another writer fails without waiting, so take the write lock at
    // once.
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
