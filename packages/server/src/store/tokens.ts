import { isDuplicateKey } from "./database.ts";
import { toKey, toStorableText } from "./forms.ts";
import type { RegistryVersion } from "./instances.ts";
import type { StoreDatabase, TokenRow, ToolSwitchRow } from "./schema.ts";
import type { StoredToken, TokenStore } from "./store.ts";
import { toJson } from "./values.ts";

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

/** What may be known of a secret. */
export interface SecretInfo {
  readonly name: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** Keeps values that have been encrypted before they come here. */
export interface SecretStore {
  /** Replaces the value that is there. */
  set(name: string, encrypted: string): Promise<void>;
  /** Only while the value that is there is `before`. Says whether it was. */
  replace(name: string, encrypted: string, before: string): Promise<boolean>;
  get(name: string): Promise<string | undefined>;
  /** By name. */
  list(): Promise<SecretInfo[]>;
  /** Given a value, only while it is that one. */
  remove(name: string, encrypted?: string): Promise<boolean>;
}

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

/** What an operator decided about a tool. It holds for whatever tool has the name, now or later. */
export interface ToolSwitch {
  readonly toolName: string;
  readonly enabled: boolean;
  readonly by: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

export interface ToolSwitchStore {
  /** In place of what was decided before. Resolves when it is safely written. */
  set(decided: ToolSwitch): Promise<void>;
  /** By name. */
  list(): Promise<ToolSwitch[]>;
}

export class ToolSwitchRepository implements ToolSwitchStore {
  readonly #db: StoreDatabase;
  readonly #version: RegistryVersion;

  constructor(db: StoreDatabase, version: RegistryVersion) {
    this.#db = db;
    this.#version = version;
  }

  async set(decided: ToolSwitch): Promise<void> {
    const row: ToolSwitchRow = {
      // Names that differ by case only are one.
      name_key: toKey(decided.toolName.toLowerCase()),
      tool_name: toKey(decided.toolName),
      enabled: decided.enabled ? 1 : 0,
      switched_by: toKey(decided.by),
      switched_at: decided.at,
    };
    try {
      await this.#write(row);
    } catch (error) {
      // Somebody else has set it in between.
      if (!isDuplicateKey(error)) throw error;
      await this.#write(row);
    }
  }

  async list(): Promise<ToolSwitch[]> {
    const rows = await this.#db.selectFrom("tool_switches").selectAll().orderBy("name_key").execute();
    return rows.map((row) => ({
      toolName: row.tool_name,
      enabled: row.enabled === 1,
      by: row.switched_by,
      at: row.switched_at,
    }));
  }

  async #write(row: ToolSwitchRow): Promise<void> {
    await this.#db.transaction().execute(async (transaction) => {
      await transaction.deleteFrom("tool_switches").where("name_key", "=", row.name_key).execute();
      await transaction.insertInto("tool_switches").values(row).execute();
      await this.#version.bump(transaction);
    });
  }
}
