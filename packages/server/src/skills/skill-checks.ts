import type { ToolInfo } from "@toolrack/core";
import { adaptSkillTool } from "../sources/skills/adapt-skill-tool.ts";
import type { LoadedSkill } from "../sources/skills/loaded-skill.ts";
import type { SkillSurroundings } from "../sources/skills/run-environment.ts";
import { isSafePath } from "../sources/skills/skill-files.ts";
import { UsageError } from "../sources/skills/usage-error.ts";
import { newId } from "../store/skills/new-id.ts";
import {
  type NewSkillTool,
  SkillConflictError,
  type SkillStore,
  type SkillToolChanges,
  type StoredSkillTool,
} from "../store/skills/skill-store.ts";
import { loadStoredSkill } from "./load-skills.ts";
import { SkillInputError, SkillMissingError } from "./skill-input-error.ts";

/** Throws `SkillInputError` that names the field. */
export function checkSkill({ name, mark }: { readonly name?: string; readonly mark?: string | null }): void {
  if (name !== undefined && (name.trim() === "" || [...name].length > 128)) {
    throw SkillInputError.of("name", "It must have 1 to 128 characters.");
  }
  if (typeof mark === "string" && !/^[A-Za-z0-9_-]{1,50}$/.test(mark)) {
    throw SkillInputError.of("mark", "It must be letters, digits, _ and -, at most 50.");
  }
}

export function checkPaths(paths: Iterable<string>): void {
  for (const path of paths) {
    if (!isSafePath(path)) throw SkillInputError.of("files", `"${path}" is no path for a file.`);
  }
}

/** The tool as it would be on the rack. Throws `SkillInputError` that names the field. */
export async function checkTool(
  skill: LoadedSkill,
  tool: NewSkillTool,
  surroundings: SkillSurroundings,
  store: Pick<SkillStore, "listFiles">,
): Promise<ToolInfo> {
  const { name } = tool;
  if (name.trim() === "" || [...name].length > 64) {
    throw SkillInputError.of("name", "It must have 1 to 64 characters.");
  }
  const candidate = toStoredTool(skill.id, tool);
  const isStored = skill.owner === "database";
  // The first script of a skill is what brings its files to where scripts find them.
  const placed = isStored ? await loadStoredSkill(skill, [candidate], store, surroundings.workspace) : skill;
  try {
    return adaptSkillTool(placed, candidate, surroundings, "id");
  } catch (thrown) {
    if (thrown instanceof UsageError) throw SkillInputError.of(thrown.field, thrown.message);
    throw thrown;
  }
}

/** A tool with changes, as if it were new. */
export function withChanges(tool: StoredSkillTool, changes: SkillToolChanges): NewSkillTool {
  const entries = Object.entries({ ...tool, ...changes }).filter(([, value]) => value !== null);
  // Without what is null it is exactly that.
  return Object.fromEntries(entries) as unknown as NewSkillTool;
}

/** By its id or name. Throws `SkillMissingError`. */
export function toolOf(skill: LoadedSkill, idOrName: string): StoredSkillTool {
  const found = skill.tools.find(({ id, name }) => id === idOrName || name === idOrName);
  if (found === undefined) throw missingTool(skill, idOrName);
  return found;
}

/** What the store refuses because another row has it is refused by its field. */
export async function namingField<Value>(work: Promise<Value>): Promise<Value> {
  try {
    return await work;
  } catch (thrown) {
    if (thrown instanceof SkillConflictError) throw SkillInputError.of(thrown.field, thrown.message);
    throw thrown;
  }
}

export function missingSkill(idOrName: string): SkillMissingError {
  return new SkillMissingError("skill", `There is no skill "${idOrName}".`);
}

export function missingTool({ name }: LoadedSkill, tool: string): SkillMissingError {
  return new SkillMissingError("skill_tool", `The skill "${name}" has no tool "${tool}".`);
}

function toStoredTool(skillId: string, tool: NewSkillTool): StoredSkillTool {
  return {
    id: newId(),
    description: "",
    usage: "",
    enabled: true,
    ...tool,
    skillId,
    createdAt: 0,
    updatedAt: 0,
  };
}
