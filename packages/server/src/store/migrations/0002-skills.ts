import { type Kysely, sql } from "kysely";
import type { Engine } from "../database.ts";
import { columnTypes, withTableOptions } from "../schema.ts";
import { createIndex } from "./migrate.ts";

export async function createSkillTables(db: Kysely<unknown>, engine: Engine): Promise<void> {
  await createSkills(db, engine);
  await createExperts(db, engine);
}

async function createSkills(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const { key, code, text, whole } = columnTypes(engine);
  const skills = db.schema
    .createTable("skills")
    .ifNotExists()
    .addColumn("id", code, (column) => column.primaryKey())
    .addColumn("name", key, (column) => column.notNull())
    .addColumn("mark", code)
    .addColumn("enabled", "integer", (column) => column.notNull())
    // 0 for what came from elsewhere: its scripts have no network, its tools no secrets.
    .addColumn("trusted", "integer", (column) => column.notNull())
    .addColumn("created_at", whole, (column) => column.notNull())
    .addColumn("updated_at", whole, (column) => column.notNull())
    .addColumn("source_path", text)
    .addColumn("description", text, (column) => column.notNull())
    // JSON: what a SKILL.md says of the skill beside its name and description.
    .addColumn("front_matter", text, (column) => column.notNull())
    .addColumn("skill_md", text, (column) => column.notNull())
    .addUniqueConstraint("skills_name", ["name"])
    .addUniqueConstraint("skills_mark", ["mark"]);
  await withTableOptions(skills, engine).execute();

  const tools = db.schema
    .createTable("skill_tools")
    .ifNotExists()
    // The name that models are given.
    .addColumn("id", code, (column) => column.primaryKey())
    .addColumn("skill_id", code, (column) => column.notNull())
    .addColumn("name", key, (column) => column.notNull())
    .addColumn("type", code, (column) => column.notNull())
    .addColumn("method", code)
    .addColumn("enabled", "integer", (column) => column.notNull())
    .addColumn("position", "integer", (column) => column.notNull())
    .addColumn("created_at", whole, (column) => column.notNull())
    .addColumn("updated_at", whole, (column) => column.notNull())
    .addColumn("display_name", text)
    .addColumn("command", text)
    .addColumn("endpoint", text)
    .addColumn("description", text, (column) => column.notNull())
    .addColumn("usage", text, (column) => column.notNull())
    .addUniqueConstraint("skill_tools_name", ["skill_id", "name"])
    .addCheckConstraint("skill_tools_type", sql`type in ('http', 'script', 'builtin')`);
  await withTableOptions(tools, engine).execute();

  const files = db.schema
    .createTable("skill_files")
    .ifNotExists()
    .addColumn("skill_id", code, (column) => column.notNull())
    .addColumn("path", key, (column) => column.notNull())
    .addColumn("executable", "integer", (column) => column.notNull())
    // Base64.
    .addColumn("content", text, (column) => column.notNull())
    .addPrimaryKeyConstraint("skill_files_key", ["skill_id", "path"]);
  await withTableOptions(files, engine).execute();
}

async function createExperts(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const { key, code, text, whole } = columnTypes(engine);
  const experts = db.schema
    .createTable("experts")
    .ifNotExists()
    .addColumn("id", code, (column) => column.primaryKey())
    .addColumn("name", key, (column) => column.notNull())
    // In lower case: names that differ by case only are one.
    .addColumn("name_key", key, (column) => column.notNull())
    .addColumn("created_at", whole, (column) => column.notNull())
    .addColumn("updated_at", whole, (column) => column.notNull())
    .addColumn("description", text, (column) => column.notNull())
    .addColumn("instructions", text, (column) => column.notNull())
    // JSON: patterns over the names of tools.
    .addColumn("tools", text, (column) => column.notNull())
    .addUniqueConstraint("experts_name", ["name_key"]);
  await withTableOptions(experts, engine).execute();

  const links = db.schema
    .createTable("expert_skills")
    .ifNotExists()
    .addColumn("expert_id", code, (column) => column.notNull())
    // A row of `skills`, or a skill that lives in a folder and has no row.
    .addColumn("skill_id", code, (column) => column.notNull())
    .addColumn("position", "integer", (column) => column.notNull())
    .addPrimaryKeyConstraint("expert_skills_key", ["expert_id", "skill_id"]);
  await withTableOptions(links, engine).execute();
  await createIndex(db, engine, "expert_skills_by_skill", "expert_skills", ["skill_id"]);
}
