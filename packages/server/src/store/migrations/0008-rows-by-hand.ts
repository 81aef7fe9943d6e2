import { type Kysely, sql } from "kysely";
import type { Engine } from "../database.ts";
import { columnTypes } from "../schema.ts";
import { addColumn } from "./migrate.ts";

interface Relaxed {
  /** Columns and what they are when an INSERT does not say it. */
  readonly defaults: Readonly<Record<string, number>>;
  /** Columns that may be left out altogether. */
  readonly optional: readonly string[];
}

const times = { created_at: 0, updated_at: 0 };

const relaxed: Readonly<Record<string, Relaxed>> = {
  skills: {
    defaults: { enabled: 1, trusted: 1, ...times },
    optional: ["description", "front_matter", "skill_md"],
  },
  skill_tools: {
    defaults: { enabled: 1, position: 0, ...times },
    optional: ["type", "description", "usage"],
  },
  skill_files: { defaults: { executable: 0 }, optional: [] },
  experts: { defaults: times, optional: ["name_key", "description", "instructions", "tools"] },
  expert_skills: { defaults: { position: 0 }, optional: [] },
};

/** Operators write rows with a client of their database, and say only what they know: the rest has a default. */
export async function allowRowsByHand(db: Kysely<unknown>, engine: Engine): Promise<void> {
  for (const [table, { defaults, optional }] of Object.entries(relaxed)) {
    if (engine === "sqlite") {
      await rebuild(db, table, defaults, optional);
      continue;
    }
    for (const [column, value] of Object.entries(defaults)) {
      await sql`alter table ${sql.table(table)} alter column ${sql.ref(column)} set default ${sql.lit(value)}`.execute(
        db,
      );
    }
    for (const column of optional) await makeOptional(db, engine, table, column);
  }
  await addColumn(db, "skills", "front_matter_text", columnTypes(engine).text);
}

async function makeOptional(
  db: Kysely<unknown>,
  engine: Engine,
  table: string,
  column: string,
): Promise<void> {
  if (engine === "postgres") {
    await sql`alter table ${sql.table(table)} alter column ${sql.ref(column)} drop not null`.execute(db);
    return;
  }
  const { key, code, text } = columnTypes(engine);
  const type = { name_key: key, type: code }[column] ?? text;
  await sql`alter table ${sql.table(table)} modify ${sql.ref(column)} ${type} null`.execute(db);
}

/** SQLite changes no column: the table is made anew from its own words, and its rows are moved. */
async function rebuild(
  db: Kysely<unknown>,
  table: string,
  defaults: Relaxed["defaults"],
  optional: readonly string[],
): Promise<void> {
  const { rows } = await sql<{ type: string; sql: string }>`
    select type, sql from sqlite_master where tbl_name = ${table} and sql is not null order by type desc
  `.execute(db);
  const [made, ...indexes] = rows.map((row) => row.sql);
  if (made === undefined) throw new Error(`The database has no table ${table}.`);
  let words = made.replace(`"${table}"`, `"${table}_next"`);
  for (const [column, value] of Object.entries(defaults)) {
    words = words.replace(new RegExp(`("${column}" \\w+) not null`), `$1 default ${value} not null`);
  }
  for (const column of optional) {
    words = words.replace(new RegExp(`("${column}" [\\w()]+) not null`), "$1");
  }
  await sql.raw(words).execute(db);
  await sql`insert into ${sql.table(`${table}_next`)} select * from ${sql.table(table)}`.execute(db);
  await sql`drop table ${sql.table(table)}`.execute(db);
  await sql`alter table ${sql.table(`${table}_next`)} rename to ${sql.table(table)}`.execute(db);
  for (const index of indexes) await sql.raw(index).execute(db);
}
