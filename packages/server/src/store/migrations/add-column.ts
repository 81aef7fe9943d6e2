import type { Kysely, RawBuilder } from "kysely";

/** It may be there already where a step that failed half-way could not be undone. */
export async function addColumn(
  db: Kysely<unknown>,
  table: string,
  column: string,
  type: RawBuilder<unknown>,
): Promise<void> {
  await db.schema
    .alterTable(table)
    .addColumn(column, type)
    .execute()
    .catch((error: { code?: unknown }) => {
      if (error.code !== "ER_DUP_FIELDNAME") throw error;
    });
}
