import type { LoadedSkill } from "../sources/skills/loaded-skill.ts";
import { exportSkill, folderNames } from "./export-skill.ts";
import type { SkillLibrary } from "./skill-library.ts";

export interface Exported {
  /** Absolute, in the order of the skills. */
  readonly folders: readonly string[];
  /** What could not be exported; the others are. */
  readonly failed: readonly { readonly name: string; readonly reason: string }[];
}

/** Writes each skill as a folder of its own below the given one, under a name that no other skill of the library has. */
export async function exportSkills(
  library: SkillLibrary,
  skills: readonly LoadedSkill[],
  parent: string,
  { replace = false }: { readonly replace?: boolean } = {},
): Promise<Exported> {
  const names = folderNames(library.list());
  const folders: string[] = [];
  const failed: { name: string; reason: string }[] = [];
  for (const skill of skills) {
    const name = names.get(skill.id);
    try {
      const options = { replace, ...(name === undefined ? {} : { name }) };
      folders.push(await exportSkill(skill, () => library.filesOf(skill), parent, options));
    } catch (thrown) {
      failed.push({ name: skill.name, reason: thrown instanceof Error ? thrown.message : String(thrown) });
    }
  }
  return { folders, failed };
}
