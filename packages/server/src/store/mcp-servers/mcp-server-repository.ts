import { isDuplicateKey } from "../database/error-kind.ts";
import type { StoreDatabase } from "../database/schema.ts";
import { toKey } from "../database/storable-text.ts";
import { toJson } from "../database/stored-json.ts";
import type { RegistryVersion } from "../registry-version/registry-version.ts";
import { toStoredServer, toStoredTool } from "./mcp-server-rows.ts";
import type {
  ClaimedName,
  McpServerChange,
  McpServerStore,
  McpToolChange,
  StoredMcpServer,
  StoredMcpTool,
} from "./mcp-server-store.ts";
import type { McpServerRow, McpToolRow } from "./mcp-server-tables.ts";

/** A server of which nothing is known. */
const NOTHING = { entry: null, enabled: null, verdict: null, catalogue: null };
/** Names that are written at once. */
const MOST_NAMES = 200;

export class McpServerRepository implements McpServerStore {
  readonly #db: StoreDatabase;
  readonly #version: RegistryVersion;

  constructor(db: StoreDatabase, version: RegistryVersion) {
    this.#db = db;
    this.#version = version;
  }

  async list(): Promise<StoredMcpServer[]> {
    const rows = await this.#db
      .selectFrom("mcp_servers")
      .select(["server_key", "enabled", "created_at", "updated_at", "entry"])
      .orderBy("server_key")
      .execute();
    return rows.map((row) => toStoredServer({ ...row, verdict: null, catalogue: null }));
  }

  async get(key: string): Promise<StoredMcpServer | undefined> {
    const row = await this.#db
      .selectFrom("mcp_servers")
      .selectAll()
      .where("server_key", "=", toKey(key))
      .executeTakeFirst();
    return row === undefined ? undefined : toStoredServer(row);
  }

  async add(key: string, entry: object): Promise<boolean> {
    const server_key = toKey(key);
    const columns = serverColumns({ entry, enabled: null });
    let isAdded = false;
    await this.#write(async (db) => {
      const now = Date.now();
      // Something may have been learnt about it, or said of one with this key in a file.
      const row = await db
        .selectFrom("mcp_servers")
        .select("server_key")
        .where("server_key", "=", server_key)
        .executeTakeFirst();
      if (row === undefined) {
        await db
          .insertInto("mcp_servers")
          .values({ server_key, ...NOTHING, ...columns, created_at: now, updated_at: now })
          .execute();
        isAdded = true;
        return true;
      }
      const { numUpdatedRows } = await db
        .updateTable("mcp_servers")
        .set({ ...columns, updated_at: now })
        .where("server_key", "=", server_key)
        .where("entry", "is", null)
        .executeTakeFirst();
      isAdded = numUpdatedRows > 0n;
      return isAdded;
    });
    return isAdded;
  }

  async put(key: string, change: McpServerChange): Promise<void> {
    const columns = serverColumns(change);
    const isForOthers = change.entry !== undefined || change.enabled !== undefined;
    await this.#write(async (db) => {
      const now = Date.now();
      const { numUpdatedRows } = await db
        .updateTable("mcp_servers")
        .set({ ...columns, updated_at: now })
        .where("server_key", "=", toKey(key))
        .executeTakeFirst();
      if (numUpdatedRows > 0n) return isForOthers;
      await db
        .insertInto("mcp_servers")
        .values({ server_key: toKey(key), ...NOTHING, ...columns, created_at: now, updated_at: now })
        .execute();
      return isForOthers;
    });
  }

  async remove(key: string): Promise<boolean> {
    let removed = 0n;
    await this.#write(async (db) => {
      await db.deleteFrom("mcp_tools").where("server_key", "=", toKey(key)).execute();
      const { numDeletedRows } = await db
        .deleteFrom("mcp_servers")
        .where("server_key", "=", toKey(key))
        .executeTakeFirst();
      removed = numDeletedRows;
      return true;
    });
    return removed > 0n;
  }

  async tools(server: string): Promise<StoredMcpTool[]> {
    const rows = await this.#db
      .selectFrom("mcp_tools")
      .selectAll()
      .where("server_key", "=", toKey(server))
      .orderBy("tool_key")
      .execute();
    return rows.map((row) => toStoredTool(server, row));
  }

  async putTool(server: string, name: string, change: McpToolChange): Promise<void> {
    const place = { server_key: toKey(server), tool_key: toKey(name) };
    const columns = toolColumns(change);
    const isForOthers = change.approved !== undefined || change.override !== undefined;
    await this.#write(async (db) => {
      const { numUpdatedRows } = await db
        .updateTable("mcp_tools")
        .set({ name, ...columns })
        .where("server_key", "=", place.server_key)
        .where("tool_key", "=", place.tool_key)
        .executeTakeFirst();
      if (numUpdatedRows > 0n) return isForOthers;
      const empty = { approved: null, pending: null, approved_at: null, approved_by: null, override: null };
      await db
        .insertInto("mcp_tools")
        .values({ ...place, name, ...empty, ...columns })
        .execute();
      return isForOthers;
    });
  }

  async names(): Promise<ClaimedName[]> {
    const rows = await this.#db.selectFrom("mcp_names").selectAll().execute();
    return rows.map(({ name_key, server_key }) => ({ name: name_key, server: server_key }));
  }

  async countNames(): Promise<number> {
    const { count } = await this.#db
      .selectFrom("mcp_names")
      .select(({ fn }) => fn.countAll().as("count"))
      .executeTakeFirstOrThrow();
    return Number(count);
  }

  async claimNames(server: string, names: readonly string[]): Promise<void> {
    const server_key = toKey(server);
    await this.#write(async (db) => {
      const rows = await db
        .selectFrom("mcp_names")
        .select("name_key")
        .where("server_key", "=", server_key)
        .execute();
      const known = new Set(rows.map(({ name_key }) => name_key));
      const fresh = [...new Set(names)].filter((name) => !known.has(name));
      for (let from = 0; from < fresh.length; from += MOST_NAMES) {
        const values = fresh.slice(from, from + MOST_NAMES).map((name_key) => ({ name_key, server_key }));
        await db.insertInto("mcp_names").values(values).execute();
      }
      return fresh.length > 0;
    });
  }

  async tellOthers(): Promise<void> {
    await this.#version.bump();
  }

  /** All or nothing, and counted for other processes if the work answers that it is for them. */
  async #write(work: (db: StoreDatabase) => Promise<boolean>): Promise<void> {
    const write = () =>
      this.#db.transaction().execute(async (transaction) => {
        if (await work(transaction)) await this.#version.bump(transaction);
      });
    try {
      await write();
    } catch (error) {
      // Somebody else has made the row in between.
      if (!isDuplicateKey(error)) throw error;
      await write();
    }
  }
}

function serverColumns({ entry, enabled, verdict, catalogue }: McpServerChange): Partial<McpServerRow> {
  return {
    ...(entry === undefined ? {} : { entry: jsonOf(entry) }),
    ...(enabled === undefined ? {} : { enabled: enabled === null ? null : Number(enabled) }),
    ...(verdict === undefined ? {} : { verdict: jsonOf(verdict) }),
    ...(catalogue === undefined ? {} : { catalogue: jsonOf(catalogue) }),
  };
}

function toolColumns({ approved, pending, override }: McpToolChange): Partial<McpToolRow> {
  return {
    ...(approved === undefined
      ? {}
      : {
          approved: toJson(approved.definition),
          approved_at: approved.at,
          approved_by: toKey(approved.by),
        }),
    ...(pending === undefined ? {} : { pending: jsonOf(pending) }),
    ...(override === undefined ? {} : { override: jsonOf(override) }),
  };
}

function jsonOf(value: object | null): string | null {
  return value === null ? null : toJson(value);
}
