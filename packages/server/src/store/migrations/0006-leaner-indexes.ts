import { type Kysely, sql } from "kysely";
import type { Engine } from "../database.ts";

/**
 * Most calls are completed and many belong to no session. Nobody looks for them by that, so they need not be in the
 * indexes, which are half the cost of writing a call. MySQL has no such indexes and keeps those it has.
 */
export async function makeIndexesLeaner(db: Kysely<unknown>, engine: Engine): Promise<void> {
  if (engine === "mysql") return;
  await sql`drop index if exists calls_by_state`.execute(db);
  await sql`drop index if exists calls_by_session`.execute(db);
  // Queries repeat the conditions word by word: SQLite draws no conclusions.
  await sql`create index calls_by_state on calls (state, timestamp) where state <> 'completed'`.execute(db);
  await sql`create index calls_by_session on calls (session_id, timestamp) where session_id <> ''`.execute(
    db,
  );
}
