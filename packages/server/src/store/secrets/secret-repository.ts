import { isDuplicateKey } from "../database/error-kind.ts";
import type { StoreDatabase } from "../database/schema.ts";
import { toKey } from "../database/storable-text.ts";
import type { SecretInfo, SecretStore } from "./secret-store.ts";

export class SecretRepository implements SecretStore {
  readonly #db: StoreDatabase;

  constructor(db: StoreDatabase) {
    this.#db = db;
  }

  async set(name: string, encrypted: string): Promise<void> {
    if (toKey(name) !== name) {
      throw new Error(
        "The name of a secret is too long, or has characters that not every database can hold.",
      );
    }
    if (await this.#update(name, encrypted)) return;
    const now = Date.now();
    try {
      await this.#db
        .insertInto("secrets")
        .values({ name, value: encrypted, created_at: now, updated_at: now })
        .execute();
    } catch (error) {
      // Somebody else has set it in between.
      if (!isDuplicateKey(error)) throw error;
      await this.#update(name, encrypted);
    }
  }

  replace(name: string, encrypted: string, before: string): Promise<boolean> {
    return this.#update(name, encrypted, before);
  }

  async get(name: string): Promise<string | undefined> {
    const row = await this.#db
      .selectFrom("secrets")
      .select("value")
      .where("name", "=", toKey(name))
      .executeTakeFirst();
    return row?.value;
  }

  async list(): Promise<SecretInfo[]> {
    const rows = await this.#db
      .selectFrom("secrets")
      .select(["name", "created_at", "updated_at"])
      .orderBy("name")
      .execute();
    return rows.map(({ name, created_at, updated_at }) => ({
      name,
      createdAt: created_at,
      updatedAt: updated_at,
    }));
  }

  async remove(name: string, encrypted?: string): Promise<boolean> {
    const row = this.#db.deleteFrom("secrets").where("name", "=", toKey(name));
    const { numDeletedRows } = await (encrypted === undefined
      ? row
      : row.where("value", "=", encrypted)
    ).executeTakeFirst();
    return numDeletedRows > 0n;
  }

  async #update(name: string, encrypted: string, before?: string): Promise<boolean> {
    const row = this.#db
      .updateTable("secrets")
      .set({ value: encrypted, updated_at: Date.now() })
      .where("name", "=", toKey(name));
    const { numUpdatedRows } = await (before === undefined
      ? row
      : row.where("value", "=", before)
    ).executeTakeFirst();
    return numUpdatedRows > 0n;
  }
}
