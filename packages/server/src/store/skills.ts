import { setImmediate as nextTurn } from "node:timers/promises";
import { sql } from "kysely";
import { isRecord } from "../helpers/index.ts";
import { unlessTaken } from "./database-errors.ts";
import { SkillChangedError, SkillConflictError } from "./errors.ts";
import { newId, type SkillToolType } from "./keys.ts";
import {
  deleteRows,
  findRow,
  findRows,
  flag,
  looseJson,
  rowMap,
  text,
  textOrEmpty,
  updateRows,
} from "./row-mapping.ts";
import type { SkillToolRow, StoreDatabase } from "./schema.ts";
import {
  asSeen,
  countSkillChange,
  laterThan,
  type RegistryVersion,
  refuseUnseen,
  type SeenVersion,
  skillFingerprint,
} from "./versions.ts";

/** A named set of tools, with instructions on when and how to use them. */
export interface StoredSkill {
  readonly id: string;
  /** For people: `SearXNG Search`. No two skills share it. */
  readonly name: string;
  /** The prefix of its tools' readable names. Default: made from the name. */
  readonly mark?: string;
  readonly description: string;
  /** Markdown below the front matter of its `SKILL.md`. */
  readonly instructions: string;
  /** The other keys of the front matter, such as `license` or `metadata`. */
  readonly frontMatter: Readonly<Record<string, unknown>>;
  /** The front matter as its author wrote it, so that an export keeps its wording and comments. */
  readonly frontMatterText?: string;
  /**
   * The folder of the skill's scripts, relative to the workspace, when the scripts are not stored as files of
   * the skill.
   */
  readonly sourcePath?: string;
  readonly enabled: boolean;
  /** False for a skill that somebody else wrote: its scripts get no network, and its tools no secrets. */
  readonly trusted: boolean;
  /** Milliseconds since the epoch, like `updatedAt`. */
  readonly createdAt: number;
  readonly updatedAt: number;
}

export interface StoredSkillTool {
  /** Unique among the tools of all skills. Models call the tool by it. */
  readonly id: string;
  readonly skillId: string;
  /** Unique within the skill: `web_search`. */
  readonly name: string;
  /** For people: `网页搜索`. */
  readonly displayName?: string;
  readonly description: string;
  readonly type: SkillToolType;
  /** The parameters as the tool's author wrote them, usually JSON. Empty when the tool has none. */
  readonly usage: string;
  readonly command?: string;
  readonly endpoint?: string;
  readonly method?: string;
  readonly enabled: boolean;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** A file beside `SKILL.md`. */
export interface SkillFile {
  /** Relative to the skill's folder, with `/` between its parts. */
  readonly path: string;
  readonly content: Buffer;
  readonly executable: boolean;
}

export type SkillChanges = Partial<
  Omit<StoredSkill, "id" | "createdAt" | "updatedAt" | "mark" | "sourcePath">
> & {
  /** Null clears the value, here and in `sourcePath`. */
  readonly mark?: string | null;
  readonly sourcePath?: string | null;
};

export type SkillToolChanges = Partial<
  Pick<StoredSkillTool, "name" | "description" | "type" | "usage" | "enabled">
> & {
  readonly displayName?: string | null;
  readonly command?: string | null;
  readonly endpoint?: string | null;
  readonly method?: string | null;
};

export type NewSkill = Pick<StoredSkill, "name"> & Partial<Omit<StoredSkill, "createdAt" | "updatedAt">>;
export type NewSkillTool = Pick<StoredSkillTool, "name" | "type"> &
  Partial<Omit<StoredSkillTool, "skillId" | "createdAt" | "updatedAt">>;

export interface SkillBundle {
  readonly skill: NewSkill;
  readonly tools: readonly NewSkillTool[];
  readonly files: readonly SkillFile[];
}

/** Every engine limits how many values a statement may have. */
const ROWS_PER_STATEMENT = 500;
/** More tools than this are deleted in several steps, between which others are served. */
const ROWS_DELETED_AT_ONCE = 5_000;

const skills = rowMap<StoredSkill>()("skills", {
  name: text(),
  description: textOrEmpty(),
  instructions: textOrEmpty("skill_md"),
  frontMatter: { ...looseJson((value) => (isRecord(value) ? value : {})), hasDefault: true },
  enabled: flag(),
  trusted: flag(),
});

const tools = rowMap<StoredSkillTool>()(
  "skill_tools",
  { name: text(), description: textOrEmpty(), usage: textOrEmpty(), enabled: flag() },
  ["position"],
);

/** A row that was written by hand may leave out the type. */
function toTool(row: SkillToolRow): StoredSkillTool {
  return tools.toRecord({ ...row, type: row.type ?? (row.endpoint === null ? "script" : "http") });
}

/**
 * Skills, their tools and files. Every change resolves when it is safely written, and raises the registry's version. A
 * name or id that is taken is refused with `SkillConflictError`.
 */
export class SkillRepository {
  readonly #db: StoreDatabase;
  readonly #version: RegistryVersion;
  /**
   * Reads a text that changes with every change of skills and experts by another process or a database
   * client, also when that change did not raise the registry's version.
   */
  readonly fingerprint: () => Promise<string>;

  constructor(db: StoreDatabase, version: RegistryVersion) {
    this.#db = db;
    this.#version = version;
    this.fingerprint = skillFingerprint(db);
  }

  /** The oldest skill first. */
  async list(): Promise<StoredSkill[]> {
    return (await findRows(this.#db, "skills", {}, "created_at", "id")).map(skills.toRecord);
  }

  async get(id: string): Promise<StoredSkill | undefined> {
    const row = await findRow(this.#db, "skills", { id });
    return row && skills.toRecord(row);
  }

  /** The tools of one skill, or of all skills; those of one skill in the order of their `position`. */
  async listTools(skillId?: string): Promise<StoredSkillTool[]> {
    const where = skillId === undefined ? {} : { skill_id: skillId };
    return (await findRows(this.#db, "skill_tools", where, "skill_id", "position", "id")).map(toTool);
  }

  /** The tools of all skills in the same order, so many at a time: fifty thousand at once would hold up everything else. */
  async *toolPages(): AsyncGenerator<StoredSkillTool[]> {
    for (let last: SkillToolRow | undefined; ; ) {
      let page = this.#db.selectFrom("skill_tools").selectAll().limit(ROWS_PER_STATEMENT);
      if (last !== undefined)
        page = page.where(
          sql<boolean>`(skill_id, position, id) > (${last.skill_id}, ${last.position}, ${last.id})`,
        );
      const rows = await page.orderBy("skill_id").orderBy("position").orderBy("id").execute();
      yield rows.map(toTool);
      last = rows[ROWS_PER_STATEMENT - 1];
      if (last === undefined) return;
    }
  }

  /** Whether there are more tools than this. */
  async hasMoreTools(than: number): Promise<boolean> {
    const rows = this.#db.selectFrom("skill_tools").select("id").orderBy("id").limit(1).offset(than);
    return (await rows.execute()).length > 0;
  }

  async getTool(id: string): Promise<StoredSkillTool | undefined> {
    const row = await findRow(this.#db, "skill_tools", { id });
    return row && toTool(row);
  }

  async listFiles(skillId: string): Promise<SkillFile[]> {
    const files = this.#db.selectFrom("skill_files").selectAll().where("skill_id", "=", skillId);
    return (await files.orderBy("path").execute()).map(({ path, content, executable }) => ({
      path,
      content: Buffer.from(content, "base64"),
      executable: executable === 1,
    }));
  }

  /**
   * Adds the skill, its tools and files in one transaction. Makes an id for the skill or a tool that has
   * none.
   */
  add(bundle: SkillBundle): Promise<StoredSkill> {
    const id = bundle.skill.id ?? newId();
    return this.#change(async (db) => {
      if ((await findRow(db, "skills", { id })) !== undefined) {
        throw new SkillConflictError("id", `There is a skill with the id "${id}" already.`);
      }
      return insertSkill(db, id, bundle, Date.now(), new Map());
    });
  }

  /**
   * Like `add`, but replaces the skill with this id. A tool whose id the old skill had keeps its `createdAt`.
   */
  replace(id: string, bundle: SkillBundle): Promise<StoredSkill> {
    return this.#change(async (db) => {
      const old = await findRow(db, "skills", { id });
      const tools = db.selectFrom("skill_tools").select(["id", "created_at"]).where("skill_id", "=", id);
      const before = await tools.execute();
      await nextTurn();
      const createdTimes = new Map(before.map((tool) => [tool.id, tool.created_at]));
      await removeRows(db, id);
      return insertSkill(db, id, bundle, old?.created_at ?? Date.now(), createdTimes);
    });
  }

  /** `files` replace all files of the skill, in the same transaction. Every change gives a later `updatedAt`. */
  update(
    id: string,
    changes: SkillChanges,
    files?: readonly SkillFile[],
    { seen }: SeenVersion = {},
  ): Promise<StoredSkill | undefined> {
    return this.#change(async (db) => {
      const old = await findRow(db, "skills", { id });
      if (old === undefined) return undefined;
      const skill = skills.toRecord(old);
      refuseUnseen(seen, skill);
      const next = { ...old, ...skills.toChanges({ ...changes, updatedAt: laterThan(old.updated_at) }) };
      await refuseTakenSkill(db, next.name, next.mark, id);
      const changed = await updateRows(db, "skills", asSeen(id, seen), next);
      if (changed === 0) throw new SkillChangedError(skill);
      if (files !== undefined) {
        await deleteRows(db, "skill_files", { skill_id: id });
        await insertFiles(db, id, files);
      }
      return skills.toRecord(next);
    });
  }

  /** Removes the skill with its tools and files, and takes it out of every expert. */
  remove(id: string): Promise<boolean> {
    return this.#change(async (db) => {
      await deleteRows(db, "expert_skills", { skill_id: id });
      return removeRows(db, id);
    });
  }

  /** Undefined when there is no such skill. */
  addTool(skillId: string, tool: NewSkillTool): Promise<StoredSkillTool | undefined> {
    return this.#change(async (db) => {
      if ((await findRow(db, "skills", { id: skillId })) === undefined) return undefined;
      const { last } = await db
        .selectFrom("skill_tools")
        .select(({ fn }) => fn.max("position").as("last"))
        .where("skill_id", "=", skillId)
        .executeTakeFirstOrThrow();
      const row = newToolRow(tool, skillId, (last ?? -1) + 1, Date.now());
      await refuseTakenTool(db, skillId, row.name);
      if ((await findRow(db, "skill_tools", { id: row.id })) !== undefined) throw takenToolId(row.id);
      await db.insertInto("skill_tools").values(row).execute();
      return toTool(row);
    });
  }

  updateTool(
    id: string,
    changes: SkillToolChanges,
    { seen }: SeenVersion = {},
  ): Promise<StoredSkillTool | undefined> {
    return this.#change(async (db) => {
      const old = await findRow(db, "skill_tools", { id });
      if (old === undefined) return undefined;
      refuseUnseen(seen, toTool(old));
      const next = { ...old, ...tools.toChanges({ ...changes, updatedAt: laterThan(old.updated_at) }) };
      await refuseTakenTool(db, old.skill_id, next.name, id);
      const changed = await updateRows(db, "skill_tools", asSeen(id, seen), next);
      if (changed === 0) throw new SkillChangedError(toTool(old));
      return toTool(next);
    });
  }

  removeTool(id: string): Promise<boolean> {
    return this.#change(async (db) => (await deleteRows(db, "skill_tools", { id })) > 0);
  }

  async #change<Result>(edit: (db: StoreDatabase) => Promise<Result>): Promise<Result> {
    const changed = await unlessTaken(
      () => this.#version.change(edit),
      () => {
        const message = "A skill or tool with this name or id was made at the same moment.";
        throw new SkillConflictError("name", message);
      },
    );
    countSkillChange(this.#db);
    return changed;
  }
}

export type SkillStore = Pick<SkillRepository, keyof SkillRepository>;

async function insertSkill(
  db: StoreDatabase,
  id: string,
  bundle: SkillBundle,
  createdAt: number,
  createdTimes: ReadonlyMap<string, number>,
): Promise<StoredSkill> {
  const now = Date.now();
  const empty = { description: "", instructions: "", frontMatter: {}, enabled: true, trusted: true };
  const row = skills.toRow({ ...empty, ...bundle.skill, id, createdAt, updatedAt: now });
  await refuseTakenSkill(db, row.name, row.mark, id);
  refuseRepeatedNames(bundle.tools);
  await db.insertInto("skills").values(row).execute();
  for (let at = 0; at < bundle.tools.length; at += ROWS_PER_STATEMENT) {
    const some = bundle.tools.slice(at, at + ROWS_PER_STATEMENT);
    const part = some.map((tool, n) => newToolRow(tool, id, at + n, now, createdTimes));
    const taken = await findRow(db, "skill_tools", { id: part.map((tool) => tool.id) });
    if (taken !== undefined) throw takenToolId(taken.id);
    await db.insertInto("skill_tools").values(part).execute();
    // There may be tens of thousands. What needs the database waits until all are there, all else is served.
    await nextTurn();
  }
  await insertFiles(db, id, bundle.files);
  return skills.toRecord(row);
}

/** `createdTimes`: when the tools of the replaced skill were created, by the id of the tool. */
function newToolRow(
  tool: NewSkillTool,
  skillId: string,
  position: number,
  now: number,
  createdTimes?: ReadonlyMap<string, number>,
): SkillToolRow {
  const id = tool.id ?? newId();
  const createdAt = createdTimes?.get(id) ?? now;
  const empty = { description: "", usage: "", enabled: true };
  return { ...tools.toRow({ ...empty, ...tool, id, skillId, createdAt, updatedAt: now }), position };
}

async function insertFiles(db: StoreDatabase, skillId: string, files: readonly SkillFile[]): Promise<void> {
  // One by one: all files together may be too large for one statement.
  for (const { path, content, executable } of files) {
    const row = {
      skill_id: skillId,
      path,
      executable: Number(executable),
      content: content.toString("base64"),
    };
    await db.insertInto("skill_files").values(row).execute();
  }
}

async function removeRows(db: StoreDatabase, id: string): Promise<boolean> {
  await deleteRows(db, "skill_files", { skill_id: id });
  const tools = db.selectFrom("skill_tools").where("skill_id", "=", id);
  const { last } = await tools.select(({ fn }) => fn.max("position").as("last")).executeTakeFirstOrThrow();
  for (let below = ROWS_DELETED_AT_ONCE; below < (last ?? 0); below += ROWS_DELETED_AT_ONCE) {
    await db.deleteFrom("skill_tools").where("skill_id", "=", id).where("position", "<", below).execute();
    await nextTurn();
  }
  await deleteRows(db, "skill_tools", { skill_id: id });
  return (await deleteRows(db, "skills", { id })) > 0;
}

async function refuseTakenSkill(
  db: StoreDatabase,
  name: string,
  mark: string | null,
  ownId: string,
): Promise<void> {
  const namesake = (await findRows(db, "skills", { name })).find(({ id }) => id !== ownId);
  if (namesake !== undefined) {
    throw new SkillConflictError("name", `There is a skill "${name}" already (${namesake.id}).`);
  }
  const marked = mark === null ? [] : await findRows(db, "skills", { mark });
  const twin = marked.find(({ id }) => id !== ownId);
  if (twin === undefined) return;
  throw new SkillConflictError("mark", `The skill "${twin.name}" has the mark "${mark}" already.`);
}

async function refuseTakenTool(db: StoreDatabase, skillId: string, name: string, ownId = ""): Promise<void> {
  const twin = await findRow(db, "skill_tools", { skill_id: skillId, name });
  if (twin !== undefined && twin.id !== ownId) throw takenToolName(name, twin.id);
}

function refuseRepeatedNames(tools: readonly NewSkillTool[]): void {
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
