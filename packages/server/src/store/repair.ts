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
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { reasonOf } from "../helpers/index.ts";
import { openDatabase } from "./database.ts";
import { RepairRefused } from "./errors.ts";
import { livingInstances } from "./instances.ts";
import { isNewerStep, migrate } from "./migrations.ts";
import { PageTree } from "./sqlite-page-repair.ts";

export interface RepairedTable {
  readonly name: string;
  readonly saved: number;
  /** How many rows were lost at least: how many an unreadable page had is unknown. */
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
  if (livingInstances(join(directory, "instances")).length > 0) {
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
    // Copies once more, because SQLite may have changed the copy while it looked for problems.
    const damaged = copyInto(backup, work);
    const repaired = join(work, "repaired.db");
    const { db, close } = await openDatabase("sqlite", repaired);
    await migrate(db, "sqlite");
    await close();
    makeReadable(damaged, repaired);
    const tables = copyTables(damaged, repaired);
    const [left] = problemsOf(repaired);
    if (left !== undefined) throw new Error(`The new database is not whole either: ${left}`);
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
    const copy = join(target, name);
    rmSync(copy, { force: true });
    if (!existsSync(join(directory, name))) continue;
    copyFileSync(join(directory, name), copy);
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
    return [reasonOf(error)];
  } finally {
    database?.close();
  }
}

/** Mends what SQLite needs to read the tables at all. `fresh` is an empty database of this version. */
function makeReadable(damaged: string, fresh: string): void {
  if (!applyLog(damaged)) {
    using pages = new PageTree(damaged);
    using own = new PageTree(fresh);
    // One version always creates its tables in the same order, so their root pages are the same.
    pages.copySchema(own);
  }
  applyLog(damaged);
  using pages = new PageTree(damaged);
  pages.forgetCount();
  pages.mend();
}

/** Moves the changes of the log into the file. False when the list of tables cannot be read. */
function applyLog(path: string): boolean {
  using pages = new PageTree(path);
  pages.forgetCount();
  const database = new DatabaseSync(path);
  try {
    database.exec("pragma journal_mode = delete");
    return tablesOf(database).length > 0;
  } catch {
    return false;
  } finally {
    database.close();
  }
}

function copyTables(damaged: string, repaired: string): RepairedTable[] {
  using source = new DatabaseSync(damaged, { readOnly: true });
  using target = new DatabaseSync(repaired);
  source.exec("pragma cell_size_check = on");
  refuseNewer(source);
  const theirs = new Set(tablesOf(source));
  const names = tablesOf(target).filter((name) => theirs.has(name) && !name.startsWith(MIGRATIONS));
  target.exec("pragma synchronous = off; begin");
  const tables = names.map((name) => ({ name, ...copyRows(source, target, name) }));
  target.exec("commit; pragma wal_checkpoint(truncate); pragma journal_mode = delete");
  return tables;
}

function tablesOf(database: DatabaseSync): string[] {
  const tables = database.prepare(
    "select name from sqlite_schema where type = 'table' and name not like 'sqlite%'",
  );
  return tables.all().map(({ name }) => String(name));
}

function refuseNewer(source: DatabaseSync): void {
  const steps: string[] = [];
  try {
    for (const { name } of source.prepare(`select name from ${MIGRATIONS}`).iterate())
      steps.push(String(name));
  } catch {
    // Goes on with the steps that could be read.
  }
  const newer = steps.find((name) => /^\d{4}_/.test(name) && isNewerStep(name));
  if (newer === undefined) return;
  throw new RepairRefused(
    `The database was last used by a newer version of Toolrack (it has ${newer}). Repair it with that version.`,
  );
}

/** Copies the rows that can be read, and that the new table accepts. */
function copyRows(source: DatabaseSync, target: DatabaseSync, table: string) {
  const columnsOf = (database: DatabaseSync) =>
    database
      .prepare(`pragma table_info("${table}")`)
      .all()
      .map(({ name }) => `"${name}"`);
  const known = new Set(columnsOf(target));
  const columns = columnsOf(source).filter((column) => known.has(column));
  const places = columns.map(() => "?").join(", ");
  const insert = target.prepare(
    `insert or replace into "${table}" (${columns.join(", ")}) values (${places})`,
  );
  const read = source.prepare(
    `select rowid, ${columns.join(", ")} from "${table}" where rowid >= ? order by rowid`,
  );
  read.setReturnArrays(true);
  let saved = 0;
  let lost = 0;
  for (let from: number | undefined = 1; from !== undefined; ) {
    try {
      for (const row of read.iterate(from)) {
        const [rowid, ...values] = row as unknown as SQLInputValue[]; // `setReturnArrays` makes rows arrays.
        from = Math.max(from, Number(rowid) + 1);
        try {
          insert.run(...values);
          saved++;
        } catch {
          lost++; // The row is damaged and breaks a constraint of the table.
        }
      }
      return { saved, lost };
    } catch {
      lost++;
      from = nextReadable(read, from);
    }
  }
  return { saved, lost };
}

/** Row numbers. Behind a damaged place that is larger, nothing is expected to be readable. */
const LARGEST_GAP = 2 ** 40;

/** The first row number behind a damaged place from which SQLite can read on. */
function nextReadable(read: StatementSync, from: number): number | undefined {
  const isReadable = (rowid: number) => {
    try {
      read.get(rowid);
      return true;
    } catch {
      return false;
    }
  };
  let gap = 1;
  while (!isReadable(from + gap)) {
    gap *= 2;
    if (gap > LARGEST_GAP) return undefined;
  }
  let damaged = Math.floor(gap / 2);
  while (gap - damaged > 1) {
    const middle = Math.floor((damaged + gap) / 2);
    if (isReadable(from + middle)) gap = middle;
    else damaged = middle;
  }
  return from + gap;
}
