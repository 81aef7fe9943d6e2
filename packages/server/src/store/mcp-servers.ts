import { unlessTaken } from "./database-errors.ts";
import { toKey } from "./keys.ts";
import { deleteRows, findRow, findRows, flag, key, looseJson, rowMap, updateRows } from "./row-mapping.ts";
import type { StoreDatabase } from "./schema.ts";
import type { RegistryVersion } from "./versions.ts";

/** An operator's changes to one tool of an upstream server. */
export interface ToolOverride {
  /** Replaces the last part of the tool's name on the rack. */
  readonly rename?: string;
  /** Replaces the tool's description. */
  readonly describe?: string;
}

/** The stored state of an upstream MCP server. A server that only a file names has no `entry`. */
export interface StoredMcpServer {
  readonly key: string;
  /**
   * The server's entry, as in `mcpServers` of `mcp.json`. Not checked: another version or a person may have
   * written it.
   */
  readonly entry?: unknown;
  /** An operator's choice, which wins over `enabled` in the entry. */
  readonly enabled?: boolean;
  /** Which protocol era and transport the server uses, found out once. */
  readonly verdict?: object;
  /** What the server offered when it was last seen. */
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
  /** The name that the server gives the tool. */
  readonly name: string;
  /** The definition that somebody approved. The raw text when the column is not JSON. */
  readonly approved?: unknown;
  /** The changed definition that nobody has approved yet. */
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

/** A name on the rack that a server has or once had. */
export interface ClaimedName {
  /** In lower case, because names do not differ by case. */
  readonly name: string;
  readonly server: string;
}

/**
 * `decidedJson`: a person's decision; when it is not JSON it is read as raw text, so that it can be shown and
 * mended. `learntJson`: what a process learnt from the server; when it is damaged it is dropped and learnt
 * again. A damaged override is dropped too.
 */
const decidedJson = looseJson((value, written) => value ?? written);
const learntJson = looseJson((value) => (typeof value === "object" && value !== null ? value : undefined));

const servers = rowMap<StoredMcpServer>()("mcp_servers", {
  key: key("server_key"),
  entry: decidedJson,
  enabled: flag(),
  verdict: learntJson,
  catalogue: learntJson,
});

const tools = rowMap<StoredMcpTool>()(
  "mcp_tools",
  { server: key("server_key"), approved: decidedJson, pending: learntJson, override: learntJson },
  ["tool_key"],
);

const MOST_NAMES = 200;

/**
 * Raises the registry's version for changes that other processes must follow: a server's entry, its switch,
 * approvals and overrides of its tools, its names. Values that a process only learnt, an `add` that was
 * refused, and names that were known already do not raise it.
 */
export class McpServerRepository {
  readonly #db: StoreDatabase;
  readonly #version: RegistryVersion;

  constructor(db: StoreDatabase, version: RegistryVersion) {
    this.#db = db;
    this.#version = version;
  }

  /** Ordered by key, without the learnt `verdict` and `catalogue`. */
  async list(): Promise<StoredMcpServer[]> {
    const all = this.#db
      .selectFrom("mcp_servers")
      .select(["server_key", "enabled", "created_at", "updated_at", "entry"]);
    const rows = await all.orderBy("server_key").execute();
    return rows.map((row) => servers.toRecord({ ...row, verdict: null, catalogue: null }));
  }

  async get(key: string): Promise<StoredMcpServer | undefined> {
    const row = await findRow(this.#db, "mcp_servers", { server_key: toKey(key) });
    return row && servers.toRecord(row);
  }

  /** Adds a server. False when the key has an entry already, which stays. */
  async add(key: string, entry: object): Promise<boolean> {
    return this.#write(
      async (db) => {
        // There may be a row without an entry: for a server of this key in a file.
        const change = { entry, enabled: null };
        const found = await findRow(db, "mcp_servers", { server_key: toKey(key) });
        if (found !== undefined) return updateServer(db, key, change, { entry: null });
        await insertServer(db, key, change);
        return true;
      },
      (isAdded) => isAdded,
    );
  }

  /** Changes the server's row, or inserts it when there is none. */
  async put(key: string, change: McpServerChange): Promise<void> {
    const isForOthers = change.entry !== undefined || change.enabled !== undefined;
    await this.#write(
      async (db) => {
        if (!(await updateServer(db, key, change))) await insertServer(db, key, change);
      },
      () => isForOthers,
    );
  }

  /** Removes the server and the rows of its tools; its names stay. False when there was no such server. */
  remove(key: string): Promise<boolean> {
    return this.#write(async (db) => {
      await deleteRows(db, "mcp_tools", { server_key: toKey(key) });
      return (await deleteRows(db, "mcp_servers", { server_key: toKey(key) })) > 0;
    });
  }

  /** Sorted by name. */
  async tools(server: string): Promise<StoredMcpTool[]> {
    const rows = await findRows(this.#db, "mcp_tools", { server_key: toKey(server) }, "tool_key");
    return rows.map((row) => ({ ...tools.toRecord(row), server }));
  }

  /** Changes the tool's row, or inserts it when there is none. */
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
        const own = { server_key: toKey(server), tool_key };
        if ((await updateRows(db, "mcp_tools", own, { name, ...columns })) > 0) return;
        const fresh = { ...tools.toRow({ server, name }), tool_key, ...columns };
        await db.insertInto("mcp_tools").values(fresh).execute();
      },
      () => approved !== undefined || override !== undefined,
    );
  }

  async names(): Promise<ClaimedName[]> {
    return this.#db.selectFrom("mcp_names").select(["name_key as name", "server_key as server"]).execute();
  }

  /** How many names there are. Names are never removed, so another number means that there are new ones. */
  async countNames(): Promise<number> {
    const counted = this.#db.selectFrom("mcp_names").select(({ fn }) => fn.countAll().as("count"));
    return Number((await counted.executeTakeFirstOrThrow()).count);
  }

  async claimNames(server: string, names: readonly string[]): Promise<void> {
    const server_key = toKey(server);
    await this.#write(
      async (db) => {
        const rows = await findRows(db, "mcp_names", { server_key });
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

  /** Raises the version after a change that is not in these tables: a sign-in to a server, or a sign-out. */
  async tellOthers(): Promise<void> {
    await this.#version.bump();
  }

  /** Edits in one transaction, which raises the version unless `isForOthers` returns false. */
  #write<Result>(
    edit: (db: StoreDatabase) => Promise<Result>,
    isForOthers?: (result: Result) => boolean,
  ): Promise<Result> {
    const write = () => this.#version.change(edit, isForOthers);
    return unlessTaken(write, write);
  }
}

export type McpServerStore = Pick<McpServerRepository, keyof McpServerRepository>;

/** False when there is no such row. */
async function updateServer(
  db: StoreDatabase,
  key: string,
  change: McpServerChange,
  only: { entry?: null } = {},
) {
  const columns = servers.toChanges({ ...change, updatedAt: Date.now() });
  return (await updateRows(db, "mcp_servers", { server_key: toKey(key), ...only }, columns)) > 0;
}

async function insertServer(db: StoreDatabase, key: string, change: McpServerChange): Promise<void> {
  const now = Date.now();
  const row = { ...servers.toRow({ key, createdAt: now, updatedAt: now }), ...servers.toChanges(change) };
  await db.insertInto("mcp_servers").values(row).execute();
}
