import { type Kysely, sql } from "kysely";
import type { Engine } from "../database.ts";
import { columnTypes, withTableOptions } from "../schema.ts";
import { addColumn } from "./migrate.ts";

/** Decisions about tools that outlive the process; rules of one caller; when a schedule ended. */
export async function createSwitches(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const { key, whole } = columnTypes(engine);
  const switches = db.schema
    .createTable("tool_switches")
    .ifNotExists()
    // In lower case: names that differ by case only are one.
    .addColumn("name_key", key, (column) => column.primaryKey())
    .addColumn("tool_name", key, (column) => column.notNull())
    .addColumn("enabled", "integer", (column) => column.notNull())
    .addColumn("switched_by", key, (column) => column.notNull())
    .addColumn("switched_at", whole, (column) => column.notNull());
  await withTableOptions(switches, engine).execute();

  // Only for calls of this caller; for all of them when there is none.
  await addColumn(db, "approval_rules", "caller", key);
  await addColumn(db, "schedules", "ended_at", whole);
  const ended = sql`update schedules set ended_at = coalesce(last_run_at, created_at)
    where state <> 'active' and ended_at is null`;
  await ended.execute(db);
}
