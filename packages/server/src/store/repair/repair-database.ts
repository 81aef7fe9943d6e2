import { randomUUID } from "node:crypto";
import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
} from "node:fs";
import { join } from "node:path";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { openDatabase } from "../database.ts";
import { RepairRefused } from "../errors.ts";
import { livingInstances } from "../instances.ts";
import { migrate, migrationSteps } from "../migrations.ts";
import { DatabasePages, type PageRow, type SqlValue } from "./database-pages.ts";

export interface RepairedTable {
  readonly name: string;
  readonly saved: number;
  /** At least so many: how many rows an unreadable page had is unknown. */
  readonly lost: number;
}

export interface RepairReport {
  /** The first problems of the file, in SQLite's words. Empty: the file is whole, and nothing was done. */
  readonly problems: readonly string[];
  /** The folder with the damaged file and its log files. */
  readonly backup?: string;
  readonly tables: readonly RepairedTable[];
}

const FILES = ["toolrack.db", "toolrack.db-wal", "toolrack.db-shm"] as const;
const MIGRATIONS = "toolrack_migrations";

/**
 * Saves the readable rows of a store's damaged SQLite file into a new file, which replaces it. First copies the damaged
 * file and its log files; the copy stays. Throws `RepairRefused` while a process has the store open.
 */
export async function repairDatabase(directory: string): Promise<RepairReport> {
  const file = join(directory, FILES[0]);
  if (!existsSync(file)) throw new RepairRefused(`There is no ${file}, so there is nothing to repair.`);
  const living = livingInstances(join(directory, "instances"));
  if (living.length > 0) {
    throw new RepairRefused(
      "A server or another program has the store open. Stop it first: what it writes meanwhile would be lost.",
    );
  }
  const work = join(directory, `repair-${randomUUID()}`);
  mkdirSync(work, { mode: 0o700 });
  try {
    const problems = problemsOf(copyInto(directory, work));
    if (problems.length === 0) return { problems, tables: [] };
    const backup = join(directory, `damaged-${new Date().toISOString().replaceAll(/[:.]/g, "-")}`);
    mkdirSync(backup, { mode: 0o700 });
    copyInto(directory, backup);
    // Reads the backup, because SQLite may have changed the copy in `work` while it looked for problems.
    const repaired = join(work, "repaired.db");
    const tables = await fill(repaired, join(backup, FILES[0]));
    const left = problemsOf(repaired);
    if (left.length > 0) throw new Error(`The new database is not whole either: ${left[0]}`);
    for (const name of FILES.slice(1)) rmSync(join(directory, name), { force: true });
    sync(repaired);
    renameSync(repaired, file);
    return { problems, backup, tables };
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Returns the path of the copied database. */
function copyInto(directory: string, target: string): string {
  for (const name of FILES) {
    const from = join(directory, name);
    if (!existsSync(from)) continue;
    const copy = join(target, name);
    copyFileSync(from, copy);
    chmodSync(copy, 0o600);
    sync(copy);
  }
  return join(target, FILES[0]);
}

function sync(path: string): void {
  const file = openSync(path, "r+");
  fsyncSync(file);
  closeSync(file);
}

/**
 * Lists what SQLite finds wrong with the file. `quick` skips the indexes and never changes the file; the full check
 * may, by applying the log beside it.
 */
export function problemsOf(file: string, quick = false): string[] {
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(file, { readOnly: quick, timeout: 5_000 });
    const rows = database.prepare(quick ? "pragma quick_check(3)" : "pragma integrity_check(10)").all();
    const texts = rows.flatMap((row) => Object.values(row).map(String));
    return texts.length === 1 && texts[0] === "ok" ? [] : texts;
  } catch (error) {
    return [error instanceof Error ? error.message : String(error)];
  } finally {
    database?.close();
  }
}

/** Makes a new database with the readable rows of the damaged one. */
async function fill(repaired: string, damaged: string): Promise<RepairedTable[]> {
  const { db, close } = await openDatabase("sqlite", repaired);
  await migrate(db, "sqlite");
  await close();
  using pages = new DatabasePages(damaged);
  using own = new DatabasePages(repaired);
  const ours = own.schema() ?? new Map<string, never>();
  // One version always creates its tables in the same order, so their root pages are the same.
  const theirs = pages.schema() ?? ours;
  const database = new DatabaseSync(repaired, { enableForeignKeyConstraints: false });
  try {
    refuseNewer(pages, theirs.get(MIGRATIONS)?.root);
    database.exec("pragma synchronous = off; begin");
    const tables: RepairedTable[] = [];
    const widths = [...theirs].map(([name, { sql }]) => columnsOf(sql, name).length);
    for (const [name, { sql }] of ours) {
      const source = theirs.get(name);
      if (source === undefined || name.startsWith("sqlite_") || name.startsWith(MIGRATIONS)) continue;
      const columns = columnsOf(source.sql, name);
      const isAlone = widths.filter((width) => width === columns.length).length === 1;
      const { rows, lost } = pages.table(source.root, isAlone ? columns.length : undefined);
      const counts = new TableCopy(database, name, columns, columnsOf(sql, name)).take(rows);
      tables.push({ name, saved: counts.saved, lost: counts.refused + lost() });
    }
    const orphans = removeOrphans(database);
    database.exec("commit; pragma wal_checkpoint(truncate); pragma journal_mode = delete");
    return tables.map((table) => {
      const alone = orphans.get(table.name) ?? 0;
      return { ...table, saved: table.saved - alone, lost: table.lost + alone };
    });
  } finally {
    database.close();
  }
}

function refuseNewer(pages: DatabasePages, root: number | undefined): void {
  if (root === undefined) return;
  for (const { values } of pages.table(root).rows) {
    const name = String(values[0]);
    if (!/^\d{4}_/.test(name) || Object.hasOwn(migrationSteps, name)) continue;
    throw new RepairRefused(
      `The database was last used by a newer version of Toolrack (it has ${name}). Repair it with that version.`,
    );
  }
}

interface Column {
  readonly name: string;
  /** Whether the column is an alias of the rowid. */
  readonly isRowid: boolean;
}

/** The columns of a table in order, from its `create` statement. */
function columnsOf(sql: string, table: string): Column[] {
  const scratch = new DatabaseSync(":memory:");
  try {
    scratch.exec(sql);
    const columns = scratch.prepare(`pragma table_info("${table}")`).all();
    const keys = columns.filter(({ pk }) => Number(pk) > 0).length;
    return columns.map(({ name, type, pk }) => ({
      name: String(name),
      isRowid: keys === 1 && Number(pk) === 1 && String(type).toUpperCase() === "INTEGER",
    }));
  } finally {
    scratch.close();
  }
}

/** Inserts rows into a table of the new database, and counts those that it refuses. */
class TableCopy {
  readonly #database: DatabaseSync;
  readonly #table: string;
  readonly #source: readonly Column[];
  readonly #known: ReadonlySet<string>;
  readonly #inserts = new Map<number, StatementSync>();

  constructor(database: DatabaseSync, table: string, source: readonly Column[], target: readonly Column[]) {
    this.#database = database;
    this.#table = table;
    this.#source = source;
    this.#known = new Set(target.map(({ name }) => name));
  }

  take(rows: Iterable<PageRow>): { saved: number; refused: number } {
    let saved = 0;
    let refused = 0;
    for (const row of rows) {
      try {
        this.#insert(row.values.length).run(...this.#valuesOf(row));
        saved++;
      } catch {
        refused++; // The row is damaged and breaks a constraint of the table.
      }
    }
    return { saved, refused };
  }

  /** A row from before a column was added is shorter; the column gets its default. */
  #insert(length: number): StatementSync {
    const known = this.#inserts.get(length);
    if (known !== undefined) return known;
    if (length > this.#source.length) throw new RangeError("The row is one of another table.");
    const names = this.#columns(length).map(({ name }) => `"${name}"`);
    const places = names.map(() => "?").join(", ");
    const text = `insert or replace into "${this.#table}" (${names.join(", ")}) values (${places})`;
    const statement = this.#database.prepare(text);
    this.#inserts.set(length, statement);
    return statement;
  }

  #columns(length: number): Column[] {
    return this.#source.slice(0, length).filter(({ name }) => this.#known.has(name));
  }

  #valuesOf({ rowid, values }: PageRow): SqlValue[] {
    const found: SqlValue[] = [];
    for (const [at, value] of values.entries()) {
      const column = this.#source[at];
      if (column === undefined || !this.#known.has(column.name)) continue;
      found.push(column.isRowid && value === null ? rowid : value);
    }
    return found;
  }
}

/** Deletes rows that refer to a lost row. Returns how many per table. */
function removeOrphans(database: DatabaseSync): Map<string, number> {
  const orphans = new Map<string, number>();
  for (;;) {
    const found = database.prepare("pragma foreign_key_check").all();
    if (found.length === 0) return orphans;
    for (const { table, rowid } of found) {
      const { changes } = database.prepare(`delete from "${table}" where rowid = ?`).run(rowid as number); // All our tables have a rowid.
      orphans.set(String(table), (orphans.get(String(table)) ?? 0) + Number(changes));
    }
  }
}
