import { chmodSync, closeSync, openSync, statSync } from "node:fs";
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import {
  CompiledQuery,
  type Dialect,
  SqliteAdapter,
  type SqliteDatabase,
  SqliteDialect,
  type SqliteStatement,
} from "kysely";

/**
 * Milliseconds. SQLite waits for a lock by blocking the thread, so it waits for a short time only;
 * `reportAvailability` then waits on without blocking.
 */
const BUSY_TIMEOUT = 50;
/**
 * Milliseconds to wait for a lock while the file is opened: opening blocks the thread anyway, and a process
 * that has just closed the file may still hold a lock.
 */
const OPENING_TIMEOUT = 5_000;
const CACHED_STATEMENTS = 200;
/**
 * Pages in the write-ahead log (16 MB) after which SQLite copies them into the database. Calls change the
 * same few pages again and again; a late checkpoint copies each of them once.
 */
const CHECKPOINT_AFTER = 4_000;

/** The text of a query whose parameters are statements, to be run in a transaction of their own. */
const TOGETHER = "-- together";

/**
 * One query for a whole transaction, whose statements follow each other without a promise between them.
 */
export function together(statements: readonly CompiledQuery[]): CompiledQuery {
  return CompiledQuery.raw(TOGETHER, [...statements]);
}

/** Kysely on node:sqlite, with a cache of compiled statements. */
export function createSqliteDialect(file: string): Dialect {
  return new LockingDialect({ database: new CachingDatabase(openDatabase(file)) });
}

/**
 * Lets migrations run in one transaction, which takes the write lock when it begins and so keeps other
 * processes out.
 */
class LockingDialect extends SqliteDialect {
  override createAdapter(): SqliteAdapter {
    return new LockingAdapter();
  }
}

class LockingAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}

function openDatabase(file: string): DatabaseSync {
  // SQLite gives its side files the mode of the main file, so the main file is made private first.
  closeSync(openSync(file, "a", 0o600));
  chmodSync(file, 0o600);
  const isNew = statSync(file).size === 0;
  const database = new DatabaseSync(file, { timeout: OPENING_TIMEOUT, enableForeignKeyConstraints: true });
  try {
    // With `auto_vacuum`, deleted pages can be given back to the disk. It can be switched on only while the
    // file is empty.
    if (isNew) database.exec("PRAGMA auto_vacuum = INCREMENTAL");
    database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
    database.exec(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_AFTER}; PRAGMA busy_timeout = ${BUSY_TIMEOUT}`);
  } catch (error) {
    database.close();
    throw error;
  }
  return database;
}

/** Gives Kysely the interface that it expects of a database, and keeps compiled statements for reuse. */
class CachingDatabase implements SqliteDatabase {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, SqliteStatement>();
  readonly #together: SqliteStatement;

  constructor(database: DatabaseSync) {
    this.#database = database;
    // Only `together` makes a query with this text.
    const run = (statements: readonly unknown[]) => this.#runTogether(statements as CompiledQuery[]);
    this.#together = { reader: false, all: () => [], run, iterate: () => [][Symbol.iterator]() };
  }

  prepare(text: string): SqliteStatement {
    if (text === TOGETHER) return this.#together;
    const known = this.#statements.get(text);
    if (known !== undefined) return known;
    if (this.#statements.size === CACHED_STATEMENTS) this.#statements.clear();
    // A transaction that reads first and then meets another writer fails without waiting, so take the write lock at
    // once.
    const made = wrap(this.#database.prepare(text === "begin" ? "begin immediate" : text));
    this.#statements.set(text, made);
    return made;
  }

  #runTogether(statements: readonly CompiledQuery[]): { changes: number; lastInsertRowid: number } {
    this.prepare("begin").run([]);
    try {
      for (const { sql, parameters } of statements) this.prepare(sql).run(parameters);
      this.prepare("commit").run([]);
    } catch (error) {
      // SQLite itself ends the transaction when the disk is full.
      if (this.#database.isTransaction) this.prepare("rollback").run([]);
      throw error;
    }
    return { changes: 0, lastInsertRowid: 0 };
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
