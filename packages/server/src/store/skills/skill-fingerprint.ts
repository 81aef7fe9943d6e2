import { createHash } from "node:crypto";
import { MysqlAdapter, PostgresAdapter, sql } from "kysely";
import type { StoreDatabase } from "../database/schema.ts";

const tables = ["skills", "skill_tools", "skill_files", "experts", "expert_skills"] as const;

/**
 * A text that changes with any row of skills and experts, also one that an operator edits with a client of the
 * database, which counts no version. It is asked for every other second, so each engine answers the cheapest way that
 * it has.
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

  /** Every version of a row bears the number of the transaction that wrote it. */
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

  /** Nothing is read as long as no other connection has written to the file. */
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
