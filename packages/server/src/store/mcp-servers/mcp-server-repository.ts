import { isDuplicateKey } from "../database/error-kind.ts";
import type { StoreDatabase } from "../database/schema.ts";
import { toKey } from "../database/storable-text.ts";
import { fromJson, toJson } from "../database/stored-json.ts";
import type { McpServerChange, McpServerStore, StoredMcpServer, StoredMcpTool } from "./mcp-server-store.ts";
import type { McpServerRow, McpToolRow } from "./mcp-server-tables.ts";

export class McpServerRepository implements McpServerStore {
  readonly #db: StoreDatabase;

  constructor(db: StoreDatabase) {
    this.#db = db;
  }

  async list(): Promise<StoredMcpServer[]> {
    const rows = await this.#db.selectFrom("mcp_servers").selectAll().orderBy("server_key").execute();
    return rows.map(toServer);
  }

  async get(key: string): Promise<StoredMcpServer | undefined> {
    const row = await this.#db
      .selectFrom("mcp_servers")
      .selectAll()
      .where("server_key", "=", toKey(key))
      .executeTakeFirst();
    return row === undefined ? undefined : toServer(row);
  }

  async put(key: string, change: McpServerChange): Promise<void> {
    const columns = toColumns(change);
    if (await this.#replace(key, columns)) return;
    const now = Date.now();
    const empty = { entry: null, enabled: null, verdict: null, catalogue: null };
    try {
      await this.#db
        .insertInto("mcp_servers")
        .values({ server_key: toKey(key), ...empty, ...columns, created_at: now, updated_at: now })
        .execute();
    } catch (error) {
      // Somebody else has made it in between.
      if (!isDuplicateKey(error)) throw error;
      await this.#replace(key, columns);
    }
  }

  async remove(key: string): Promise<boolean> {
    await this.#db.deleteFrom("mcp_tools").where("server_key", "=", toKey(key)).execute();
    const { numDeletedRows } = await this.#db
      .deleteFrom("mcp_servers")
      .where("server_key", "=", toKey(key))
      .executeTakeFirst();
    return numDeletedRows > 0n;
  }

  async tools(server: string): Promise<StoredMcpTool[]> {
    const rows = await this.#db
      .selectFrom("mcp_tools")
      .selectAll()
      .where("server_key", "=", toKey(server))
      .orderBy("tool_key")
      .execute();
    return rows.map((row) => toTool(server, row));
  }

  async putTool(tool: StoredMcpTool): Promise<void> {
    const place = { server_key: toKey(tool.server), tool_key: toKey(tool.name) };
    const columns = {
      name: tool.name,
      approved: jsonOf(tool.approved),
      pending: jsonOf(tool.pending),
      approved_at: tool.approvedAt ?? null,
      approved_by: tool.approvedBy === undefined ? null : toKey(tool.approvedBy),
      override: jsonOf(tool.override),
    };
    const replace = async () => {
      const { numUpdatedRows } = await this.#db
        .updateTable("mcp_tools")
        .set(columns)
        .where("server_key", "=", place.server_key)
        .where("tool_key", "=", place.tool_key)
        .executeTakeFirst();
      return numUpdatedRows > 0n;
    };
    if (await replace()) return;
    try {
      await this.#db
        .insertInto("mcp_tools")
        .values({ ...place, ...columns })
        .execute();
    } catch (error) {
      if (!isDuplicateKey(error)) throw error;
      await replace();
    }
  }

  async #replace(key: string, columns: Partial<McpServerRow>): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable("mcp_servers")
      .set({ ...columns, updated_at: Date.now() })
      .where("server_key", "=", toKey(key))
      .executeTakeFirst();
    return numUpdatedRows > 0n;
  }
}

function toColumns({ entry, enabled, verdict, catalogue }: McpServerChange): Partial<McpServerRow> {
  return {
    ...(entry === undefined ? {} : { entry: jsonOf(entry) }),
    ...(enabled === undefined ? {} : { enabled: enabled === null ? null : Number(enabled) }),
    ...(verdict === undefined ? {} : { verdict: jsonOf(verdict) }),
    ...(catalogue === undefined ? {} : { catalogue: jsonOf(catalogue) }),
  };
}

function toServer(row: McpServerRow): StoredMcpServer {
  const entry = fromJson<object>(row.entry);
  const verdict = fromJson<object>(row.verdict);
  const catalogue = fromJson<object>(row.catalogue);
  return {
    key: row.server_key,
    ...(entry === undefined ? {} : { entry }),
    ...(row.enabled === null ? {} : { enabled: row.enabled === 1 }),
    ...(verdict === undefined ? {} : { verdict }),
    ...(catalogue === undefined ? {} : { catalogue }),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

function toTool(server: string, row: McpToolRow): StoredMcpTool {
  const approved = fromJson<object>(row.approved);
  const pending = fromJson<object>(row.pending);
  const override = fromJson<object>(row.override);
  return {
    server,
    name: row.name,
    ...(approved === undefined ? {} : { approved }),
    ...(pending === undefined ? {} : { pending }),
    ...(row.approved_at === null ? {} : { approvedAt: row.approved_at }),
    ...(row.approved_by === null ? {} : { approvedBy: row.approved_by }),
    ...(override === undefined ? {} : { override }),
  };
}

function jsonOf(value: object | null | undefined): string | null {
  return value === undefined || value === null ? null : toJson(value);
}
