import { unlessTaken } from "./database-errors.ts";
import { ExpertConflictError, SkillChangedError } from "./errors.ts";
import { newId, toStorableText } from "./keys.ts";
import {
  deleteRows,
  findRow,
  findRows,
  looseJson,
  rowMap,
  text,
  textOrEmpty,
  updateRows,
} from "./row-mapping.ts";
import type { StoreDatabase } from "./schema.ts";
import { asSeen, laterThan, type RegistryVersion, refuseUnseen, type SeenVersion } from "./versions.ts";

/** A named set of skills and single tools, for one kind of caller. */
export interface StoredExpert {
  readonly id: string;
  /** Unique without regard to case. Part of addresses: `/mcp/{name}`. */
  readonly name: string;
  readonly description: string;
  /** Instructions for the model that acts as this expert. */
  readonly instructions: string;
  /** Ids of skills, in their order. */
  readonly skills: readonly string[];
  /** Patterns of tool names, as in the scopes of tokens. */
  readonly tools: readonly string[];
  /** Milliseconds since the epoch, like `updatedAt`. */
  readonly createdAt: number;
  readonly updatedAt: number;
}

export type NewExpert = Pick<StoredExpert, "name"> & Partial<Omit<StoredExpert, "createdAt" | "updatedAt">>;
export type ExpertChanges = Partial<Omit<StoredExpert, "id" | "createdAt" | "updatedAt">>;

const experts = rowMap<Omit<StoredExpert, "skills">>()(
  "experts",
  {
    name: text(),
    description: textOrEmpty(),
    instructions: textOrEmpty(),
    // A value that is not a list of patterns allows no tool.
    tools: { ...looseJson(patternsIn), hasDefault: true },
  },
  ["name_key"],
);

/** Every change raises the registry's version. A name or id that is taken is refused with `ExpertConflictError`. */
export class ExpertRepository {
  readonly #db: StoreDatabase;
  readonly #version: RegistryVersion;

  constructor(db: StoreDatabase, version: RegistryVersion) {
    this.#db = db;
    this.#version = version;
  }

  /** The oldest expert first. */
  async list(): Promise<StoredExpert[]> {
    const rows = await findRows(this.#db, "experts", {}, "created_at", "id");
    const links = await findRows(this.#db, "expert_skills", {}, "position");
    const skills = Map.groupBy(links, ({ expert_id }) => expert_id);
    return rows.map((row) => ({
      ...experts.toRecord(row),
      skills: skills.get(row.id)?.map(({ skill_id }) => skill_id) ?? [],
    }));
  }

  add(expert: NewExpert): Promise<StoredExpert> {
    const id = expert.id ?? newId();
    return this.#change(async (db) => {
      const now = Date.now();
      const row = toRow({ ...emptyExpert, ...expert, id, createdAt: now, updatedAt: now });
      await refuseTaken(db, row.name_key, id);
      if ((await find(db, id)) !== undefined) {
        throw new ExpertConflictError("id", `There is an expert with the id "${id}" already.`);
      }
      await db.insertInto("experts").values(row).execute();
      return { ...experts.toRecord(row), skills: await linkSkills(db, id, expert.skills ?? []) };
    });
  }

  /**
   * Every change gives a later `updatedAt`. Throws `SkillChangedError` when the expert is no longer the version that
   * was seen.
   */
  update(id: string, changes: ExpertChanges, { seen }: SeenVersion = {}): Promise<StoredExpert | undefined> {
    return this.#change(async (db) => {
      const old = await find(db, id);
      if (old === undefined) return undefined;
      refuseUnseen(seen, old);
      const { id: _, ...row } = toRow({ ...old, ...changes, updatedAt: laterThan(old.updatedAt) });
      await refuseTaken(db, row.name_key, id);
      const changed = await updateRows(db, "experts", asSeen(id, seen), row);
      if (changed === 0) throw new SkillChangedError(old);
      const expert = experts.toRecord({ id, ...row });
      if (changes.skills === undefined) return { ...expert, skills: old.skills };
      await deleteRows(db, "expert_skills", { expert_id: id });
      return { ...expert, skills: await linkSkills(db, id, changes.skills) };
    });
  }

  remove(id: string): Promise<boolean> {
    return this.#change(async (db) => {
      await deleteRows(db, "expert_skills", { expert_id: id });
      return (await deleteRows(db, "experts", { id })) > 0;
    });
  }

  #change<Result>(edit: (db: StoreDatabase) => Promise<Result>): Promise<Result> {
    return unlessTaken(
      () => this.#version.change(edit),
      () => {
        throw new ExpertConflictError("name", "An expert with this name was made at the same moment.");
      },
    );
  }
}

export type ExpertStore = Pick<ExpertRepository, keyof ExpertRepository>;

const emptyExpert = { description: "", instructions: "", tools: [] };

async function find(db: StoreDatabase, id: string): Promise<StoredExpert | undefined> {
  const row = await findRow(db, "experts", { id });
  if (row === undefined) return undefined;
  const skills = await findRows(db, "expert_skills", { expert_id: id }, "position");
  return { ...experts.toRecord(row), skills: skills.map(({ skill_id }) => skill_id) };
}

async function linkSkills(db: StoreDatabase, id: string, skills: readonly string[]): Promise<string[]> {
  const unique = [...new Set(skills)];
  const rows = unique.map((skill, position) => ({ expert_id: id, skill_id: skill, position }));
  if (rows.length > 0) await db.insertInto("expert_skills").values(rows).execute();
  return unique;
}

async function refuseTaken(db: StoreDatabase, key: string, ownId: string): Promise<void> {
  const twin = await db
    .selectFrom("experts")
    .select(["id", "name"])
    // A row that was written by hand may have no key.
    .where(({ eb, fn }) => eb(fn.coalesce("name_key", fn<string>("lower", ["name"])), "=", key))
    .where("id", "<>", ownId)
    .executeTakeFirst();
  if (twin === undefined) return;
  throw new ExpertConflictError("name", `There is an expert "${twin.name}" already (${twin.id}).`);
}

function toRow(expert: Omit<StoredExpert, "skills">) {
  return { ...experts.toRow(expert), name_key: toStorableText(expert.name).toLowerCase() };
}

function patternsIn(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((pattern) => typeof pattern === "string") : [];
}
