import type { LoadedSkill } from "../../sources/skills/loaded-skill.ts";
import type { Expert } from "../experts.ts";
import type { SkillLibrary } from "../skill-library.ts";
import type { ImportedTables, ImportFailure } from "./from-tables.ts";
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
  return keepImport(library, await readImport(paths, options), options);
}

/** The same for what has been read. */
export async function keepImport(
  library: SkillLibrary,
  found: ImportedTables,
  { replace }: { readonly replace: boolean },
): Promise<Imported> {
  const skills: LoadedSkill[] = [];
  const experts: Expert[] = [];
  const failed = [...found.failed];
  for (const bundle of found.bundles) {
    await attempt(bundle.skill.name, failed, !replace && isStored(library, bundle.skill.id), async () => {
      skills.push(await library.add(bundle, { replace }));
    });
  }
  for (const expert of found.experts) {
    const isThere = library.experts.find(expert.id) !== undefined;
    await attempt(`expert ${expert.name}`, failed, !replace && isThere, async () => {
      const { id, ...changes } = expert;
      const work = replace && isThere ? library.experts.update(id, changes) : library.experts.create(expert);
      experts.push(await work);
    });
  }
  return { skills, experts, failed, warnings: found.warnings };
}

/** Whether the tables have a skill with this id. */
export function isStored(library: SkillLibrary, id: string | undefined): boolean {
  return id !== undefined && library.list().some((skill) => skill.id === id && skill.owner === "database");
}

/** Whatever is wrong with one of them, the others are imported. */
async function attempt(
  name: string,
  failed: ImportFailure[],
  isReplaceable: boolean,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (thrown) {
    const reason = thrown instanceof Error ? thrown.message : String(thrown);
    failed.push({ name, reason, ...(isReplaceable ? { replaceable: true } : {}) });
  }
}
