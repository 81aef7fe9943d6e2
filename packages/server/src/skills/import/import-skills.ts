import type { LoadedSkill } from "../../sources/skills/loaded-skill.ts";
import type { Expert } from "../experts.ts";
import type { SkillLibrary } from "../skill-library.ts";
import type { ImportFailure } from "./from-tables.ts";
import { type ImportOptions, readImport } from "./read-import.ts";

export interface Imported {
  readonly skills: readonly LoadedSkill[];
  readonly experts: readonly Expert[];
  /** What could not be imported; the others are. */
  readonly failed: readonly ImportFailure[];
  readonly warnings: readonly string[];
}

/** Puts skills and experts from elsewhere into the database. `replace`: also in the place of those with their ids. */
export async function importSkills(
  library: SkillLibrary,
  paths: readonly string[],
  options: ImportOptions & { readonly replace: boolean },
): Promise<Imported> {
  const found = await readImport(paths, options);
  const skills: LoadedSkill[] = [];
  const experts: Expert[] = [];
  const failed = [...found.failed];
  for (const bundle of found.bundles) {
    await attempt(bundle.skill.name, failed, async () => {
      skills.push(await library.add(bundle, { replace: options.replace }));
    });
  }
  for (const expert of found.experts) {
    await attempt(`expert ${expert.name}`, failed, async () => {
      const isThere = options.replace && library.experts.find(expert.id) !== undefined;
      const { id, ...changes } = expert;
      experts.push(await (isThere ? library.experts.update(id, changes) : library.experts.create(expert)));
    });
  }
  return { skills, experts, failed, warnings: found.warnings };
}

/** Whatever is wrong with one of them, the others are imported. */
async function attempt(name: string, failed: ImportFailure[], work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (thrown) {
    failed.push({ name, reason: thrown instanceof Error ? thrown.message : String(thrown) });
  }
}
