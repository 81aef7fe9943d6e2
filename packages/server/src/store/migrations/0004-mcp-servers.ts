import type { Kysely } from "kysely";
import type { Engine } from "../database.ts";
import { columnTypes, withTableOptions } from "../schema.ts";

export async function createMcpServerTables(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const { key, text, whole } = columnTypes(engine);
  const servers = db.schema
    .createTable("mcp_servers")
    .ifNotExists()
    .addColumn("server_key", key, (column) => column.primaryKey())
    // What an operator said; the entry's own word holds when it is empty.
    .addColumn("enabled", "integer")
    .addColumn("created_at", whole, (column) => column.notNull())
    .addColumn("updated_at", whole, (column) => column.notNull())
    // JSON. Empty for a server that a file names.
    .addColumn("entry", text)
    // JSON: how the server talks, found out once.
    .addColumn("verdict", text)
    // JSON: what it offered when it was last seen.
    .addColumn("catalogue", text);
  await withTableOptions(servers, engine).execute();

  const tools = db.schema
    .createTable("mcp_tools")
    .ifNotExists()
    .addColumn("server_key", key, (column) => column.notNull())
    .addColumn("tool_key", key, (column) => column.notNull())
    .addColumn("approved_at", whole)
    .addColumn("approved_by", key)
    // The name that the server gives it, of any length.
    .addColumn("name", text, (column) => column.notNull())
    // JSON: the definition that was agreed to, and the one that it has changed to since.
    .addColumn("approved", text)
    .addColumn("pending", text)
    // JSON: what an operator said about it.
    .addColumn("override", text)
    .addPrimaryKeyConstraint("mcp_tools_key", ["server_key", "tool_key"]);
  await withTableOptions(tools, engine).execute();
}
