import type { StoreDatabase } from "../database/schema.ts";

/** Counts the changes to the tools that the database describes, so that every node knows when to read them again. */
export class RegistryVersion {
  readonly #db: StoreDatabase;

  constructor(db: StoreDatabase) {
    this.#db = db;
  }

  read(): Promise<number> {
    return readVersion(this.#db);
  }

  /**
   * One more than any version before. Given a transaction, it counts in it, so that no node sees the new version before
   * what it stands for; others that count wait until it ends.
   */
  async bump(transaction?: StoreDatabase): Promise<number> {
    if (transaction === undefined) return this.#db.transaction().execute((own) => this.bump(own));
    await transaction
      .updateTable("registry_version")
      .set(({ eb }) => ({ version: eb("version", "+", 1) }))
      .where("id", "=", 1)
      .execute();
    return readVersion(transaction);
  }
}

async function readVersion(db: StoreDatabase): Promise<number> {
  const { version } = await db
    .selectFrom("registry_version")
    .select("version")
    .where("id", "=", 1)
    .executeTakeFirstOrThrow();
  return version;
}
