import { type Kysely, sql } from "kysely";
import type { Engine } from "../database.ts";
import { columnTypes } from "../schema.ts";
import { addColumn } from "./migrate.ts";

/** What a question asks about, and which process waits for the answer. */
export async function addLiveQuestions(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const { key } = columnTypes(engine);
  // `before` or `during` a run; older questions are all of the first kind.
  await addColumn(db, "approvals", "stage", key);
  await addColumn(db, "approvals", "instance", key);
  // Whether the call can be made anew when its process died while the question waited.
  await addColumn(db, "approvals", "resumable", sql`integer`);
}
