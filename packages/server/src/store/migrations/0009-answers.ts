import { type Kysely, sql } from "kysely";
import type { Engine } from "../database.ts";
import { columnTypes } from "../schema.ts";
import { addColumn } from "./migrate.ts";

/** What an answer means for calls to come. */
export async function addAnswers(db: Kysely<unknown>, engine: Engine): Promise<void> {
  // The rule that the answer to a question became; it is known also after the rule was taken back.
  await addColumn(db, "approvals", "rule", columnTypes(engine).text);
  // Whether a rule speaks only of calls that have no other arguments; older rules never do.
  await addColumn(db, "approval_rules", "exact", sql`integer`);
}
