import { type Kysely, sql } from "kysely";
import type { Engine } from "../database.ts";
import { columnTypes, withTableOptions } from "../schema.ts";
import { createIndex } from "./migrate.ts";

export async function createFirstTables(db: Kysely<unknown>, engine: Engine): Promise<void> {
  await createCalls(db, engine);
  await createApprovals(db, engine);
  await createSmallTables(db, engine);
}

async function createCalls(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const { key, code, text, whole, real } = columnTypes(engine);
  const calls = db.schema
    .createTable("calls")
    .ifNotExists()
    .addColumn("call_id", key, (column) => column.primaryKey())
    .addColumn("parent_call_id", key)
    .addColumn("replay_of", key)
    .addColumn("tool_name", key, (column) => column.notNull())
    .addColumn("display_name", key, (column) => column.notNull())
    .addColumn("session_id", key, (column) => column.notNull())
    .addColumn("message_id", key, (column) => column.notNull())
    .addColumn("caller", key, (column) => column.notNull())
    .addColumn("tid", key)
    .addColumn("depth", "integer", (column) => column.notNull())
    .addColumn("state", code, (column) => column.notNull())
    .addColumn("timestamp", whole, (column) => column.notNull())
    .addColumn("duration", real)
    .addColumn("run_duration", real)
    // The process that runs or ran it: see `Instance`.
    .addColumn("instance", code, (column) => column.notNull())
    // Bytes of the row's texts and of its blobs, for retention by size.
    .addColumn("size", whole, (column) => column.notNull())
    .addColumn("result_type", code, (column) => column.notNull())
    // Characters of the whole text of the result, also when the row holds a part of it.
    .addColumn("result_size", whole, (column) => column.notNull())
    // Names of blobs: the whole text, and everything else of the result.
    .addColumn("result_blob", code)
    .addColumn("more_blob", code)
    .addColumn("parameters_hash", code, (column) => column.notNull())
    // The long texts come last: SQLite reads a row from its beginning. All but the result's are JSON.
    .addColumn("flags", text)
    .addColumn("parameters", text, (column) => column.notNull())
    .addColumn("error", text)
    .addColumn("result_text", text, (column) => column.notNull())
    // What a result has besides its text: structured value, attachments, blocks, metadata.
    .addColumn("more", text)
    .addCheckConstraint(
      "calls_state",
      sql`state in ('pending', 'running', 'completed', 'error', 'interrupted')`,
    );
  await withTableOptions(calls, engine).execute();
  await createIndex(db, engine, "calls_by_time", "calls", ["timestamp", "call_id"]);
  await createIndex(db, engine, "calls_by_session", "calls", ["session_id", "timestamp"]);
  await createIndex(db, engine, "calls_by_tool", "calls", ["tool_name", "timestamp"]);
  await createIndex(db, engine, "calls_by_state", "calls", ["state", "timestamp"]);
  await createIndex(db, engine, "calls_by_parent", "calls", ["parent_call_id"], { sparse: "parent_call_id" });

  const instances = db.schema
    .createTable("instances")
    .ifNotExists()
    .addColumn("id", code, (column) => column.primaryKey())
    .addColumn("heartbeat_at", whole, (column) => column.notNull());
  await withTableOptions(instances, engine).execute();
}

async function createApprovals(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const { key, code, text, whole } = columnTypes(engine);
  const approvals = db.schema
    .createTable("approvals")
    .ifNotExists()
    .addColumn("id", code, (column) => column.primaryKey())
    .addColumn("call_id", key, (column) => column.notNull())
    .addColumn("parent_call_id", key)
    .addColumn("tool_name", key, (column) => column.notNull())
    .addColumn("display_name", key, (column) => column.notNull())
    .addColumn("session_id", key, (column) => column.notNull())
    .addColumn("caller", key, (column) => column.notNull())
    .addColumn("dangerous", "integer", (column) => column.notNull())
    .addColumn("state", code, (column) => column.notNull())
    .addColumn("created_at", whole, (column) => column.notNull())
    .addColumn("expires_at", whole, (column) => column.notNull())
    .addColumn("decided_at", whole)
    .addColumn("decided_by", key)
    .addColumn("message", text, (column) => column.notNull())
    .addColumn("input", text, (column) => column.notNull())
    .addColumn("details", text)
    .addColumn("reason", text)
    // The arguments as the person who agreed changed them.
    .addColumn("edited_input", text)
    .addCheckConstraint("approvals_state", sql`state in ('pending', 'allowed', 'denied', 'expired')`);
  await withTableOptions(approvals, engine).execute();
  await createIndex(db, engine, "approvals_by_state", "approvals", ["state", "created_at", "id"]);
  await createIndex(db, engine, "approvals_by_call", "approvals", ["call_id"]);

  const rules = db.schema
    .createTable("approval_rules")
    .ifNotExists()
    .addColumn("id", code, (column) => column.primaryKey())
    // A glob over names of tools.
    .addColumn("tool", key, (column) => column.notNull())
    .addColumn("decision", code, (column) => column.notNull())
    // Only for this session; for all of them when there is none.
    .addColumn("session_id", key)
    .addColumn("created_by", key, (column) => column.notNull())
    .addColumn("created_at", whole, (column) => column.notNull())
    // Which arguments it is for; any when there is none.
    .addColumn("input", text)
    .addCheckConstraint("approval_rules_decision", sql`decision in ('allow', 'ask', 'deny')`);
  await withTableOptions(rules, engine).execute();
}

async function createSmallTables(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const { key, code, text, whole } = columnTypes(engine);
  const tokens = db.schema
    .createTable("tokens")
    .ifNotExists()
    .addColumn("id", code, (column) => column.primaryKey())
    .addColumn("name", key, (column) => column.notNull())
    .addColumn("hash", key, (column) => column.notNull().unique())
    .addColumn("scopes", text, (column) => column.notNull())
    .addColumn("created_at", whole, (column) => column.notNull())
    .addColumn("last_used_at", whole)
    .addColumn("expires_at", whole);
  await withTableOptions(tokens, engine).execute();

  const secrets = db.schema
    .createTable("secrets")
    .ifNotExists()
    .addColumn("name", key, (column) => column.primaryKey())
    // Encrypted before it comes here.
    .addColumn("value", text, (column) => column.notNull())
    .addColumn("created_at", whole, (column) => column.notNull())
    .addColumn("updated_at", whole, (column) => column.notNull());
  await withTableOptions(secrets, engine).execute();

  const schedules = db.schema
    .createTable("schedules")
    .ifNotExists()
    .addColumn("id", code, (column) => column.primaryKey())
    .addColumn("tool_name", key, (column) => column.notNull())
    .addColumn("caller", key, (column) => column.notNull())
    .addColumn("state", code, (column) => column.notNull())
    .addColumn("next_run_at", whole)
    .addColumn("last_run_at", whole)
    .addColumn("last_call_id", key)
    .addColumn("runs", whole, (column) => column.notNull())
    .addColumn("missed", code, (column) => column.notNull())
    .addColumn("created_at", whole, (column) => column.notNull())
    .addColumn("timing", text, (column) => column.notNull())
    .addColumn("input", text, (column) => column.notNull())
    .addCheckConstraint("schedules_state", sql`state in ('active', 'finished', 'cancelled')`)
    .addCheckConstraint("schedules_missed", sql`missed in ('run', 'skip')`);
  await withTableOptions(schedules, engine).execute();
  await createIndex(db, engine, "schedules_by_next_run", "schedules", ["state", "next_run_at"]);

  const version = db.schema
    .createTable("registry_version")
    .ifNotExists()
    .addColumn("id", "integer", (column) => column.primaryKey())
    .addColumn("version", whole, (column) => column.notNull());
  await withTableOptions(version, engine).execute();
  // There is one row, here from the beginning, so that counting never has to ask whether it is.
  await sql`insert into registry_version (id, version)
    select 1, 0 from (select count(*) as n from registry_version) as found where found.n = 0`.execute(db);
}
