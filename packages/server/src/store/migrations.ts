import { type Kysely, sql } from "kysely";
import { type Migration, Migrator } from "kysely/migration";
import type { Engine } from "./schema.ts";
import { SchemaChanges } from "./schema-changes.ts";

/**
 * A step runs once for each database, in the order of the names, and never changes after a release. MySQL cannot undo a
 * step that failed half-way, so each step can be run again over its own beginnings.
 */
type MigrationStep = (changes: SchemaChanges) => Promise<void>;

/** The database remembers the steps by these names. */
export const migrationSteps: Readonly<Record<string, MigrationStep>> = {
  async "0001_first_tables"({ createTable, createIndex, run }) {
    await createTable("calls")`
      call_id key primary key, parent_call_id key, replay_of key, tool_name key not null,
      display_name key not null, session_id key not null, message_id key not null,
      caller key not null, tid key, depth integer not null, state code not null,
      timestamp whole not null, duration real, run_duration real,
      -- The process that runs or ran it: see the class Instance.
      instance code not null,
      -- Bytes of the row's texts and of its blobs, for retention by size.
      size whole not null, result_type code not null,
      -- Characters of the whole text of the result, also when the row holds a part of it.
      result_size whole not null,
      -- Names of blobs: the whole text, and everything else of the result.
      result_blob code, more_blob code, parameters_hash code not null,
      -- The long texts come last: SQLite reads a row from its beginning. All but the result's are JSON.
      flags text, parameters text not null, error text, result_text text not null,
      -- What a result has besides its text: structured value, attachments, blocks, metadata.
      more text,
      constraint calls_state check (state in ('pending', 'running', 'completed', 'error', 'interrupted'))
    `;
    await createIndex("calls_by_time", "calls", ["timestamp", "call_id"]);
    await createIndex("calls_by_session", "calls", ["session_id", "timestamp"]);
    await createIndex("calls_by_tool", "calls", ["tool_name", "timestamp"]);
    await createIndex("calls_by_state", "calls", ["state", "timestamp"]);
    await createIndex("calls_by_parent", "calls", ["parent_call_id"], { sparse: "parent_call_id" });
    await createTable("instances")`id code primary key, heartbeat_at whole not null`;

    await createTable("approvals")`
      id code primary key, call_id key not null, parent_call_id key, tool_name key not null,
      display_name key not null, session_id key not null, caller key not null,
      dangerous integer not null, state code not null, created_at whole not null,
      expires_at whole not null, decided_at whole, decided_by key, message text not null,
      input text not null, details text, reason text,
      -- The arguments as the person who agreed changed them.
      edited_input text,
      constraint approvals_state check (state in ('pending', 'allowed', 'denied', 'expired'))
    `;
    await createIndex("approvals_by_state", "approvals", ["state", "created_at", "id"]);
    await createIndex("approvals_by_call", "approvals", ["call_id"]);
    await createTable("approval_rules")`
      id code primary key,
      -- A glob over names of tools.
      tool key not null, decision code not null,
      -- Only for this session; for all of them when there is none.
      session_id key, created_by key not null, created_at whole not null,
      -- Which arguments it is for; any when there is none.
      input text,
      constraint approval_rules_decision check (decision in ('allow', 'ask', 'deny'))
    `;

    await createTable("tokens")`
      id code primary key, name key not null, hash key not null unique, scopes text not null,
      created_at whole not null, last_used_at whole, expires_at whole
    `;
    await createTable("secrets")`
      name key primary key,
      -- Encrypted before it comes here.
      value text not null, created_at whole not null, updated_at whole not null
    `;
    await createTable("schedules")`
      id code primary key, tool_name key not null, caller key not null, state code not null,
      next_run_at whole, last_run_at whole, last_call_id key, runs whole not null,
      missed code not null, created_at whole not null, timing text not null, input text not null,
      constraint schedules_state check (state in ('active', 'finished', 'cancelled')),
      constraint schedules_missed check (missed in ('run', 'skip'))
    `;
    await createIndex("schedules_by_next_run", "schedules", ["state", "next_run_at"]);
    await createTable("registry_version")`id integer primary key, version whole not null`;
    // The only row exists from the start, so that counting is always an update.
    await run(sql`insert into registry_version (id, version)
    select 1, 0 from (select count(*) as n from registry_version) as found where found.n = 0`);
  },

  async "0002_skills"({ createTable, createIndex }) {
    await createTable("skills")`
      id code primary key, name key not null, mark code, enabled integer not null,
      -- 0 for what came from elsewhere: its scripts have no network, its tools no secrets.
      trusted integer not null, created_at whole not null, updated_at whole not null,
      source_path text, description text not null,
      -- JSON: what a SKILL.md says of the skill beside its name and description.
      front_matter text not null, skill_md text not null,
      constraint skills_name unique (name),
      constraint skills_mark unique (mark)
    `;
    await createTable("skill_tools")`
      -- The name that models are given.
      id code primary key, skill_id code not null, name key not null, type code not null,
      method code, enabled integer not null, position integer not null, created_at whole not null,
      updated_at whole not null, display_name text, command text, endpoint text,
      description text not null, usage text not null,
      constraint skill_tools_name unique (skill_id, name),
      constraint skill_tools_type check (type in ('http', 'script', 'builtin'))
    `;
    await createTable("skill_files")`
      skill_id code not null, path key not null, executable integer not null,
      -- Base64.
      content text not null,
      constraint skill_files_key primary key (skill_id, path)
    `;
    await createTable("experts")`
      id code primary key, name key not null,
      -- In lower case: names that differ by case only are one.
      name_key key not null, created_at whole not null, updated_at whole not null,
      description text not null, instructions text not null,
      -- JSON: patterns over the names of tools.
      tools text not null,
      constraint experts_name unique (name_key)
    `;
    await createTable("expert_skills")`
      expert_id code not null,
      -- A row of the table skills, or a skill that lives in a folder and has no row.
      skill_id code not null, position integer not null,
      constraint expert_skills_key primary key (expert_id, skill_id)
    `;
    await createIndex("expert_skills_by_skill", "expert_skills", ["skill_id"]);
  },

  async "0003_switches"({ createTable, addColumn, run }) {
    await createTable("tool_switches")`
      -- In lower case: names that differ by case only are one.
      name_key key primary key, tool_name key not null, enabled integer not null,
      switched_by key not null, switched_at whole not null
    `;
    // Null: the rule is for all callers.
    await addColumn("approval_rules", "caller", "key");
    await addColumn("schedules", "ended_at", "whole");
    await run(sql`update schedules set ended_at = coalesce(last_run_at, created_at)
    where state <> 'active' and ended_at is null`);
  },

  async "0004_mcp_servers"({ createTable }) {
    await createTable("mcp_servers")`
      server_key key primary key,
      -- What an operator said; the entry's own word holds when it is empty.
      enabled integer, created_at whole not null, updated_at whole not null,
      -- JSON. Empty for a server that a file names.
      entry text,
      -- JSON: how the server talks, found out once.
      verdict text,
      -- JSON: what it offered when it was last seen.
      catalogue text
    `;
    await createTable("mcp_tools")`
      server_key key not null, tool_key key not null, approved_at whole, approved_by key,
      -- The name that the server gives it, of any length.
      name text not null,
      -- JSON: the definition that was agreed to, and the one that it has changed to since.
      approved text, pending text,
      -- JSON: what an operator said about it.
      override text,
      constraint mcp_tools_key primary key (server_key, tool_key)
    `;
  },

  /** At which stage a question is asked, and which process waits for the answer. */
  async "0005_live_questions"({ addColumn }) {
    // `before` or `during` a run; null in older rows means `before`.
    await addColumn("approvals", "stage", "key");
    await addColumn("approvals", "instance", "key");
    // Whether the call can be made anew when its process died while the question waited.
    await addColumn("approvals", "resumable", "integer");
  },

  /**
   * Most calls are completed and many have no session. Nobody looks for these by state or session, so the indexes leave
   * them out: indexes are half the cost of writing a call. MySQL has no partial indexes and keeps the full ones.
   */
  async "0006_leaner_indexes"({ engine, run }) {
    if (engine === "mysql") return;
    await run(sql`drop index if exists calls_by_state`);
    await run(sql`drop index if exists calls_by_session`);
    // Queries must repeat these conditions literally, or SQLite does not use the index.
    await run(sql`create index calls_by_state on calls (state, timestamp) where state <> 'completed'`);
    await run(sql`create index calls_by_session on calls (session_id, timestamp) where session_id <> ''`);
  },

  /** Conversations with models. */
  async "0007_chat"({ createTable, createIndex }) {
    await createTable("chat_sessions")`
      id code primary key, owner key not null, model key not null, expert key,
      created_at whole not null, updated_at whole not null,
      -- The message that is being answered, and the process that does it. Empty while nothing happens.
      turn code, instance code, title text not null,
      -- JSON
      state text not null
    `;
    await createIndex("chat_sessions_by_owner", "chat_sessions", ["owner", "updated_at", "id"]);
    await createIndex("chat_sessions_by_turn", "chat_sessions", ["turn"], { sparse: "turn" });
    await createTable("chat_messages")`
      id code primary key, session_id code not null, position integer not null,
      role code not null, status code not null, created_at whole not null,
      updated_at whole not null,
      -- JSON: what was said, and what was done
      body text not null
    `;
    await createIndex("chat_messages_of_session", "chat_messages", ["session_id", "position"]);
    await createTable("chat_handoffs")`
      id code primary key, owner key not null, session_id code not null,
      created_at whole not null,
      -- JSON: messages that the client has not seen
      messages text not null
    `;
  },

  /** Operators write rows by hand with a database client: columns that they leave out get a default. */
  async "0008_rows_by_hand"({ relaxColumns, addColumn }) {
    const times = { created_at: 0, updated_at: 0 };
    await relaxColumns("skills", { enabled: 1, trusted: 1, ...times }, [
      "description",
      "front_matter",
      "skill_md",
    ]);
    await relaxColumns("skill_tools", { enabled: 1, position: 0, ...times }, [
      "type",
      "description",
      "usage",
    ]);
    await relaxColumns("skill_files", { executable: 0 }, []);
    await relaxColumns("experts", times, ["name_key", "description", "instructions", "tools"]);
    await relaxColumns("expert_skills", { position: 0 }, []);
    await addColumn("skills", "front_matter_text", "text");
  },

  /** What an answer means for later calls. */
  async "0009_answers"({ addColumn }) {
    // The rule that the answer created; kept also after the rule was removed.
    await addColumn("approvals", "rule", "text");
    // Whether a rule is only for calls without other arguments; null in older rules means no.
    await addColumn("approval_rules", "exact", "integer");
  },

  /** A tool's log lines, and how long the rack worked on its result. */
  async "0010_call_log"({ addColumn }) {
    // JSON of bounded size; null for the many calls without log lines.
    await addColumn("calls", "log", "text");
    // The last part of `run_duration`; null in older rows.
    await addColumn("calls", "after_duration", "real");
  },

  /** Which server had which names on the rack, so that no name silently passes to another server. */
  async "0011_mcp_names"({ createTable }) {
    await createTable("mcp_names")`
      -- In lower case: names that differ by case only are one.
      name_key code not null, server_key key not null,
      constraint mcp_names_key primary key (name_key, server_key)
    `;
  },
};

const TABLE = "toolrack_migrations";

/**
 * Brings the database to this version's tables, one process at a time. Throws for a database that a newer version has
 * changed.
 */
export async function migrate<Tables>(opened: Kysely<Tables>, engine: Engine): Promise<void> {
  // The tables of the type are only created here.
  const db = opened as unknown as Kysely<unknown>;
  const done = await executedSteps(db);
  if (done !== undefined) {
    refuseNewer(done);
    // Almost every start returns here, without the slow query for the list of tables.
    if (done.length === Object.keys(migrationSteps).length) return;
  }
  const migrator = new Migrator({
    db,
    migrationTableName: TABLE,
    migrationLockTableName: `${TABLE}_lock`,
    provider: { getMigrations: async () => toMigrations(engine) },
  });
  const { error } = await migrator.migrateToLatest();
  if (error === undefined) return;
  // A newer version may have migrated at the same moment.
  refuseNewer((await executedSteps(db)) ?? []);
  throw error;
}

/** Undefined when the database has never been migrated. */
async function executedSteps(db: Kysely<unknown>): Promise<string[] | undefined> {
  try {
    const { rows } = await sql<{ name: string }>`select name from ${sql.table(TABLE)}`.execute(db);
    return rows.map(({ name }) => name);
  } catch (error) {
    if (isMissingTable(error)) return undefined;
    throw error;
  }
}

function isMissingTable(error: unknown): boolean {
  const { code, message } = error as { code?: unknown; message?: unknown }; // Anything thrown may have these.
  // SQLite has no error code for a missing table.
  return code === "42P01" || code === "ER_NO_SUCH_TABLE" || /no such table/.test(String(message));
}

function refuseNewer(done: readonly string[]): void {
  const unknown = done.filter((name) => !Object.hasOwn(migrationSteps, name));
  if (unknown.length === 0) return;
  throw new Error(
    `The database was last used by a newer version of Toolrack (it has ${unknown.join(", ")}, which this version does not know). Run that version, or use another database.`,
  );
}

function toMigrations(engine: Engine): Record<string, Migration> {
  return Object.fromEntries(
    Object.entries(migrationSteps).map(([name, step]) => [
      name,
      { up: (db: Kysely<unknown>) => step(new SchemaChanges(db, engine)) },
    ]),
  );
}
