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
    skill_md: toStorableText(skill.instructions ?? ""),
  };
}

export function toSkill(row: SkillRow): StoredSkill {
  return {
    id: row.id,
    name: row.name,
    ...(row.mark === null ? {} : { mark: row.mark }),
    description: row.description,
    instructions: row.skill_md,
    // Written by `toSkillRow`.
    frontMatter: JSON.parse(row.front_matter) as Record<string, unknown>,
    ...(row.source_path === null ? {} : { sourcePath: row.source_path }),
    enabled: row.enabled === 1,
    trusted: row.trusted === 1,
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
    description: row.description,
    type: row.type,
    usage: row.usage,
    ...(row.command === null ? {} : { command: row.command }),
    ...(row.endpoint === null ? {} : { endpoint: row.endpoint }),
    ...(row.method === null ? {} : { method: row.method }),
    enabled: row.enabled === 1,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

function storable(text: string | undefined): string | null {
  return text === undefined ? null : toStorableText(text);
}
