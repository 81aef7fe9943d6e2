import type { Kysely } from "kysely";
import type { Engine } from "../database.ts";
import { columnTypes } from "../schema.ts";
import { addColumn } from "./migrate.ts";

/** What a tool said while it ran, and how long the rack worked on its result. */
export async function addCallLog(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const { text, real } = columnTypes(engine);
  // JSON, bounded by whoever gathers it; null for the many calls that said nothing.
  await addColumn(db, "calls", "log", text);
  // The last part of `run_duration`; null in older rows.
  await addColumn(db, "calls", "after_duration", real);
}
