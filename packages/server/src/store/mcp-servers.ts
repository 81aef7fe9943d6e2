import { isDuplicateKey } from "./database-errors.ts";
import { toKey } from "./forms.ts";
import { changesRows, flag, key, looseJson, plain, RowMap } from "./rows.ts";
import type { McpServerRow, McpToolRow, StoreDatabase } from "./schema.ts";
import type { RegistryVersion } from "./versions.ts";

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
type McpServerChange = {
  readonly [Part in "entry" | "enabled" | "verdict" | "catalogue"]?: StoredMcpServer[Part] | null;
};

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
 * What somebody decided is handed on as it stands where it is no JSON, so that it can be shown and mended. What was only
 * learnt is learnt again.
 */
const decided = looseJson((value, written) => value ?? written);
const learnt = looseJson((value) => (typeof value === "object" && value !== null ? value : undefined));

const servers = new RowMap<StoredMcpServer, McpServerRow>({
  key: key("server_key"),
  entry: decided,
  enabled: flag(),
  verdict: learnt,
  catalogue: learnt,
  createdAt: plain(),
  updatedAt: plain(),
});

const tools = new RowMap<StoredMcpTool, Omit<McpToolRow, "tool_key">>({
  server: key("server_key"),
  name: plain(),
  approved: decided,
  pending: learnt,
  approvedAt: plain(),
  approvedBy: key(),
  override: learnt,
});

/** Names that are written at once. */
const MOST_NAMES = 200;

/**
 * Whatever changes what other processes on the same store do with a server counts as a new version of the registry: its
 * entry, its switch, what was agreed to and said about its tools, its names. What a process only learnt does not, nor what
 * was there before.
 */
export class McpServerRepository {
  readonly #db: StoreDatabase;
  readonly #version: RegistryVersion;

  constructor(db: StoreDatabase, version: RegistryVersion) {
    this.#db = db;
    this.#version = version;
  }

  /** By key, without what was learnt about them: `verdict` and `catalogue`. */
  async list(): Promise<StoredMcpServer[]> {
    const all = this.#db
      .selectFrom("mcp_servers")
      .select(["server_key", "enabled", "created_at", "updated_at", "entry"]);
    const rows = await all.orderBy("server_key").execute();
    return rows.map((row) => servers.toRecord({ ...row, verdict: null, catalogue: null }));
  }

  async get(key: string): Promise<StoredMcpServer | undefined> {
    const found = this.#db.selectFrom("mcp_servers").selectAll().where("server_key", "=", toKey(key));
    const row = await found.executeTakeFirst();
    return row && servers.toRecord(row);
  }

  /** A new one, as its entry says. False where there is an entry already, which stays as it is. */
  async add(key: string, entry: object): Promise<boolean> {
    return this.#write(
      async (db) => {
        // Something may have been learnt about it, or said of one with this key in a file.
        const found = db.selectFrom("mcp_servers").select("entry").where("server_key", "=", toKey(key));
        const change = { entry, enabled: null };
        if ((await found.executeTakeFirst()) !== undefined) {
          return changesRows(updatedServer(db, key, change).where("entry", "is", null));
        }
        await insertServer(db, key, change);
        return true;
      },
      (isAdded) => isAdded,
    );
  }

  /** Makes the row when there is none. */
  async put(key: string, change: McpServerChange): Promise<void> {
    const isForOthers = change.entry !== undefined || change.enabled !== undefined;
    await this.#write(
      async (db) => {
        if (!(await changesRows(updatedServer(db, key, change)))) await insertServer(db, key, change);
      },
      () => isForOthers,
    );
  }

  /** With everything that is kept about its tools but their names. Says whether there was such a server. */
  remove(key: string): Promise<boolean> {
    return this.#write(async (db) => {
      await db.deleteFrom("mcp_tools").where("server_key", "=", toKey(key)).execute();
      return changesRows(db.deleteFrom("mcp_servers").where("server_key", "=", toKey(key)));
    });
  }

  /** By name. */
  async tools(server: string): Promise<StoredMcpTool[]> {
    const found = this.#db.selectFrom("mcp_tools").selectAll().where("server_key", "=", toKey(server));
    return (await found.orderBy("tool_key").execute()).map((row) => ({ ...tools.toRecord(row), server }));
  }

  /** Makes the row when there is none. */
  async putTool(server: string, name: string, { approved, pending, override }: McpToolChange): Promise<void> {
    const columns = tools.toChanges({
      approved: approved?.definition,
      approvedAt: approved?.at,
      approvedBy: approved?.by,
      pending,
      override,
    });
    const tool_key = toKey(name);
    await this.#write(
      async (db) => {
        const row = db.updateTable("mcp_tools").set({ name, ...columns });
        const own = row.where("server_key", "=", toKey(server)).where("tool_key", "=", tool_key);
        if (await changesRows(own)) return;
        const fresh = { ...tools.toRow({ server, name }), tool_key, ...columns };
        await db.insertInto("mcp_tools").values(fresh).execute();
      },
      () => approved !== undefined || override !== undefined,
    );
  }

  /** Those of servers that were removed too. */
  async names(): Promise<ClaimedName[]> {
    return this.#db.selectFrom("mcp_names").select(["name_key as name", "server_key as server"]).execute();
  }

  /** Another than before when there are new ones: none is ever taken away. */
  async countNames(): Promise<number> {
    const counted = this.#db.selectFrom("mcp_names").select(({ fn }) => fn.countAll().as("count"));
    return Number((await counted.executeTakeFirstOrThrow()).count);
  }

  /** Adds to those that the server has. */
  async claimNames(server: string, names: readonly string[]): Promise<void> {
    const server_key = toKey(server);
    await this.#write(
      async (db) => {
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
        return fresh.length;
      },
      (added) => added > 0,
    );
  }

  /** Counts a version for something about a server that is kept elsewhere. */
  async tellOthers(): Promise<void> {
    await this.#version.bump();
  }

  /** All or nothing, and counted for other processes unless it is not for them. */
  async #write<Result>(
    edit: (db: StoreDatabase) => Promise<Result>,
    isForOthers?: (result: Result) => boolean,
  ): Promise<Result> {
    try {
      return await this.#version.change(edit, isForOthers);
    } catch (error) {
      // Somebody else has made the row in between.
      if (!isDuplicateKey(error)) throw error;
      return this.#version.change(edit, isForOthers);
    }
  }
}

/** What others need of it. */
export type McpServerStore = Pick<McpServerRepository, keyof McpServerRepository>;

function updatedServer(db: StoreDatabase, key: string, change: McpServerChange) {
  const columns = servers.toChanges({ ...change, updatedAt: Date.now() });
  return db.updateTable("mcp_servers").set(columns).where("server_key", "=", toKey(key));
}

async function insertServer(db: StoreDatabase, key: string, change: McpServerChange): Promise<void> {
  const now = Date.now();
  const row = { ...servers.toRow({ key, createdAt: now, updatedAt: now }), ...servers.toChanges(change) };
  await db.insertInto("mcp_servers").values(row).execute();
}
