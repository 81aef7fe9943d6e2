import { createHash } from "node:crypto";
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

/** The row as it was seen: checked again in the update, because another node may write after the read. */
export function asSeen(id: string, seen: number | undefined) {
  return { id, ...(seen === undefined ? {} : { updated_at: seen }) };
}

/** A time after every earlier version, even when the clock was set back. */
export function laterThan(updatedAt: number): number {
  return Math.max(Date.now(), updatedAt + 1);
}

const tables = ["skills", "skill_tools", "skill_files", "experts", "expert_skills"] as const;

/**
 * A text that changes with every change of skills and experts, also when an operator edits a row with a database
 * client, which raises no version. It is read every other second, so each engine uses its cheapest way.
 */
export class SkillFingerprint {
  readonly #db: StoreDatabase;
  #seen: { readonly dataVersion: number; readonly fingerprint: string } | undefined;

  constructor(db: StoreDatabase) {
    this.#db = db;
  }

  read(): Promise<string> {
    const { adapter } = this.#db.getExecutor();
    if (adapter instanceof PostgresAdapter) return this.#fromPostgres();
    if (adapter instanceof MysqlAdapter) return this.#fromMysql();
    return this.#fromSqlite();
  }

  /** Every row has the number of the transaction that wrote it. */
  async #fromPostgres(): Promise<string> {
    const parts = tables.map(
      (table) =>
        sql`select count(*) || '/' || coalesce(sum(xmin::text::bigint), 0) || '/' || coalesce(max(xmin::text::bigint), 0) as sum from ${sql.table(table)}`,
    );
    const { rows } = await sql<{ sum: string }>`${sql.join(parts, sql` union all `)}`.execute(this.#db);
    return rows.map((row) => row.sum).join(" ");
  }

  async #fromMysql(): Promise<string> {
    const names = sql.join(tables.map((table) => sql.table(table)));
    const { rows } = await sql<{ Checksum: unknown }>`checksum table ${names}`.execute(this.#db);
    return rows.map(({ Checksum: sum }) => String(sum)).join(" ");
  }

  /** Reads the tables only after another connection has written to the file. */
  async #fromSqlite(): Promise<string> {
    const { rows } = await sql<{ data_version: number }>`pragma data_version`.execute(this.#db);
    const dataVersion = rows[0]?.data_version ?? 0;
    if (this.#seen?.dataVersion === dataVersion) return this.#seen.fingerprint;
    const hash = createHash("sha256");
    for (const table of tables) {
      const found = await sql`select * from ${sql.table(table)} order by 1, 2`.execute(this.#db);
      for (const row of found.rows) hash.update(JSON.stringify(row));
    }
    const fingerprint = hash.digest("hex");
    this.#seen = { dataVersion, fingerprint };
    return fingerprint;
  }
}
