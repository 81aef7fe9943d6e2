import { reasonOf } from "../../helpers/index.ts";
import type { NewSkillTool, SkillBundle } from "../../store/index.ts";
import type { Expert } from "../experts.ts";
import { type LoadedSkill, SkillInputError } from "../skill.ts";
import type { SkillLibrary } from "../skill-library.ts";
import type { ImportedTables, ImportFailure } from "./tables.ts";
import { type ImportOptions, readImport } from "./upload.ts";

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
function isStored(library: SkillLibrary, id: string | undefined): boolean {
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
    failed.push({ name, reason: reasonOf(thrown), ...(isReplaceable && { replaceable: true }) });
  }
}

interface PlannedSkill {
  readonly bundle: SkillBundle;
  /** One with its id is there and would go. */
  readonly replaces: boolean;
}

interface PlannedExpert {
  readonly id: string;
  readonly name: string;
  readonly replaces: boolean;
}

export interface ImportPlan {
  readonly skills: readonly PlannedSkill[];
  readonly experts: readonly PlannedExpert[];
  /** What would not be imported, and why. */
  readonly failed: readonly ImportFailure[];
  readonly warnings: readonly string[];
}

/** What an import would do. Nothing is changed. */
export function planImport(
  library: SkillLibrary,
  found: ImportedTables,
  { replace }: { readonly replace: boolean },
): ImportPlan {
  const failed = [...found.failed];
  const skills: PlannedSkill[] = [];
  const taken = takenBy(library.list());
  for (const bundle of found.bundles) {
    const { skill } = bundle;
    const isThere = isStored(library, skill.id);
    try {
      library.check(bundle);
      if (isThere && !replace)
        throw SkillInputError.of("id", `There is a skill with the id "${skill.id}" already.`);
      refuseTaken(bundle, taken);
    } catch (thrown) {
      if (!(thrown instanceof SkillInputError)) throw thrown;
      const replaceable = isThere && !replace ? { replaceable: true as const } : {};
      failed.push({ name: skill.name, reason: thrown.message, ...replaceable });
      continue;
    }
    take(taken, skill.id ?? "", bundle);
    skills.push({ bundle, replaces: isThere });
  }
  const experts = found.experts.flatMap(({ id, name }): PlannedExpert[] => {
    const isThere = library.experts.find(id) !== undefined;
    const namesake = library.experts.find(name);
    if (isThere ? replace : namesake === undefined) return [{ id, name, replaces: isThere }];
    const reason = `There is an expert "${(library.experts.find(id) ?? namesake)?.name}" already.`;
    failed.push({ name: `expert ${name}`, reason, ...(isThere ? { replaceable: true } : {}) });
    return [];
  });
  return { skills, experts, failed, warnings: found.warnings };
}

/** Which skill has a name, a mark or a tool's id, of those where no two skills may have the same. */
interface Taken {
  readonly names: Map<string, string>;
  readonly marks: Map<string, string>;
  readonly tools: Map<string, string>;
}

interface Claims {
  readonly skill: { readonly name: string; readonly mark?: string };
  readonly tools: readonly Pick<NewSkillTool, "id">[];
}

function takenBy(skills: ReturnType<SkillLibrary["list"]>): Taken {
  const taken: Taken = { names: new Map(), marks: new Map(), tools: new Map() };
  for (const skill of skills) {
    if (skill.owner === "database") take(taken, skill.id, { skill, tools: skill.tools });
  }
  return taken;
}

function take({ names, marks, tools }: Taken, id: string, claims: Claims): void {
  names.set(claims.skill.name, id);
  if (claims.skill.mark !== undefined) marks.set(claims.skill.mark, id);
  for (const tool of claims.tools) if (tool.id !== undefined) tools.set(tool.id, id);
}

function refuseTaken({ skill, tools }: SkillBundle, taken: Taken): void {
  const isOthers = (owner: string | undefined) => owner !== undefined && owner !== skill.id;
  if (isOthers(taken.names.get(skill.name))) {
    throw SkillInputError.of("name", `There is a skill "${skill.name}" already.`);
  }
  if (skill.mark !== undefined && isOthers(taken.marks.get(skill.mark))) {
    throw SkillInputError.of("mark", `Another skill has the mark "${skill.mark}" already.`);
  }
  const tool = tools.find(({ id }) => id !== undefined && isOthers(taken.tools.get(id)));
  if (tool !== undefined) throw SkillInputError.of("id", `There is a tool with the id "${tool.id}" already.`);
}
