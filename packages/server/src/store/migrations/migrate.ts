import { type Kysely, type RawBuilder, sql } from "kysely";
import { type Migration, Migrator } from "kysely/migration";
import type { Engine } from "../database.ts";
import { migrationSteps } from "./index.ts";

const TABLE = "toolrack_migrations";

/**
 * Brings the database to this version's tables, one process at a time. Refuses a database that a newer version has
 * already changed.
 */
export async function migrate(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const done = await executedSteps(db);
  if (done !== undefined) {
    refuseNewer(done);
    // Almost every start ends here, without asking the database for its list of tables.
    if (done.length === Object.keys(migrationSteps).length) return;
  }
  const migrator = new Migrator({
    db,
    migrationTableName: TABLE,
    migrationLockTableName: `${TABLE}_lock`,
    provider: { getMigrations: async () => toMigrations(engine) },
  });
  const { error } = await migrator.migrateToLatest();
  if (error === undefined) return;
  // A newer version may have been at work at the same moment.
  refuseNewer((await executedSteps(db)) ?? []);
  throw error;
}

/** Nothing when the database has never been migrated. */
async function executedSteps(db: Kysely<unknown>): Promise<string[] | undefined> {
  try {
    const { rows } = await sql<{ name: string }>`select name from ${sql.table(TABLE)}`.execute(db);
    return rows.map(({ name }) => name);
  } catch (error) {
    if (isMissingTable(error)) return undefined;
    throw error;
  }
}

function isMissingTable(error: unknown): boolean {
  // SQLite has no code of its own for it.
  const { code, message } = error as { code?: unknown; message?: unknown };
  return code === "42P01" || code === "ER_NO_SUCH_TABLE" || /no such table/.test(String(message));
}

function refuseNewer(done: readonly string[]): void {
  const unknown = done.filter((name) => !Object.hasOwn(migrationSteps, name));
  if (unknown.length === 0) return;
  throw new Error(
    `The database was last used by a newer version of Toolrack (it has ${unknown.join(", ")}, which this version does not know). Run that version, or use another database.`,
  );
}

function toMigrations(engine: Engine): Record<string, Migration> {
  return Object.fromEntries(
    Object.entries(migrationSteps).map(([name, step]) => [name, { up: (db) => step(db, engine) }]),
  );
}

/** It may be there already where a step that failed half-way could not be undone. */
export async function addColumn(
  db: Kysely<unknown>,
  table: string,
  column: string,
  type: RawBuilder<unknown>,
): Promise<void> {
  await db.schema
    .alterTable(table)
    .addColumn(column, type)
    .execute()
    .catch((error: { code?: unknown }) => {
      if (error.code !== "ER_DUP_FIELDNAME") throw error;
    });
}

/**
 * Makes an index that may be there already; MySQL has no words for that, only an error. `sparse` leaves out rows without
 * a value where the engine can, so that they cost nothing to write.
 */
export async function createIndex(
  db: Kysely<unknown>,
  engine: Engine,
  name: string,
  table: string,
  columns: readonly string[],
  { sparse }: { readonly sparse?: string } = {},
): Promise<void> {
  const index = db.schema
    .createIndex(name)
    .on(table)
    .columns([...columns]);
  if (engine !== "mysql") {
    const named = index.ifNotExists();
    await (sparse === undefined ? named : named.where(sql.ref(sparse), "is not", null)).execute();
    return;
  }
  await index.execute().catch((error: { code?: unknown }) => {
    if (error.code !== "ER_DUP_KEYNAME") throw error;
  });
}
