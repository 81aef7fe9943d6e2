import { createHash } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { MysqlAdapter, PostgresAdapter, sql } from "kysely";
import { SkillChangedError } from "./errors.ts";
import type { StoreDatabase } from "./schema.ts";

/** Counts the changes to the tools that the database describes, so that every node knows when to read them again. */
export class RegistryVersion {
  readonly #db: StoreDatabase;

  constructor(db: StoreDatabase) {
    this.#db = db;
  }

  read(): Promise<number> {
    return readVersion(this.#db);
  }

  bump(): Promise<number> {
    return this.#db.transaction().execute(raiseVersion);
  }

  /**
   * Makes a change and raises the version in one transaction, so that no node sees the new version before the change;
   * other writers wait meanwhile. The version stays when `isCounted` returns false.
   */
  change<Result>(
    edit: (db: StoreDatabase) => Promise<Result>,
    isCounted: (result: Result) => boolean = () => true,
  ): Promise<Result> {
    return this.#db.transaction().execute(async (transaction) => {
      const result = await edit(transaction);
      if (isCounted(result)) await raiseVersion(transaction);
      return result;
    });
  }
}

async function raiseVersion(db: StoreDatabase): Promise<number> {
  await db
    .updateTable("registry_version")
    .set(({ eb }) => ({ version: eb("version", "+", 1) }))
    .where("id", "=", 1)
    .execute();
  return readVersion(db);
}

async function readVersion(db: StoreDatabase): Promise<number> {
  const row = db.selectFrom("registry_version").select("version").where("id", "=", 1);
  return (await row.executeTakeFirstOrThrow()).version;
}

/**
 * The `updatedAt` of the version that the caller has read. If the row has another one by now, the change is refused
 * with `SkillChangedError`.
 */
export interface SeenVersion {
  readonly seen?: number | undefined;
}

export function refuseUnseen(seen: number | undefined, now: SkillChangedError["now"]): void {
  if (seen !== undefined && seen !== now.updatedAt) throw new SkillChangedError(now);
}

/**
 * The condition of an update: the row with this id, still in the version that the caller has seen. The update
 * checks it once more because another node may write after our read.
 */
export function asSeen(id: string, seen: number | undefined) {
  return { id, ...(seen === undefined ? {} : { updated_at: seen }) };
}

/** A time later than `updatedAt`, also when the clock was set back. */
export function laterThan(updatedAt: number): number {
  return Math.max(Date.now(), updatedAt + 1);
}

const tables = ["skills", "skill_tools", "skill_files", "experts", "expert_skills"] as const;

/**
 * Returns a function that reads a text which changes with every change of skills and experts, also when an operator
 * edits a row with a database client, which raises no version. It is read every other second, so each engine uses its
 * cheapest way.
 */
export function skillFingerprint(db: StoreDatabase): () => Promise<string> {
  const { adapter } = db.getExecutor();
  if (adapter instanceof PostgresAdapter) return () => readFromPostgres(db);
  if (adapter instanceof MysqlAdapter) return () => readFromMysql(db);
  let seen: { readonly dataVersion: number; readonly fingerprint: string } | undefined;
  // Reads the tables only after another connection has written to the file. Changes of this one are counted.
  return async () => {
    const { rows } = await sql<{ data_version: number }>`pragma data_version`.execute(db);
    const dataVersion = rows[0]?.data_version ?? 0;
    if (seen?.dataVersion !== dataVersion) seen = { dataVersion, fingerprint: await hashTables(db) };
    return `${seen.fingerprint} ${ownChanges.get(db) ?? 0}`;
  };
}

/** How often skills were changed over a connection, which all stores of this process on one file share. */
const ownChanges = new WeakMap<StoreDatabase, number>();

export function countSkillChange(db: StoreDatabase): void {
  ownChanges.set(db, (ownChanges.get(db) ?? 0) + 1);
}

/** Reads how often the database has announced a change of these tables. */
async function readFromPostgres(db: StoreDatabase): Promise<string> {
  const count = sql<{
    count: string;
  }>`select last_value || ' ' || is_called as count from toolrack_changed_skills`;
  return (await count.execute(db)).rows[0]?.count ?? "";
}

async function readFromMysql(db: StoreDatabase): Promise<string> {
  const names = sql.join(tables.map((table) => sql.table(table)));
  const { rows } = await sql<{ Checksum: unknown }>`checksum table ${names}`.execute(db);
  return rows.map(({ Checksum: sum }) => String(sum)).join(" ");
}

const ROWS_AT_ONCE = 1_000;

/** In slices: tens of thousands of rows at once would stop everything else. */
async function hashTables(db: StoreDatabase): Promise<string> {
  const hash = createHash("sha256");
  for (const table of tables) {
    for (let last = 0, count = ROWS_AT_ONCE; count === ROWS_AT_ONCE; ) {
      const { rows } = await sql<{ place: number }>`select rowid place, * from ${sql.table(table)}
        where rowid > ${last} order by rowid limit ${sql.lit(ROWS_AT_ONCE)}`.execute(db);
      for (const { place, ...row } of rows) {
        hash.update(JSON.stringify(row));
        last = place;
      }
      count = rows.length;
      await nextTurn();
    }
  }
  return hash.digest("hex");
}
