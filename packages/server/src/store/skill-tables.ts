import { createHash } from "node:crypto";
import { MysqlAdapter, PostgresAdapter, sql } from "kysely";
import type { SkillToolType } from "./forms.ts";
import { toStorableText } from "./forms.ts";
import type { StoreDatabase } from "./schema.ts";
import { toJson } from "./values.ts";

/** A named set of tools, with instructions on when and how to use them. */
export interface StoredSkill {
  readonly id: string;
  /** For people: `SearXNG Search`. No two skills share it. */
  readonly name: string;
  /** What readable names of its tools begin with, instead of what the name gives. */
  readonly mark?: string;
  readonly description: string;
  /** Markdown below the front matter of its `SKILL.md`. */
  readonly instructions: string;
  /** Everything else that its `SKILL.md` says of it, such as `license` or `metadata`. */
  readonly frontMatter: Readonly<Record<string, unknown>>;
  /** The front matter as somebody wrote it, so that an export can keep its wording and comments. */
  readonly frontMatterText?: string;
  /** Where its scripts lie, relative to the workspace, when they are not kept as files of the skill itself. */
  readonly sourcePath?: string;
  readonly enabled: boolean;
  /** False for what came from elsewhere: then its scripts have no network, and its tools no secrets. */
  readonly trusted: boolean;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly updatedAt: number;
}

export interface StoredSkillTool {
  /** Unique among all tools of all skills; the name that models are given. */
  readonly id: string;
  readonly skillId: string;
  /** Unique within the skill: `web_search`. */
  readonly name: string;
  /** For people: `网页搜索`. */
  readonly displayName?: string;
  readonly description: string;
  readonly type: SkillToolType;
  /** What it takes, as it was written: usually JSON. Empty for nothing. */
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
  /** Relative, with `/`. */
  readonly path: string;
  readonly content: Buffer;
  readonly executable: boolean;
}

export type SkillChanges = Partial<
  Omit<StoredSkill, "id" | "createdAt" | "updatedAt" | "mark" | "sourcePath">
> & {
  /** Null takes it away. */
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

/** A skill with all that belongs to it. */
export interface SkillBundle {
  readonly skill: NewSkill;
  readonly tools: readonly NewSkillTool[];
  readonly files: readonly SkillFile[];
}

/** Which version is changed: the `updatedAt` of what was looked at. Another one is refused with `SkillChangedError`. */
export interface SeenVersion {
  readonly seen?: number | undefined;
}

/**
 * Skills, their tools and files. Every change resolves when it is safely written, and counts in the registry's version.
 * What another row has already is refused with `SkillConflictError`.
 */
export interface SkillStore {
  /** Another one after any change of skills and experts by somebody else, also one that counted no version. */
  fingerprint(): Promise<string>;
  /** In order of their making. */
  list(): Promise<StoredSkill[]>;
  get(id: string): Promise<StoredSkill | undefined>;
  /** Of one skill, or of all; those of a skill in their order. */
  listTools(skillId?: string): Promise<StoredSkillTool[]>;
  getTool(id: string): Promise<StoredSkillTool | undefined>;
  listFiles(skillId: string): Promise<SkillFile[]>;
  /** With its tools and files, all or nothing. Ids that are not given are made. */
  add(bundle: SkillBundle): Promise<StoredSkill>;
  /** The same in the place of the skill with this id; tools keep the time of their making. */
  replace(id: string, bundle: SkillBundle): Promise<StoredSkill>;
  /** With `files`, those instead of the ones that are there, in the same step. Every change gives a later `updatedAt`. */
  update(
    id: string,
    changes: SkillChanges,
    files?: readonly SkillFile[],
    version?: SeenVersion,
  ): Promise<StoredSkill | undefined>;
  /** With its tools and files, and out of every expert. */
  remove(id: string): Promise<boolean>;
  /** Undefined when there is no such skill. */
  addTool(skillId: string, tool: NewSkillTool): Promise<StoredSkillTool | undefined>;
  updateTool(
    id: string,
    changes: SkillToolChanges,
    version?: SeenVersion,
  ): Promise<StoredSkillTool | undefined>;
  removeTool(id: string): Promise<boolean>;
}

export function toSkillRow(skill: NewSkill, id: string, now: number, createdAt = now): SkillRow {
  return {
    id,
    name: toStorableText(skill.name),
    mark: skill.mark ?? null,
    enabled: skill.enabled === false ? 0 : 1,
    trusted: skill.trusted === false ? 0 : 1,
    created_at: createdAt,
    updated_at: now,
    source_path: skill.sourcePath === undefined ? null : toStorableText(skill.sourcePath),
    description: toStorableText(skill.description ?? ""),
    front_matter: toStorableText(toJson(skill.frontMatter ?? {})),
    front_matter_text: storable(skill.frontMatterText),
    skill_md: toStorableText(skill.instructions ?? ""),
  };
}

export function toSkill(row: SkillRow): StoredSkill {
  return {
    id: row.id,
    name: row.name,
    ...(row.mark === null ? {} : { mark: row.mark }),
    description: row.description ?? "",
    instructions: row.skill_md ?? "",
    frontMatter: mapIn(row.front_matter),
    ...(row.front_matter_text === null ? {} : { frontMatterText: row.front_matter_text }),
    ...(row.source_path === null ? {} : { sourcePath: row.source_path }),
    enabled: row.enabled !== 0,
    trusted: row.trusted !== 0,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

interface ToolPlace {
  readonly id: string;
  readonly skillId: string;
  readonly position: number;
  readonly now: number;
  readonly createdAt?: number;
}

export function toToolRow(tool: NewSkillTool, place: ToolPlace): SkillToolRow {
  return {
    id: place.id,
    skill_id: place.skillId,
    name: toStorableText(tool.name),
    type: tool.type,
    method: tool.method ?? null,
    enabled: tool.enabled === false ? 0 : 1,
    position: place.position,
    created_at: place.createdAt ?? place.now,
    updated_at: place.now,
    display_name: storable(tool.displayName),
    command: storable(tool.command),
    endpoint: storable(tool.endpoint),
    description: toStorableText(tool.description ?? ""),
    usage: toStorableText(tool.usage ?? ""),
  };
}

export function toSkillTool(row: SkillToolRow): StoredSkillTool {
  return {
    id: row.id,
    skillId: row.skill_id,
    name: row.name,
    ...(row.display_name === null ? {} : { displayName: row.display_name }),
    description: row.description ?? "",
    type: row.type ?? (row.endpoint === null ? "script" : "http"),
    usage: row.usage ?? "",
    ...(row.command === null ? {} : { command: row.command }),
    ...(row.endpoint === null ? {} : { endpoint: row.endpoint }),
    ...(row.method === null ? {} : { method: row.method }),
    enabled: row.enabled !== 0,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

/** A row that somebody wrote by hand may hold anything; what is no map says nothing. */
function mapIn(json: string | null): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(json ?? "{}");
    const isMap = typeof value === "object" && value !== null && !Array.isArray(value);
    return isMap ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function storable(text: string | undefined): string | null {
  return text === undefined ? null : toStorableText(text);
}

/** What may be null was left out by whoever wrote the row by hand. */
interface SkillRow {
  id: string;
  name: string;
  mark: string | null;
  enabled: number;
  trusted: number;
  created_at: number;
  updated_at: number;
  source_path: string | null;
  description: string | null;
  front_matter: string | null;
  front_matter_text: string | null;
  skill_md: string | null;
}

interface SkillToolRow {
  id: string;
  skill_id: string;
  name: string;
  type: SkillToolType | null;
  method: string | null;
  enabled: number;
  position: number;
  created_at: number;
  updated_at: number;
  display_name: string | null;
  command: string | null;
  endpoint: string | null;
  description: string | null;
  usage: string | null;
}

export interface SkillFileRow {
  skill_id: string;
  path: string;
  executable: number;
  content: string;
}

export interface ExpertRow {
  id: string;
  name: string;
  name_key: string | null;
  created_at: number;
  updated_at: number;
  description: string | null;
  instructions: string | null;
  tools: string | null;
}

/** The tables of skills and experts, as queries see them. */
export interface SkillTables {
  skills: SkillRow;
  skill_tools: SkillToolRow;
  skill_files: SkillFileRow;
  experts: ExpertRow;
  expert_skills: { expert_id: string; skill_id: string; position: number };
}

const tables = ["skills", "skill_tools", "skill_files", "experts", "expert_skills"] as const;

/**
 * A text that changes with any row of skills and experts, also one that an operator edits with a client of the
 * database, which counts no version. It is asked for every other second, so each engine answers the cheapest way that
 * it has.
 */
export class SkillFingerprint {
  readonly #db: StoreDatabase;
  #seen: { readonly dataVersion: number; readonly fingerprint: string } | undefined;

  constructor(db: StoreDatabase) {
    this.#db = db;
  }

  read(): Promise<string> {
    const { adapter } = this.#db.getExecutor();
    if (adapter instanceof PostgresAdapter) return this.#fromPostgres();
    if (adapter instanceof MysqlAdapter) return this.#fromMysql();
    return this.#fromSqlite();
  }

  /** Every version of a row bears the number of the transaction that wrote it. */
  async #fromPostgres(): Promise<string> {
    const parts = tables.map(
      (table) =>
        sql`select count(*) || '/' || coalesce(sum(xmin::text::bigint), 0) || '/' || coalesce(max(xmin::text::bigint), 0) as sum from ${sql.table(table)}`,
    );
    const { rows } = await sql<{ sum: string }>`${sql.join(parts, sql` union all `)}`.execute(this.#db);
    return rows.map((row) => row.sum).join(" ");
  }

  async #fromMysql(): Promise<string> {
    const names = sql.join(tables.map((table) => sql.table(table)));
    const { rows } = await sql<{ Checksum: unknown }>`checksum table ${names}`.execute(this.#db);
    return rows.map(({ Checksum: sum }) => String(sum)).join(" ");
  }

  /** Nothing is read as long as no other connection has written to the file. */
  async #fromSqlite(): Promise<string> {
    const { rows } = await sql<{ data_version: number }>`pragma data_version`.execute(this.#db);
    const dataVersion = rows[0]?.data_version ?? 0;
    if (this.#seen?.dataVersion === dataVersion) return this.#seen.fingerprint;
    const hash = createHash("sha256");
    for (const table of tables) {
      const found = await sql`select * from ${sql.table(table)} order by 1, 2`.execute(this.#db);
      for (const row of found.rows) hash.update(JSON.stringify(row));
    }
    const fingerprint = hash.digest("hex");
    this.#seen = { dataVersion, fingerprint };
    return fingerprint;
  }
}
