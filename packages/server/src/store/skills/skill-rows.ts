import { toStorableText } from "../database/storable-text.ts";
import { toJson } from "../database/stored-json.ts";
import type { NewSkill, NewSkillTool, StoredSkill, StoredSkillTool } from "./skill-store.ts";
import type { SkillRow, SkillToolRow } from "./skill-tables.ts";

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

export interface ToolPlace {
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
