import { isDuplicateKey } from "./database.ts";
import { SkillChangedError, SkillConflictError } from "./errors.ts";
import { newId } from "./forms.ts";
import type { RegistryVersion } from "./instances.ts";
import type { StoreDatabase } from "./schema.ts";
import {
  type NewSkillTool,
  type SeenVersion,
  type SkillBundle,
  type SkillChanges,
  type SkillFile,
  type SkillFileRow,
  SkillFingerprint,
  type SkillStore,
  type SkillToolChanges,
  type StoredSkill,
  type StoredSkillTool,
  toSkill,
  toSkillRow,
  toSkillTool,
  toToolRow,
} from "./skill-tables.ts";

/** Rows in one statement: every engine limits how many values a statement may have. */
const AT_ONCE = 500;

export class SkillRepository implements SkillStore {
  readonly #db: StoreDatabase;
  readonly #version: RegistryVersion;
  readonly #fingerprint: SkillFingerprint;

  constructor(db: StoreDatabase, version: RegistryVersion) {
    this.#db = db;
    this.#version = version;
    this.#fingerprint = new SkillFingerprint(db);
  }

  fingerprint(): Promise<string> {
    return this.#fingerprint.read();
  }

  async list(): Promise<StoredSkill[]> {
    const rows = await this.#db
      .selectFrom("skills")
      .selectAll()
      .orderBy("created_at")
      .orderBy("id")
      .execute();
    return rows.map(toSkill);
  }

  async get(id: string): Promise<StoredSkill | undefined> {
    const row = await this.#db.selectFrom("skills").selectAll().where("id", "=", id).executeTakeFirst();
    return row === undefined ? undefined : toSkill(row);
  }

  async listTools(skillId?: string): Promise<StoredSkillTool[]> {
    const all = this.#db.selectFrom("skill_tools").selectAll();
    const rows = await (skillId === undefined ? all : all.where("skill_id", "=", skillId))
      .orderBy("skill_id")
      .orderBy("position")
      .orderBy("id")
      .execute();
    return rows.map(toSkillTool);
  }

  async getTool(id: string): Promise<StoredSkillTool | undefined> {
    const row = await this.#db.selectFrom("skill_tools").selectAll().where("id", "=", id).executeTakeFirst();
    return row === undefined ? undefined : toSkillTool(row);
  }

  async listFiles(skillId: string): Promise<SkillFile[]> {
    const rows = await this.#db
      .selectFrom("skill_files")
      .selectAll()
      .where("skill_id", "=", skillId)
      .orderBy("path")
      .execute();
    return rows.map(({ path, content, executable }) => ({
      path,
      content: Buffer.from(content, "base64"),
      executable: executable === 1,
    }));
  }

  add(bundle: SkillBundle): Promise<StoredSkill> {
    const id = bundle.skill.id ?? newId();
    return this.#change(async (db) => {
      if (await isThere(db, "skills", "id", id)) {
        throw new SkillConflictError("id", `There is a skill with the id "${id}" already.`);
      }
      return insertSkill(db, id, bundle, Date.now(), new Map());
    });
  }

  replace(id: string, bundle: SkillBundle): Promise<StoredSkill> {
    return this.#change(async (db) => {
      const old = await db.selectFrom("skills").select("created_at").where("id", "=", id).executeTakeFirst();
      const tools = await db
        .selectFrom("skill_tools")
        .select(["id", "created_at"])
        .where("skill_id", "=", id)
        .execute();
      await removeRows(db, id);
      const born = new Map(tools.map((tool) => [tool.id, tool.created_at]));
      return insertSkill(db, id, bundle, old?.created_at ?? Date.now(), born);
    });
  }

  update(
    id: string,
    changes: SkillChanges,
    files?: readonly SkillFile[],
    version?: SeenVersion,
  ): Promise<StoredSkill | undefined> {
    return this.#change(async (db) => {
      const row = await db.selectFrom("skills").selectAll().where("id", "=", id).executeTakeFirst();
      if (row === undefined) return undefined;
      refuseUnseen(version, toSkill(row));
      const now = laterThan(row.updated_at);
      const next = toSkillRow(withoutNull({ ...toSkill(row), ...changes }), id, now, row.created_at);
      await refuseTakenSkill(db, next.name, next.mark, id);
      const { id: _, ...values } = next;
      const one = db.updateTable("skills").set(values).where("id", "=", id);
      const { seen } = version ?? {};
      // Another node may have written since the look above.
      const { numUpdatedRows } = await (seen === undefined
        ? one
        : one.where("updated_at", "=", seen)
      ).executeTakeFirst();
      if (numUpdatedRows === 0n) throw new SkillChangedError(toSkill(row));
      if (files !== undefined) {
        await db.deleteFrom("skill_files").where("skill_id", "=", id).execute();
        await insertFiles(db, id, files);
      }
      return toSkill(next);
    });
  }

  remove(id: string): Promise<boolean> {
    return this.#change(async (db) => {
      await db.deleteFrom("expert_skills").where("skill_id", "=", id).execute();
      return removeRows(db, id);
    });
  }

  addTool(skillId: string, tool: NewSkillTool): Promise<StoredSkillTool | undefined> {
    return this.#change(async (db) => {
      if (!(await isThere(db, "skills", "id", skillId))) return undefined;
      const last = await db
        .selectFrom("skill_tools")
        .select("position")
        .where("skill_id", "=", skillId)
        .orderBy("position", "desc")
        .limit(1)
        .executeTakeFirst();
      const position = (last?.position ?? -1) + 1;
      const row = toToolRow(tool, { id: tool.id ?? newId(), skillId, position, now: Date.now() });
      await refuseTakenTool(db, skillId, row.name);
      if (await isThere(db, "skill_tools", "id", row.id)) throw takenToolId(row.id);
      await db.insertInto("skill_tools").values(row).execute();
      return toSkillTool(row);
    });
  }

  updateTool(
    id: string,
    changes: SkillToolChanges,
    version?: SeenVersion,
  ): Promise<StoredSkillTool | undefined> {
    return this.#change(async (db) => {
      const row = await db.selectFrom("skill_tools").selectAll().where("id", "=", id).executeTakeFirst();
      if (row === undefined) return undefined;
      refuseUnseen(version, toSkillTool(row));
      const next = toToolRow(withoutNull({ ...toSkillTool(row), ...changes }), {
        id,
        skillId: row.skill_id,
        position: row.position,
        now: laterThan(row.updated_at),
        createdAt: row.created_at,
      });
      await refuseTakenTool(db, row.skill_id, next.name, id);
      const { id: _, ...values } = next;
      const one = db.updateTable("skill_tools").set(values).where("id", "=", id);
      const { seen } = version ?? {};
      const { numUpdatedRows } = await (seen === undefined
        ? one
        : one.where("updated_at", "=", seen)
      ).executeTakeFirst();
      if (numUpdatedRows === 0n) throw new SkillChangedError(toSkillTool(row));
      return toSkillTool(next);
    });
  }

  removeTool(id: string): Promise<boolean> {
    return this.#change(async (db) => {
      const { numDeletedRows } = await db.deleteFrom("skill_tools").where("id", "=", id).executeTakeFirst();
      return numDeletedRows > 0n;
    });
  }

  /** In one transaction with the registry's version, so that no node sees the one without the other. */
  async #change<Result>(edit: (db: StoreDatabase) => Promise<Result>): Promise<Result> {
    try {
      return await this.#db.transaction().execute(async (db) => {
        const result = await edit(db);
        await this.#version.bump(db);
        return result;
      });
    } catch (thrown) {
      // Another node was faster than the question before the insert.
      if (!isDuplicateKey(thrown)) throw thrown;
      throw new SkillConflictError(
        "name",
        "A skill or tool with this name or id was made at the same moment.",
      );
    }
  }
}

/** A moment that no version before had, whatever the clock says. */
function laterThan(updatedAt: number): number {
  return Math.max(Date.now(), updatedAt + 1);
}

function refuseUnseen({ seen }: SeenVersion = {}, now: StoredSkill | StoredSkillTool): void {
  if (seen !== undefined && seen !== now.updatedAt) throw new SkillChangedError(now);
}

async function insertSkill(
  db: StoreDatabase,
  id: string,
  { skill, tools, files }: SkillBundle,
  createdAt: number,
  born: ReadonlyMap<string, number>,
): Promise<StoredSkill> {
  const now = Date.now();
  const row = toSkillRow(skill, id, now, createdAt);
  await refuseTakenSkill(db, row.name, row.mark, id);
  refuseTwins(tools);
  const toolRows = tools.map((tool, position) => {
    const own = tool.id ?? newId();
    return toToolRow(tool, { id: own, skillId: id, position, now, createdAt: born.get(own) ?? now });
  });
  await db.insertInto("skills").values(row).execute();
  for (let at = 0; at < toolRows.length; at += AT_ONCE) {
    const part = toolRows.slice(at, at + AT_ONCE);
    const ids = part.map((tool) => tool.id);
    const taken = await db.selectFrom("skill_tools").select("id").where("id", "in", ids).executeTakeFirst();
    if (taken !== undefined) throw takenToolId(taken.id);
    await db.insertInto("skill_tools").values(part).execute();
  }
  await insertFiles(db, id, files);
  return toSkill(row);
}

async function insertFiles(db: StoreDatabase, skillId: string, files: readonly SkillFile[]): Promise<void> {
  // One by one: together they may be more than a statement can hold.
  for (const { path, content, executable } of files) {
    const row: SkillFileRow = {
      skill_id: skillId,
      path,
      executable: executable ? 1 : 0,
      content: content.toString("base64"),
    };
    await db.insertInto("skill_files").values(row).execute();
  }
}

async function removeRows(db: StoreDatabase, id: string): Promise<boolean> {
  await db.deleteFrom("skill_files").where("skill_id", "=", id).execute();
  await db.deleteFrom("skill_tools").where("skill_id", "=", id).execute();
  const { numDeletedRows } = await db.deleteFrom("skills").where("id", "=", id).executeTakeFirst();
  return numDeletedRows > 0n;
}

async function refuseTakenSkill(
  db: StoreDatabase,
  name: string,
  mark: string | null,
  own: string,
): Promise<void> {
  const namesake = await db
    .selectFrom("skills")
    .select("id")
    .where("name", "=", name)
    .where("id", "<>", own)
    .executeTakeFirst();
  if (namesake !== undefined) {
    throw new SkillConflictError("name", `There is a skill "${name}" already (${namesake.id}).`);
  }
  if (mark === null) return;
  const twin = await db
    .selectFrom("skills")
    .select("name")
    .where("mark", "=", mark)
    .where("id", "<>", own)
    .executeTakeFirst();
  if (twin !== undefined) {
    throw new SkillConflictError("mark", `The skill "${twin.name}" has the mark "${mark}" already.`);
  }
}

async function refuseTakenTool(db: StoreDatabase, skillId: string, name: string, own = ""): Promise<void> {
  const twin = await db
    .selectFrom("skill_tools")
    .select("id")
    .where("skill_id", "=", skillId)
    .where("name", "=", name)
    .where("id", "<>", own)
    .executeTakeFirst();
  if (twin !== undefined) throw takenToolName(name, twin.id);
}

function refuseTwins(tools: readonly NewSkillTool[]): void {
  const names = new Set<string>();
  for (const { name } of tools) {
    if (names.has(name)) throw takenToolName(name);
    names.add(name);
  }
}

function takenToolName(name: string, id?: string): SkillConflictError {
  const which = id === undefined ? "" : ` (${id})`;
  return new SkillConflictError(
    "name",
    `The skill has a tool "${name}" already${which}. Choose another name.`,
  );
}

function takenToolId(id: string): SkillConflictError {
  return new SkillConflictError("id", `There is a tool with the id "${id}" already.`);
}

async function isThere(
  db: StoreDatabase,
  table: "skills" | "skill_tools",
  column: "id",
  value: string,
): Promise<boolean> {
  const row = await db.selectFrom(table).select(column).where(column, "=", value).executeTakeFirst();
  return row !== undefined;
}

type WithoutNull<Value> = { [Key in keyof Value]: Exclude<Value[Key], null> };

/** What was taken away is left out. */
function withoutNull<Value extends object>(value: Value): WithoutNull<Value> {
  const entries = Object.entries(value).filter(([, member]) => member !== null && member !== undefined);
  // Exactly the members that are null are gone.
  return Object.fromEntries(entries) as WithoutNull<Value>;
}
