import { existsSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { writeSkillText } from "../sources/skills/front-matter.ts";
import type { LoadedSkill } from "../sources/skills/loaded-skill.ts";
import { readSkillFiles, writeSkillFiles } from "../sources/skills/skill-files.ts";
import { skillMetadataKeys } from "../sources/skills/skill-folder.ts";
import { slugOf } from "../sources/skills/tool-names.ts";
import { writeToolsFile } from "../sources/skills/tools-file.ts";
import type { SkillFile } from "../store/skills/skill-store.ts";

/** The name of a skill where only lower-case letters, digits and dashes may stand. */
export function folderNameOf({ name, frontMatter }: Pick<LoadedSkill, "name" | "frontMatter">): string {
  const written = typeof frontMatter.name === "string" ? frontMatter.name : name;
  const slug = /^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(written) ? written : slugOf(written, "-");
  return slug.slice(0, 64).replace(/-+$/, "");
}

/** The `SKILL.md` of a skill. What its format has no word for stands in `metadata`, so that nothing is lost. */
export function skillTextOf(skill: LoadedSkill): Promise<string> {
  return writeSkillText({ frontMatter: frontMatterOf(skill), body: skill.instructions });
}

function frontMatterOf(skill: LoadedSkill): Record<string, unknown> {
  const { id, name, mark, description, enabled, owner, sourcePath } = skill;
  const { name: _name, metadata, ...rest } = skill.frontMatter;
  const folderName = folderNameOf(skill);
  const own = {
    ...(typeof metadata === "object" && metadata !== null ? metadata : {}),
    [skillMetadataKeys.id]: id,
    ...(folderName === name ? {} : { [skillMetadataKeys.title]: name }),
    ...(mark === undefined ? {} : { [skillMetadataKeys.mark]: mark }),
    ...(sourcePath === undefined || owner === "folder" ? {} : { [skillMetadataKeys.sourcePath]: sourcePath }),
    ...(enabled ? {} : { [skillMetadataKeys.enabled]: "false" }),
  };
  return {
    name: folderName,
    description,
    ...rest,
    metadata: own,
  };
}

/** Files beside `SKILL.md` and `tools.json`. */
export function otherFiles(files: readonly SkillFile[]): SkillFile[] {
  return files.filter(({ path }) => path !== "SKILL.md" && path !== "tools.json");
}

/**
 * Writes a skill as a folder below the given one, and answers where. Reading it again gives the same skill, with the
 * same ids. A folder that is there is refused, or replaced when it is said so.
 */
export async function exportSkill(
  skill: LoadedSkill,
  stored: () => Promise<readonly SkillFile[]>,
  parent: string,
  { replace = false }: { readonly replace?: boolean } = {},
): Promise<string> {
  const folder = join(parent, folderNameOf(skill));
  const isOwn = skill.owner === "folder" && skill.directory === folder;
  if (existsSync(folder) && (!replace || isOwn)) {
    throw new Error(`${folder} is there already.${isOwn ? " It is the skill's own folder." : ""}`);
  }
  const files = skill.owner === "folder" ? await readSkillFiles(skill.directory ?? "") : await stored();
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await writeSkillFiles(folder, otherFiles(files));
  await writeFile(join(folder, "SKILL.md"), await skillTextOf(skill));
  if (skill.tools.length > 0) await writeFile(join(folder, "tools.json"), writeToolsFile(skill.tools));
  return folder;
}
