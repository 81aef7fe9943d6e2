import type { Kysely } from "kysely";
import type { Engine } from "../database.ts";
import { columnTypes, withTableOptions } from "../schema.ts";

/** Which server had which names on the rack, so that none of them silently becomes that of another server. */
export async function createMcpNames(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const { key, code } = columnTypes(engine);
  const names = db.schema
    .createTable("mcp_names")
    .ifNotExists()
    // In lower case: names that differ by case only are one.
    .addColumn("name_key", code, (column) => column.notNull())
    .addColumn("server_key", key, (column) => column.notNull())
    .addPrimaryKeyConstraint("mcp_names_key", ["name_key", "server_key"]);
  await withTableOptions(names, engine).execute();
}
