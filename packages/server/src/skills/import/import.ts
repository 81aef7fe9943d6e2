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
  /** Items that could not be imported; all others were. */
  readonly failed: readonly ImportFailure[];
  readonly warnings: readonly string[];
}

/** Imports skills and experts into the database. `replace`: replaces those with the same ids. */
export async function importSkills(
  library: SkillLibrary,
  paths: readonly string[],
  options: ImportOptions & { readonly replace: boolean },
): Promise<Imported> {
  return keepImport(library, await readImport(paths, options), options);
}

/** Like `importSkills`, for tables that were already read. */
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

function isStored(library: SkillLibrary, id: string | undefined): boolean {
  return id !== undefined && library.list().some((skill) => skill.id === id && skill.owner === "database");
}

/** Notes a failure, so that the other items are still imported. */
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
  /** Whether it replaces a skill with the same id. */
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
  readonly failed: readonly ImportFailure[];
  readonly warnings: readonly string[];
}

/** Tells what an import would do, without changing anything. */
export function planImport(
  library: SkillLibrary,
  found: ImportedTables,
  { replace }: { readonly replace: boolean },
): ImportPlan {
  const failed = [...found.failed];
  const skills: PlannedSkill[] = [];
  const claims = new Claims(library.list());
  for (const bundle of found.bundles) {
    const { skill } = bundle;
    const isThere = isStored(library, skill.id);
    try {
      library.check(bundle);
      if (isThere && !replace)
        throw SkillInputError.of("id", `There is a skill with the id "${skill.id}" already.`);
      claims.refuseTaken(bundle);
    } catch (thrown) {
      if (!(thrown instanceof SkillInputError)) throw thrown;
      const isReplaceable = isThere && !replace;
      failed.push({ name: skill.name, reason: thrown.message, ...(isReplaceable && { replaceable: true }) });
      continue;
    }
    claims.take(bundle);
    skills.push({ bundle, replaces: isThere });
  }
  const experts = found.experts.flatMap(({ id, name }): PlannedExpert[] => {
    const isThere = library.experts.find(id) !== undefined;
    const namesake = library.experts.find(name);
    if (isThere ? replace : namesake === undefined) return [{ id, name, replaces: isThere }];
    const reason = `There is an expert "${(library.experts.find(id) ?? namesake)?.name}" already.`;
    failed.push({ name: `expert ${name}`, reason, ...(isThere && { replaceable: true }) });
    return [];
  });
  return { skills, experts, failed, warnings: found.warnings };
}

/** A value that only one skill may have, and the error for another skill that wants it. */
interface Claim {
  readonly field: "name" | "mark" | "id";
  readonly value: string;
  readonly refusal: string;
}

interface Claimant {
  readonly skill: { readonly id?: string; readonly name: string; readonly mark?: string };
  readonly tools: readonly Pick<NewSkillTool, "id">[];
}

function claimsOf({ skill: { name, mark }, tools }: Claimant): Claim[] {
  const ids = tools.flatMap(({ id }) => id ?? []);
  return [
    { field: "name", value: name, refusal: `There is a skill "${name}" already.` },
    ...[mark ?? []].flat().map(
      (value): Claim => ({
        field: "mark",
        value,
        refusal: `Another skill has the mark "${value}" already.`,
      }),
    ),
    ...ids.map(
      (value): Claim => ({ field: "id", value, refusal: `There is a tool with the id "${value}" already.` }),
    ),
  ];
}

/** Which skill has which unique values, while skills are added one by one. */
class Claims {
  readonly #owners = new Map<string, string>();

  constructor(skills: readonly LoadedSkill[]) {
    for (const skill of skills) if (skill.owner === "database") this.take({ skill, tools: skill.tools });
  }

  take(claimant: Claimant): void {
    for (const { field, value } of claimsOf(claimant))
      this.#owners.set(`${field} ${value}`, claimant.skill.id ?? "");
  }

  /** Throws `SkillInputError` for a value that another skill has. */
  refuseTaken(claimant: Claimant): void {
    for (const { field, value, refusal } of claimsOf(claimant)) {
      const owner = this.#owners.get(`${field} ${value}`);
      if (owner !== undefined && owner !== claimant.skill.id) throw SkillInputError.of(field, refusal);
    }
  }
}
