import type { StoreDatabase, TokenRow } from "../database/schema.ts";
import { toStorableText } from "../database/storable-text.ts";
import { toJson } from "../database/stored-json.ts";
import type { StoredToken, TokenStore } from "../store.ts";

export class TokenRepository implements TokenStore {
  readonly #db: StoreDatabase;

  constructor(db: StoreDatabase) {
    this.#db = db;
  }

  async add(token: StoredToken, hash: string): Promise<void> {
    await this.#db
      .insertInto("tokens")
      .values({
        id: token.id,
        name: toStorableText(token.name),
        hash,
        scopes: toJson(token.scopes),
        created_at: token.createdAt,
        last_used_at: token.lastUsedAt ?? null,
        expires_at: token.expiresAt ?? null,
      })
      .execute();
  }

  async findByHash(hash: string): Promise<StoredToken | undefined> {
    const row = await this.#db.selectFrom("tokens").selectAll().where("hash", "=", hash).executeTakeFirst();
    return row === undefined ? undefined : toToken(row);
  }

  async list(): Promise<StoredToken[]> {
    const rows = await this.#db
      .selectFrom("tokens")
      .selectAll()
      .orderBy("created_at")
      .orderBy("id")
      .execute();
    return rows.map(toToken);
  }

  async remove(id: string): Promise<boolean> {
    const { numDeletedRows } = await this.#db.deleteFrom("tokens").where("id", "=", id).executeTakeFirst();
    return numDeletedRows > 0n;
  }

  async touch(id: string, at: number): Promise<void> {
    await this.#db
      .updateTable("tokens")
      .set({ last_used_at: at })
      .where("id", "=", id)
      // Several nodes may tell of their uses in any order.
      .where(({ or, eb }) => or([eb("last_used_at", "is", null), eb("last_used_at", "<", at)]))
      .execute();
  }
}

function toToken(row: TokenRow): StoredToken {
  return {
    id: row.id,
    name: row.name,
    // Written by `add` above.
    scopes: JSON.parse(row.scopes) as StoredToken["scopes"],
    createdAt: row.created_at,
    ...(row.last_used_at === null ? {} : { lastUsedAt: row.last_used_at }),
    ...(row.expires_at === null ? {} : { expiresAt: row.expires_at }),
  };
}
