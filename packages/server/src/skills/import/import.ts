import { reasonOf } from "../../helpers/index.ts";
import type { SkillBundle } from "../../store/index.ts";
import type { Expert } from "../experts.ts";
import { type LoadedSkill, SkillInputError } from "../skill.ts";
import type { SkillLibrary } from "../skill-library.ts";
import type { ImportedTables, ImportFailure } from "./imported-tables.ts";
import { type ImportOptions, readImport } from "./upload.ts";

interface Replacing {
  /** Whether to replace skills and experts with the same ids. */
  readonly replace: boolean;
}

interface Failures {
  /** Skills and experts that could not be imported; all others were. */
  readonly failed: readonly ImportFailure[];
  readonly warnings: readonly string[];
}

export interface Imported extends Failures {
  readonly skills: readonly LoadedSkill[];
  readonly experts: readonly Expert[];
}

/** Imports skills and experts into the database. */
export async function importSkills(
  library: SkillLibrary,
  paths: readonly string[],
  options: ImportOptions & Replacing,
): Promise<Imported> {
  return keepImport(library, await readImport(paths, { install: library.install, ...options }), options);
}

/** Like `importSkills`, for tables that were already read. */
export async function keepImport(
  library: SkillLibrary,
  found: ImportedTables,
  { replace }: Replacing,
): Promise<Imported> {
  const skills: LoadedSkill[] = [];
  const experts: Expert[] = [];
  const failed = [...found.failed];
  for (const bundle of found.bundles) {
    await library.add(bundle, { replace }).then(
      (skill) => skills.push(skill),
      (thrown) => failed.push(failure(bundle.skill.name, thrown, !replace && isStored(library, bundle))),
    );
  }
  for (const expert of found.experts) {
    const isThere = library.experts.find(expert.id) !== undefined;
    const { id, ...changes } = expert;
    const work = replace && isThere ? library.experts.update(id, changes) : library.experts.create(expert);
    await work.then(
      (kept) => experts.push(kept),
      (thrown) => failed.push(failure(`expert ${expert.name}`, thrown, !replace && isThere)),
    );
  }
  return { skills, experts, failed, warnings: found.warnings };
}

function isStored(library: SkillLibrary, { skill: { id } }: SkillBundle): boolean {
  return library.list().some((skill) => skill.id === id && skill.owner === "database");
}

function failure(name: string, thrown: unknown, isReplaceable: boolean): ImportFailure {
  return { name, reason: reasonOf(thrown), ...(isReplaceable && { replaceable: true }) };
}

export interface ImportPlan extends Failures {
  /** `replaces`: whether the import replaces a skill of the database with the same id. */
  readonly skills: readonly { readonly bundle: SkillBundle; readonly replaces: boolean }[];
  readonly experts: readonly { readonly id: string; readonly name: string; readonly replaces: boolean }[];
}

/** Tells what an import would do, without changing anything. */
export function planImport(library: SkillLibrary, found: ImportedTables, { replace }: Replacing): ImportPlan {
  const failed = [...found.failed];
  const skills: ImportPlan["skills"][number][] = [];
  /** The id of the skill that has each unique value, among the stored skills and those already planned. */
  const owners = new Map<string, string>();
  const claim = (bundle: Pick<SkillBundle, "skill" | "tools">) => {
    for (const { field, value } of claimsOf(bundle)) owners.set(`${field} ${value}`, bundle.skill.id ?? "");
  };
  for (const skill of library.list()) if (skill.owner === "database") claim({ skill, tools: skill.tools });
  for (const bundle of found.bundles) {
    const { id, name } = bundle.skill;
    const isThere = isStored(library, bundle);
    try {
      library.check(bundle);
      if (isThere && !replace)
        throw SkillInputError.of("id", `There is a skill with the id "${id}" already.`);
      for (const { field, value, refusal } of claimsOf(bundle)) {
        const owner = owners.get(`${field} ${value}`);
        if (owner !== undefined && owner !== id) throw SkillInputError.of(field, refusal);
      }
    } catch (thrown) {
      if (!(thrown instanceof SkillInputError)) throw thrown;
      failed.push(failure(name, thrown, isThere && !replace));
      continue;
    }
    claim(bundle);
    skills.push({ bundle, replaces: isThere });
  }
  const experts = found.experts.flatMap(({ id, name }) => {
    const holder = library.experts.find(id);
    const namesake = library.experts.find(name);
    const isThere = holder !== undefined;
    if (isThere ? replace : namesake === undefined) return [{ id, name, replaces: isThere }];
    const reason = `There is an expert "${(holder ?? namesake)?.name}" already.`;
    failed.push(failure(`expert ${name}`, reason, isThere));
    return [];
  });
  return { skills, experts, failed, warnings: found.warnings };
}

/** The values that only one skill may have, each with the error for another skill that wants it. */
function claimsOf({ skill: { name, mark }, tools }: Pick<SkillBundle, "skill" | "tools">) {
  return [
    { field: "name", value: name, refusal: `There is a skill "${name}" already.` },
    ...(mark === undefined
      ? []
      : [{ field: "mark", value: mark, refusal: `Another skill has the mark "${mark}" already.` }]),
    ...tools.flatMap(({ id }) =>
      id === undefined
        ? []
        : [{ field: "id", value: id, refusal: `There is a tool with the id "${id}" already.` }],
    ),
  ];
}
