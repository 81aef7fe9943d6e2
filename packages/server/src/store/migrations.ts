import { type Kysely, sql } from "kysely";
import { type Migration, Migrator } from "kysely/migration";
import { type Engine, indexes, tables } from "./schema.ts";

/**
 * The steps that bring a database to this version's tables. The database records the name of each step that
 * was done. The first step creates the tables of `schema.ts`; a later one changes older databases and skips
 * what has been changed already, because MySQL cannot undo a step that failed half-way. Databases from before
 * the first release have eleven other steps on record, of which the last has the same number and leads to the
 * same tables.
 */
const steps: Readonly<Record<string, (db: Kysely<unknown>, engine: Engine) => Promise<void>>> = {
  "0011_tables": createTables,
  // Creates the table `call_counts`, with a mark that the calls on record have to be counted.
  "0014_counts": async (db, engine) => {
    await createTables(db, engine);
    const { rows } = await sql`select call_id from calls limit 1`.execute(db);
    if (rows.length === 0) return;
    await sql`delete from call_counts where span = 'filled'`.execute(db);
    await sql`insert into call_counts (span, starts_at, tool_name, bucket, part, calls, errors, cancelled, total)
      values ('filled', 0, '', 0, 0, 0, 0, 0, -1)`.execute(db);
  },
  // Days are counted for all tools together from now on.
  "0015_roots": (db) => countAllTools(db, "day"),
  // Adds the column `via` to `approvals`.
  "0018_via": (db, engine) => addColumn(db, engine, "approvals", "via"),
  // Creates the table `tool_days`, fills it from `call_counts`, and counts minutes for all tools together.
  "0021_tool_days": async (db, engine) => {
    await createTables(db, engine);
    await sql`delete from tool_days`.execute(db);
    await sql`insert into tool_days (starts_at, tool_name, part, calls, errors, cancelled)
      select starts_at, tool_name, part, sum(calls), sum(errors), sum(cancelled)
      from call_counts where span = 'day' and tool_name <> '' group by starts_at, tool_name, part`.execute(
      db,
    );
    await countAllTools(db, "minute");
  },
  // Creates the tables by which several servers share one database, and makes PostgreSQL announce changes.
  "0030_fleet": async (db, engine) => {
    await createTables(db, engine);
    await addColumn(db, engine, "instances", "info", "text");
    if (engine !== "postgres") return;
    // A part of a value that PostgreSQL has not compressed is read without the rest.
    await sql`alter table blob_parts alter column data set storage external`.execute(db);
    await announceChanges(db);
  },
  // Adds the column `lane` to `calls`.
  "0040_lanes": (db, engine) => addColumn(db, engine, "calls", "lane"),
  // Adds the indexes, tables and columns of `calls` that a database of any older version lacks, such as the indexes by which
  // schedules, questions and conversations are listed and deleted.
  "0041_ages": createTables,
  // Puts the loop before all other flags, so that the indexes of such calls and of cancelled ones need no function.
  "0042_loops": async (db, engine) => {
    const { rows } = await sql<{ call_id: string; flags: string }>`select call_id, flags from calls
      where flags like '%"loop":%' and not flags like '{"loop":%'`.execute(db);
    for (const { call_id, flags } of rows) {
      const found = JSON.parse(flags);
      const first = JSON.stringify({ loop: found.loop, ...found });
      await sql`update calls set flags = ${first} where call_id = ${call_id}`.execute(db);
    }
    if (engine !== "mysql")
      for (const name of ["calls_cancelled", "calls_in_loops"])
        await sql`drop index if exists ${sql.table(name)}`.execute(db);
    await createTables(db, engine);
  },
};

/** Adds up the counts of each tool to those of all tools together. */
async function countAllTools(db: Kysely<unknown>, span: "day" | "minute"): Promise<void> {
  await sql`delete from call_counts where span = ${span} and tool_name = ''`.execute(db);
  await sql`insert into call_counts (span, starts_at, tool_name, bucket, part, calls, errors, cancelled, total)
    select span, starts_at, '', bucket, part, sum(calls), sum(errors), sum(cancelled), sum(total)
    from call_counts where span = ${span} group by span, starts_at, bucket, part`.execute(db);
}

const LAST = Math.max(...Object.keys(steps).map((name) => Number.parseInt(name, 10)));
const TABLE = "toolrack_migrations";

/** Whether a step with this name belongs to a newer version. */
export function isNewerStep(name: string): boolean {
  return Number.parseInt(name, 10) > LAST;
}

/**
 * Brings the database to this version's tables, one process at a time. Throws for a database that a newer version has
 * changed.
 */
export async function migrate<Tables>(opened: Kysely<Tables>, engine: Engine): Promise<void> {
  // The tables that the type promises are only created here.
  const db = opened as unknown as Kysely<unknown>;
  // Almost every start returns here and saves the migrator's slow query for the list of tables.
  if (await isCurrent(db)) return;
  const migrations = Object.entries(steps).map(([name, step]): [string, Migration] => [
    name,
    { up: (transaction) => step(transaction, engine) },
  ]);
  // The migrator refuses a database with steps on record that it is not given.
  const done = (await stepsOf(db)).map((name): [string, Migration] => [name, { up: async () => {} }]);
  const migrator = new Migrator({
    db,
    migrationTableName: TABLE,
    migrationLockTableName: `${TABLE}_lock`,
    provider: { getMigrations: async () => Object.fromEntries([...done, ...migrations]) },
  });
  const { error } = await migrator.migrateToLatest();
  // Another process may have migrated at the same moment. If it was a newer version, `isCurrent` throws.
  if (error !== undefined && !(await isCurrent(db))) throw error;
}

async function isCurrent(db: Kysely<unknown>): Promise<boolean> {
  const done = await stepsOf(db);
  const newer = done.filter(isNewerStep);
  if (newer.length > 0) {
    throw new Error(
      `The database was last used by a newer version of Toolrack (it has ${newer.join(", ")}, which this version does not know). Run that version, or use another database.`,
    );
  }
  return done.some((name) => Number.parseInt(name, 10) === LAST);
}

/** The names of the steps that were done. */
function stepsOf(db: Kysely<unknown>): Promise<string[]> {
  return sql<{ name: string }>`select name from ${sql.table(TABLE)}`
    .execute(db)
    .then(({ rows }) => rows.map(({ name }) => name))
    .catch((error) => {
      if (isMissingTable(error)) return [];
      throw error;
    });
}

function isMissingTable(error: unknown): boolean {
  const { code, message } = error as { code?: unknown; message?: unknown }; // Anything thrown may have these.
  // SQLite has no error code for a missing table.
  return code === "42P01" || code === "ER_NO_SUCH_TABLE" || /no such table/.test(String(message));
}

async function createTables(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const run = (text: string) => sql.raw(text).execute(db);
  const quote = (name: string) => (engine === "mysql" ? `\`${name}\`` : `"${name}"`);
  // MySQL's defaults may be latin1 and ignore case.
  const ending = engine === "mysql" ? "engine=InnoDB default character set utf8mb4 collate utf8mb4_bin" : "";
  for (const [name, lines] of Object.entries(tables)) {
    const columns = lines.flatMap((line) => line.split(", ")).map((column) => toSql(column, engine, quote));
    await run(`create table if not exists ${quote(name)} (${columns.join(", ")}) ${ending}`);
  }
  await changeCalls(db, engine);
  for (const [name, { on, unique, only, isPartial }] of Object.entries(indexes)) {
    if (engine === "mysql" && isPartial) continue;
    const [table = "", columns = ""] = on.replace(")", "").split(" (");
    const names = columns.split(", ").map(quote).join(", ");
    const kind = unique === true ? "unique index" : "index";
    // MySQL has no `if not exists` for an index, only an error, and no partial indexes.
    if (engine === "mysql") {
      await run(`create ${kind} ${name} on ${quote(table)} (${names})`).catch((error) => {
        if (error.code !== "ER_DUP_KEYNAME") throw error;
      });
      continue;
    }
    const covered = typeof only === "function" ? only(engine) : only;
    const condition = covered === undefined ? "" : ` where ${covered}`;
    await run(`create ${kind} if not exists ${name} on ${quote(table)} (${names})${condition}`);
  }
  // The table has its only row from the start, so that raising the version is always an update.
  await run(
    "insert into registry_version (id, version) select 1, 0 from (select count(*) as n from registry_version) as found where found.n = 0",
  );
}

/** Brings the table `calls` of an older version to the columns of this one. */
async function changeCalls(db: Kysely<unknown>, engine: Engine): Promise<void> {
  for (const name of ["owner", "root_call_id", "lane"]) await addColumn(db, engine, "calls", name);
  if (engine === "mysql")
    await sql`alter table calls drop index calls_by_parent`.execute(db).catch(forgetRepeated);
  else await sql`drop index if exists calls_by_parent`.execute(db);
}

/**
 * The changes that PostgreSQL announces to all nodes: by topic, the triggers that do so. A topic has a sequence that counts
 * its changes, and a notification: a node that missed the notification finds the new count with its next heartbeat. The
 * database does this itself, so that also a row that an operator edits with a database client is announced.
 */
const announcements: Readonly<Record<string, readonly string[]>> = {
  registry: ["update on registry_version for each row"],
  skills: ["skills", "skill_tools", "skill_files", "experts", "expert_skills"].map(
    (table) => `insert or update or delete on ${table} for each statement`,
  ),
  secrets: ["secrets", "settings"].map((table) => `insert or update or delete on ${table} for each row`),
  tokens: ["insert or delete or update of name, hash, scopes, expires_at on tokens for each row"],
  approvals: [
    "update on approvals for each row when (old.state is distinct from new.state)",
    "insert or update or delete on approval_rules for each row",
  ],
  schedules: ["insert or update of state, next_run_at on schedules for each row"],
  searches: ["searches", "search_learning"].map(
    (table) => `insert or update or delete on ${table} for each row`,
  ),
  turns: [
    "update on chat_messages for each row when (new.status = 'stopping' and old.status is distinct from new.status)",
  ],
};

async function announceChanges(db: Kysely<unknown>): Promise<void> {
  const run = (text: string) => sql.raw(text).execute(db);
  // The count is not part of the transaction, so that two writers never wait for each other because of it.
  await run(`create or replace function toolrack_changed() returns trigger language plpgsql as $$
    begin
      perform nextval(format('%I.%I', tg_table_schema, 'toolrack_changed_' || tg_argv[0]));
      perform pg_notify('toolrack.' || tg_table_schema, 'changed ' || tg_argv[0]);
      return null;
    end $$`);
  for (const [topic, events] of Object.entries(announcements)) {
    await run(`create sequence if not exists toolrack_changed_${topic}`);
    for (const [at, event] of events.entries()) {
      const table = / on (\w+) /.exec(event)?.[1];
      await run(`drop trigger if exists toolrack_${topic}_${at} on ${table}`);
      await run(
        `create trigger toolrack_${topic}_${at} after ${event} execute function toolrack_changed('${topic}')`,
      );
    }
  }
}

/** Adds a column to a table of an older version, unless it is there. */
async function addColumn(
  db: Kysely<unknown>,
  engine: Engine,
  table: string,
  name: string,
  type: "key" | "text" = "key",
): Promise<void> {
  const column = sql.raw(`${engine === "mysql" ? `\`${name}\`` : `"${name}"`} ${engineTypes[engine][type]}`);
  const change = sql`alter table ${sql.table(table)} add column`;
  if (engine === "mysql") await sql`${change} ${column}`.execute(db).catch(forgetRepeated);
  else if (engine === "postgres") await sql`${change} if not exists ${column}`.execute(db);
  else {
    const { rows } = await sql<{ name: string }>`pragma table_info(${sql.table(table)})`.execute(db);
    if (!rows.some((known) => known.name === name)) await sql`${change} ${column}`.execute(db);
  }
}

/** MySQL has no `if exists` for these changes, only an error. */
function forgetRepeated(error: { code?: string }): void {
  if (error.code !== "ER_DUP_FIELDNAME" && error.code !== "ER_CANT_DROP_FIELD_OR_KEY") throw error;
}

/**
 * The SQL types for the column types of `schema.ts`. They mean the same in all three engines: exact
 * comparison, all of Unicode, no small limits.
 */
const types: Readonly<Record<string, string>> = {
  key: "varchar(255)",
  code: "varchar(80)",
  text: "text",
  bytes: "blob",
  whole: "bigint",
  real: "double precision",
  integer: "integer",
};

const engineTypes: Readonly<Record<Engine, Readonly<Record<string, string>>>> = {
  sqlite: types,
  // Without the collation, order and speed would depend on the locale of the database.
  postgres: {
    ...types,
    key: 'varchar(255) collate "C"',
    code: 'varchar(80) collate "C"',
    bytes: "bytea",
  },
  // MySQL's `text` and `blob` end at 64 KiB.
  mysql: {
    ...types,
    code: "varchar(80) character set ascii collate ascii_bin",
    text: "longtext",
    bytes: "longblob",
  },
};

function toSql(column: string, engine: Engine, quote: (name: string) => string): string {
  const parts = /^(\w+) (\w+)(?:\((.*)\))?(\?)?(?:=(\d+))?(?: (primary|unique))?$/.exec(column);
  const [, name = "", type = "", words, optional, value, key] = parts ?? [];
  const sqlType = engineTypes[engine][type];
  if (sqlType === undefined) throw new Error(`The column "${column}" has no known type.`);
  return [
    quote(name),
    sqlType,
    value === undefined ? "" : `default ${value}`,
    optional === undefined ? "not null" : "",
    key === undefined ? "" : key.replace("primary", "primary key"),
    words === undefined ? "" : `check (${quote(name)} in ('${words.replaceAll("|", "', '")}'))`,
  ].join(" ");
}
