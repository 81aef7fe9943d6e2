import { isDuplicateKey } from "./database.ts";
import { ExpertConflictError, SkillChangedError } from "./errors.ts";
import { newId, toStorableText } from "./forms.ts";
import type { RegistryVersion } from "./instances.ts";
import type { StoreDatabase } from "./schema.ts";
import type { ExpertRow, SeenVersion } from "./skill-tables.ts";
import { toJson } from "./values.ts";

/** A named set of skills and single tools: what one kind of caller is given. */
export interface StoredExpert {
  readonly id: string;
  /** Unique, whatever the case of its letters. Stands in addresses: `/mcp/{name}`. */
  readonly name: string;
  readonly description: string;
  /** What a model is told that speaks as this expert. */
  readonly instructions: string;
  /** Ids of skills, in their order. */
  readonly skills: readonly string[];
  /** Patterns of tools, as the scopes of tokens have them. */
  readonly tools: readonly string[];
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly updatedAt: number;
}

export type NewExpert = Pick<StoredExpert, "name"> & Partial<Omit<StoredExpert, "createdAt" | "updatedAt">>;
export type ExpertChanges = Partial<Omit<StoredExpert, "id" | "createdAt" | "updatedAt">>;

/** Every change counts in the registry's version. A name or id that is taken is refused with `ExpertConflictError`. */
export interface ExpertStore {
  /** In order of their making. */
  list(): Promise<StoredExpert[]>;
  add(expert: NewExpert): Promise<StoredExpert>;
  /** Every change gives a later `updatedAt`. Another version than the one seen is refused with `SkillChangedError`. */
  update(id: string, changes: ExpertChanges, version?: SeenVersion): Promise<StoredExpert | undefined>;
  remove(id: string): Promise<boolean>;
}

export class ExpertRepository implements ExpertStore {
  readonly #db: StoreDatabase;
  readonly #version: RegistryVersion;

  constructor(db: StoreDatabase, version: RegistryVersion) {
    this.#db = db;
    this.#version = version;
  }

  async list(): Promise<StoredExpert[]> {
    const rows = await this.#db
      .selectFrom("experts")
      .selectAll()
      .orderBy("created_at")
      .orderBy("id")
      .execute();
    const links = await this.#db.selectFrom("expert_skills").selectAll().orderBy("position").execute();
    const skills = Map.groupBy(links, ({ expert_id }) => expert_id);
    return rows.map((row) => toExpert(row, skills.get(row.id)?.map(({ skill_id }) => skill_id) ?? []));
  }

  add(expert: NewExpert): Promise<StoredExpert> {
    const id = expert.id ?? newId();
    return this.#change(async (db) => {
      const row = toRow(expert, id, Date.now());
      await refuseTaken(db, keyOf(row.name), id);
      if ((await find(db, id)) !== undefined) {
        throw new ExpertConflictError("id", `There is an expert with the id "${id}" already.`);
      }
      await db.insertInto("experts").values(row).execute();
      return toExpert(row, await linkSkills(db, id, expert.skills ?? []));
    });
  }

  update(id: string, changes: ExpertChanges, { seen }: SeenVersion = {}): Promise<StoredExpert | undefined> {
    return this.#change(async (db) => {
      const old = await find(db, id);
      if (old === undefined) return undefined;
      if (seen !== undefined && seen !== old.updatedAt) throw new SkillChangedError(old);
      const now = Math.max(Date.now(), old.updatedAt + 1);
      const row = toRow({ ...old, ...changes }, id, now, old.createdAt);
      await refuseTaken(db, keyOf(row.name), id);
      const { id: _, ...values } = row;
      const one = db.updateTable("experts").set(values).where("id", "=", id);
      // Another node may have written since the look above.
      const { numUpdatedRows } = await (seen === undefined
        ? one
        : one.where("updated_at", "=", seen)
      ).executeTakeFirst();
      if (numUpdatedRows === 0n) throw new SkillChangedError(old);
      if (changes.skills === undefined) return toExpert(row, old.skills);
      await db.deleteFrom("expert_skills").where("expert_id", "=", id).execute();
      return toExpert(row, await linkSkills(db, id, changes.skills));
    });
  }

  remove(id: string): Promise<boolean> {
    return this.#change(async (db) => {
      await db.deleteFrom("expert_skills").where("expert_id", "=", id).execute();
      const { numDeletedRows } = await db.deleteFrom("experts").where("id", "=", id).executeTakeFirst();
      return numDeletedRows > 0n;
    });
  }

  async #change<Result>(edit: (db: StoreDatabase) => Promise<Result>): Promise<Result> {
    try {
      return await this.#db.transaction().execute(async (db) => {
        const result = await edit(db);
        await this.#version.bump(db);
        return result;
      });
    } catch (thrown) {
      if (!isDuplicateKey(thrown)) throw thrown;
      throw new ExpertConflictError("name", "An expert with this name was made at the same moment.");
    }
  }
}

async function find(db: StoreDatabase, id: string): Promise<StoredExpert | undefined> {
  const row = await db.selectFrom("experts").selectAll().where("id", "=", id).executeTakeFirst();
  if (row === undefined) return undefined;
  const links = await db
    .selectFrom("expert_skills")
    .select("skill_id")
    .where("expert_id", "=", id)
    .orderBy("position")
    .execute();
  return toExpert(
    row,
    links.map(({ skill_id }) => skill_id),
  );
}

async function linkSkills(db: StoreDatabase, id: string, skills: readonly string[]): Promise<string[]> {
  const unique = [...new Set(skills)];
  const rows = unique.map((skill, position) => ({ expert_id: id, skill_id: skill, position }));
  if (rows.length > 0) await db.insertInto("expert_skills").values(rows).execute();
  return unique;
}

async function refuseTaken(db: StoreDatabase, key: string, own: string): Promise<void> {
  const twin = await db
    .selectFrom("experts")
    .select(["id", "name"])
    // A row that was written by hand may have no key.
    .where(({ eb, fn }) => eb(fn.coalesce("name_key", fn<string>("lower", ["name"])), "=", key))
    .where("id", "<>", own)
    .executeTakeFirst();
  if (twin === undefined) return;
  throw new ExpertConflictError("name", `There is an expert "${twin.name}" already (${twin.id}).`);
}

function toRow(expert: NewExpert, id: string, now: number, createdAt = now): ExpertRow {
  const name = toStorableText(expert.name);
  return {
    id,
    name,
    name_key: keyOf(name),
    created_at: createdAt,
    updated_at: now,
    description: toStorableText(expert.description ?? ""),
    instructions: toStorableText(expert.instructions ?? ""),
    tools: toJson(expert.tools ?? []),
  };
}

function toExpert(row: ExpertRow, skills: readonly string[]): StoredExpert {
  return {
    id: row.id,
    name: row.name,
    description: row.description ?? "",
    instructions: row.instructions ?? "",
    skills,
    tools: patternsIn(row.tools),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

function keyOf(name: string): string {
  return name.toLowerCase();
}

/** A row that somebody wrote by hand may hold anything; what is no list of patterns allows nothing. */
function patternsIn(json: string | null): string[] {
  try {
    const value: unknown = JSON.parse(json ?? "[]");
    return Array.isArray(value) ? value.filter((pattern) => typeof pattern === "string") : [];
  } catch {
    return [];
  }
}
