import { unlessTaken } from "./database-errors.ts";
import { toKey, tokenSecretName } from "./keys.ts";
import {
  deleteRows,
  findRow,
  findRows,
  flag,
  json,
  key,
  plain,
  rowMap,
  text,
  updateRows,
} from "./row-mapping.ts";
import type { Engine, StoreDatabase } from "./schema.ts";
import type { RegistryVersion } from "./versions.ts";

export interface StoredToken {
  readonly id: string;
  readonly name: string;
  readonly scopes: {
    readonly tools?: readonly string[];
    readonly experts?: readonly string[];
    readonly admin?: boolean;
    /** Patterns of the tools whose calls the token may approve. Default: none. */
    readonly approve?: readonly string[];
    /** Whether the token may chat with models. Default: true when the token may use any tools or experts. */
    readonly chat?: boolean;
  };
  readonly createdAt: number;
  readonly lastUsedAt?: number;
  readonly expiresAt?: number;
}

const tokens = rowMap<StoredToken>()("tokens", { name: text(), scopes: json() }, ["hash"]);

export class TokenRepository {
  readonly #db: StoreDatabase;

  constructor(db: StoreDatabase) {
    this.#db = db;
  }

  /** Stores the hash of the token's text, never the text itself. */
  async add(token: StoredToken, hash: string): Promise<void> {
    await this.#db
      .insertInto("tokens")
      .values({ ...tokens.toRow(token), hash })
      .execute();
  }

  async findByHash(hash: string): Promise<StoredToken | undefined> {
    const row = await findRow(this.#db, "tokens", { hash });
    return row && tokens.toRecord(row);
  }

  async list(): Promise<StoredToken[]> {
    return (await findRows(this.#db, "tokens", {}, "created_at", "id")).map(tokens.toRecord);
  }

  /** Removes the token, and the secrets that were stored for it. Returns whether there was such a token. */
  async remove(id: string): Promise<boolean> {
    const isRemoved = (await deleteRows(this.#db, "tokens", { id })) > 0;
    if (isRemoved)
      await this.#db
        .deleteFrom("secrets")
        .where("name", "like", `${toKey(tokenSecretName(id, ""))}%`)
        .execute();
    return isRemoved;
  }

  async touch(id: string, at: number): Promise<void> {
    await this.#db
      .updateTable("tokens")
      .set({ last_used_at: at })
      .where("id", "=", id)
      // Nodes may report uses out of order: an earlier time must not replace a later one.
      .where(({ or, eb }) => or([eb("last_used_at", "is", null), eb("last_used_at", "<", at)]))
      .execute();
  }
}

export type TokenStore = Pick<TokenRepository, keyof TokenRepository>;

/** A secret or a setting without its value. */
export interface ValueInfo {
  readonly name: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** Stores the values of settings, or those of secrets, which the caller has encrypted. */
export class ValueRepository {
  readonly #db: StoreDatabase;
  readonly #table: "secrets" | "settings";

  constructor(db: StoreDatabase, table: "secrets" | "settings") {
    this.#db = db;
    this.#table = table;
  }

  /** Adds or replaces the value. */
  async set(name: string, value: string): Promise<void> {
    if (toKey(name) !== name) {
      throw new Error("The name is too long, or has characters that not every database can hold.");
    }
    if (await this.#update(name, value)) return;
    const now = Date.now();
    const row = { name, value, created_at: now, updated_at: now };
    await unlessTaken<unknown>(
      () => this.#db.insertInto(this.#table).values(row).execute(),
      () => this.#update(name, value),
    );
  }

  /** Replaces the value only if it is still `before`; otherwise returns false. */
  replace(name: string, value: string, before: string): Promise<boolean> {
    return this.#update(name, value, before);
  }

  async get(name: string): Promise<string | undefined> {
    return (await findRow(this.#db, this.#table, { name: toKey(name) }))?.value;
  }

  /** Sorted by name. */
  async list(): Promise<ValueInfo[]> {
    return (await this.entries()).map(({ value: _, ...info }) => info);
  }

  /** With their values, sorted by name. */
  async entries(): Promise<(ValueInfo & { readonly value: string })[]> {
    const rows = await findRows(this.#db, this.#table, {}, "name");
    return rows.map(({ name, value, created_at, updated_at }) => ({
      name,
      value,
      createdAt: created_at,
      updatedAt: updated_at,
    }));
  }

  /** With `value`: removes the row only if that is still its value. */
  async remove(name: string, value?: string): Promise<boolean> {
    return (await deleteRows(this.#db, this.#table, withValue(name, value))) > 0;
  }

  async #update(name: string, value: string, before?: string): Promise<boolean> {
    const changes = { value, updated_at: Date.now() };
    return (await updateRows(this.#db, this.#table, withValue(name, before), changes)) > 0;
  }
}

/** The condition that selects a row by its name and, where a value is given, also by its value. */
function withValue(name: string, value: string | undefined) {
  return { name: toKey(name), ...(value === undefined ? {} : { value }) };
}

/** An operator's decision to switch a tool on or off. It holds for any tool of that name, now or later. */
export interface ToolSwitch {
  readonly toolName: string;
  readonly enabled: boolean;
  readonly by: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

const switches = rowMap<ToolSwitch>()(
  "tool_switches",
  { enabled: flag(), by: key("switched_by"), at: plain("switched_at") },
  ["name_key"],
);

export class ToolSwitchRepository {
  readonly #db: StoreDatabase;
  readonly #version: RegistryVersion;

  constructor(db: StoreDatabase, version: RegistryVersion) {
    this.#db = db;
    this.#version = version;
  }

  /** Replaces earlier decisions about the same tools. Resolves when all new ones are safely written. */
  async set(...decided: readonly ToolSwitch[]): Promise<void> {
    // Names that differ only by case mean the same tool.
    const keyed = decided.map((one) => [toKey(one.toolName.toLowerCase()), one] as const);
    const rows = Array.from(new Map(keyed), ([name_key, one]) => ({ ...switches.toRow(one), name_key }));
    const write = () =>
      this.#version.change(async (db) => {
        await deleteRows(db, "tool_switches", { name_key: rows.map(({ name_key }) => name_key) });
        await db.insertInto("tool_switches").values(rows).execute();
      });
    // Another process may have inserted a decision about the same tool in between.
    await unlessTaken(write, write);
  }

  /** Sorted by name. */
  async list(): Promise<ToolSwitch[]> {
    return (await findRows(this.#db, "tool_switches", {}, "name_key")).map(switches.toRecord);
  }
}

export type ToolSwitchStore = Pick<ToolSwitchRepository, keyof ToolSwitchRepository>;

/** Values by which nodes know that they have the same key and token. The first node to give a value decides it. */
export class IdentityRepository {
  readonly #db: StoreDatabase;
  readonly #engine: Engine;

  constructor(db: StoreDatabase, engine: Engine) {
    this.#db = db;
    this.#engine = engine;
  }

  async get(name: string): Promise<string | undefined> {
    return (await findRow(this.#db, "identity", { name }))?.value;
  }

  /** Returns the value that counts: the given one, or one that was there before. */
  async agree(name: string, value: string): Promise<string> {
    const row = this.#db.insertInto("identity").values({ name, value });
    await (this.#engine === "mysql" ? row.ignore() : row.onConflict((on) => on.doNothing())).execute();
    return (await this.get(name)) ?? value;
  }
}
