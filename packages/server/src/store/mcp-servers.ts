import { isDuplicateKey } from "./database.ts";
import { toKey } from "./forms.ts";
import type { RegistryVersion } from "./instances.ts";
import type { StoreDatabase } from "./schema.ts";
import { fromJson, toJson } from "./values.ts";

/** What an operator said about one tool of an upstream server. */
export interface ToolOverride {
  /** Another last part of its name. */
  readonly rename?: string;
  /** Another description. */
  readonly describe?: string;
}

/** What is kept about an upstream MCP server. Also about one that a file names: then there is no entry. */
export interface StoredMcpServer {
  readonly key: string;
  /** As it would stand in `mcpServers`; what another version or somebody by hand wrote may be of any form. */
  readonly entry?: unknown;
  /** Said by an operator, over what the entry says. */
  readonly enabled?: boolean;
  /** How it talks, found out once. */
  readonly verdict?: object;
  /** What it offered when it was last seen. */
  readonly catalogue?: object;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** A part that is undefined stays as it is; null takes it away. */
interface McpServerChange {
  readonly entry?: object | null;
  readonly enabled?: boolean | null;
  readonly verdict?: object | null;
  readonly catalogue?: object | null;
}

export interface StoredMcpTool {
  readonly server: string;
  /** The name that the server gives it. */
  readonly name: string;
  /** The definition that was agreed to; the text that stands there when it is no JSON. */
  readonly approved?: unknown;
  /** The definition that it has changed to since, and that nobody has agreed to. */
  readonly pending?: object;
  readonly approvedAt?: number;
  readonly approvedBy?: string;
  readonly override?: ToolOverride;
}

/** A part that is undefined stays as it is; null takes it away. */
export interface McpToolChange {
  readonly approved?: { readonly definition: object; readonly at: number; readonly by: string };
  readonly pending?: object | null;
  readonly override?: ToolOverride | null;
}

/** A name of the rack that a server once had for something of its own. */
export interface ClaimedName {
  /** In lower case: names that differ by case only are one. */
  readonly name: string;
  readonly server: string;
}

/**
 * Whatever changes what other processes on the same store do with a server counts as a new version of the registry: its
 * entry, its switch, what was agreed to and said about its tools, its names. What a process only learnt does not, nor what
 * was there before.
 */
export interface McpServerStore {
  /** By key, without what was learnt about them: `verdict` and `catalogue`. */
  list(): Promise<StoredMcpServer[]>;
  get(key: string): Promise<StoredMcpServer | undefined>;
  /** A new one, as its entry says. False where there is an entry already, which stays as it is. */
  add(key: string, entry: object): Promise<boolean>;
  /** Makes the row when there is none. */
  put(key: string, change: McpServerChange): Promise<void>;
  /** With everything that is kept about its tools but their names. Says whether there was such a server. */
  remove(key: string): Promise<boolean>;
  /** By name. */
  tools(server: string): Promise<StoredMcpTool[]>;
  /** Makes the row when there is none. */
  putTool(server: string, name: string, change: McpToolChange): Promise<void>;
  /** Those of servers that were removed too. */
  names(): Promise<ClaimedName[]>;
  /** Another than before when there are new ones: none is ever taken away. */
  countNames(): Promise<number>;
  /** Adds to those that the server has. */
  claimNames(server: string, names: readonly string[]): Promise<void>;
  /** Counts a version for something about a server that is kept elsewhere. */
  tellOthers(): Promise<void>;
}

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

/**
 * What somebody decided is handed on as it stands where it is no JSON, so that it can be shown and mended. What was only
 * learnt is learnt again.
 */
function toStoredServer(row: McpServerRow): StoredMcpServer {
  const entry = jsonOrText(row.entry);
  const verdict = jsonOrNothing<object>(row.verdict);
  const catalogue = jsonOrNothing<object>(row.catalogue);
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

function toStoredTool(server: string, row: McpToolRow): StoredMcpTool {
  const approved = jsonOrText(row.approved);
  const pending = jsonOrNothing<object>(row.pending);
  const override = jsonOrNothing<object>(row.override);
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

function jsonOrText(column: string | null): unknown {
  try {
    return fromJson<unknown>(column);
  } catch {
    return column;
  }
}

function jsonOrNothing<Value>(column: string | null): Value | undefined {
  try {
    return fromJson<Value>(column);
  } catch {
    return undefined;
  }
}

/** The tables of upstream MCP servers as queries see them. */
export interface McpServerTables {
  mcp_servers: McpServerRow;
  mcp_tools: McpToolRow;
  mcp_names: McpNameRow;
}

interface McpServerRow {
  server_key: string;
  enabled: number | null;
  created_at: number;
  updated_at: number;
  entry: string | null;
  verdict: string | null;
  catalogue: string | null;
}

interface McpToolRow {
  server_key: string;
  tool_key: string;
  approved_at: number | null;
  approved_by: string | null;
  name: string;
  approved: string | null;
  pending: string | null;
  override: string | null;
}

interface McpNameRow {
  name_key: string;
  server_key: string;
}
