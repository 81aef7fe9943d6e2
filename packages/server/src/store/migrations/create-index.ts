import { type Kysely, sql } from "kysely";
import type { Engine } from "../database/engine.ts";

/**
 * Makes an index that may be there already; MySQL has no words for that, only an error. `sparse` leaves out rows without
 * a value where the engine can, so that they cost nothing to write.
 */
export async function createIndex(
  db: Kysely<unknown>,
  engine: Engine,
  name: string,
  table: string,
  columns: readonly string[],
  { sparse }: { readonly sparse?: string } = {},
): Promise<void> {
  const index = db.schema
    .createIndex(name)
    .on(table)
    .columns([...columns]);
  if (engine !== "mysql") {
    const named = index.ifNotExists();
    await (sparse === undefined ? named : named.where(sql.ref(sparse), "is not", null)).execute();
    return;
  }
  await index.execute().catch((error: { code?: unknown }) => {
    if (error.code !== "ER_DUP_KEYNAME") throw error;
  });
}
