import { isCanonicalName } from "@toolrack/core";
import type { NewExpert } from "../../store/experts.ts";
import { type NewSkillTool, type SkillBundle, skillToolTypes } from "../../store/skill-tables.ts";
import { SkillInputError } from "../checks.ts";
import type { Expert } from "../experts.ts";
import type { LoadedSkill } from "../folder.ts";
import type { SkillLibrary } from "../skill-library.ts";
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
    const reason = thrown instanceof Error ? thrown.message : String(thrown);
    failed.push({ name, reason, ...(isReplaceable ? { replaceable: true } : {}) });
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

type Row = Readonly<Record<string, unknown>>;

/** The columns that are kept, by their tables. */
export const importedColumns: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  [
    "skills",
    new Set([
      ...["id", "name", "mark", "source_path", "license", "version", "author", "tags", "argument_hint"],
      ...["description", "skill_md", "content", "instructions", "is_active", "enabled"],
    ]),
  ],
  [
    "skill_tools",
    new Set([
      ...["id", "skill_id", "name", "display_name", "title", "description", "type", "usage", "parameters"],
      ...["command", "script_path", "endpoint", "method", "is_active", "enabled"],
    ]),
  ],
  [
    "experts",
    new Set([
      ...["id", "name", "expert_name", "description", "introduction"],
      ...["instructions", "prompt_template", "prompt"],
    ]),
  ],
  ["expert_skills", new Set(["expert_id", "skill_id", "is_enabled", "enabled"])],
]);

export interface ImportFailure {
  readonly name: string;
  readonly reason: string;
  /** It is there already, in the database: importing it once more with `replace` would take its place. */
  readonly replaceable?: true;
}

export interface ImportedTables {
  readonly bundles: readonly SkillBundle[];
  readonly experts: readonly (NewExpert & { readonly id: string })[];
  /** What cannot be imported; the others can. */
  readonly failed: readonly ImportFailure[];
  readonly warnings: readonly string[];
}

/** Skills and experts of rows as other systems have them, older and newer column names alike. Ids stay. */
export function fromTables(tables: ReadonlyMap<string, readonly Row[]>, trusted: boolean): ImportedTables {
  const warnings: string[] = [];
  const failed: ImportFailure[] = [];
  const tools = Map.groupBy(tables.get("skill_tools") ?? [], (row) => textOf(row, "skill_id") ?? "");
  const known = new Set<string>();
  const bundles = (tables.get("skills") ?? []).flatMap((row): SkillBundle[] => {
    const id = textOf(row, "id");
    const name = textOf(row, "name");
    if (id === undefined || name === undefined || !isCanonicalName(id)) {
      failed.push({ name: `skill ${name ?? id ?? ""}`.trim(), reason: unusable(row) });
      return [];
    }
    known.add(id);
    const own = (tools.get(id) ?? []).flatMap((tool) => toTool(tool, name, warnings));
    return [{ skill: { ...toSkill(row, id, name), trusted }, tools: own, files: [] }];
  });
  for (const [id, orphans] of tools) {
    if (!known.has(id))
      warnings.push(`${orphans.length} tools of the skill "${id}" are left out: there is no such skill.`);
  }
  return { bundles, experts: toExperts(tables, known, failed), failed, warnings };
}

function unusable(row: Row): string {
  return `It has no name, or no id of letters, digits, _ and -, at most 64: ${JSON.stringify(row).slice(0, 200)}`;
}

function toSkill(row: Row, id: string, name: string): SkillBundle["skill"] {
  const mark = textOf(row, "mark");
  const sourcePath = textOf(row, "source_path");
  const license = textOf(row, "license");
  const more = ["version", "author", "tags", "argument_hint"].flatMap((key) => {
    const value = textOf(row, key);
    return value === undefined ? [] : [[key.replace("_", "-"), value]];
  });
  return {
    id,
    name,
    ...(mark !== undefined && /^[A-Za-z0-9_-]{1,50}$/.test(mark) ? { mark } : {}),
    description: textOf(row, "description") ?? "",
    instructions: textOf(row, "skill_md", "content", "instructions") ?? "",
    frontMatter: {
      ...(license === undefined ? {} : { license }),
      ...(more.length === 0 ? {} : { metadata: Object.fromEntries(more) }),
    },
    ...(sourcePath === undefined ? {} : { sourcePath }),
    enabled: !isOff(row, "is_active", "enabled"),
  };
}

function toTool(row: Row, skill: string, warnings: string[]): NewSkillTool[] {
  const id = textOf(row, "id");
  const name = textOf(row, "name");
  if (name === undefined || (id !== undefined && !isCanonicalName(id))) {
    warnings.push(`A tool of "${skill}" without a usable id or name is left out.`);
    return [];
  }
  const displayName = textOf(row, "display_name", "title");
  const command = textOf(row, "command") ?? commandOf(textOf(row, "script_path"));
  const endpoint = textOf(row, "endpoint");
  const method = textOf(row, "method")?.match(/^[A-Za-z]{1,16}$/)?.[0];
  return [
    {
      ...(id === undefined ? {} : { id }),
      name,
      ...(displayName === undefined ? {} : { displayName }),
      description: textOf(row, "description") ?? "",
      type: typeOf(row, endpoint),
      usage: textOf(row, "usage", "parameters") ?? "",
      ...(command === undefined ? {} : { command }),
      ...(endpoint === undefined ? {} : { endpoint }),
      ...(method === undefined ? {} : { method }),
      enabled: !isOff(row, "is_active", "enabled"),
    },
  ];
}

function typeOf(row: Row, endpoint: string | undefined): NewSkillTool["type"] {
  const written = textOf(row, "type");
  const known = skillToolTypes.find((type) => type === written);
  return known ?? (endpoint === undefined ? "script" : "http");
}

function commandOf(script: string | undefined): string | undefined {
  if (script === undefined) return undefined;
  return `${script.endsWith(".py") ? "python3" : "node"} ${script}`;
}

function toExperts(
  tables: ReadonlyMap<string, readonly Row[]>,
  skills: ReadonlySet<string>,
  failed: ImportFailure[],
) {
  const links = (tables.get("expert_skills") ?? []).filter((row) => !isOff(row, "is_enabled", "enabled"));
  const bySkill = Map.groupBy(links, (row) => textOf(row, "expert_id") ?? "");
  return (tables.get("experts") ?? []).flatMap((row) => {
    const id = textOf(row, "id");
    const name = textOf(row, "name", "expert_name");
    if (id === undefined || name === undefined || !isCanonicalName(id)) {
      failed.push({ name: `expert ${name ?? id ?? ""}`.trim(), reason: unusable(row) });
      return [];
    }
    const own = (bySkill.get(id) ?? []).flatMap((link) => textOf(link, "skill_id") ?? []);
    return [
      {
        id,
        name,
        description: textOf(row, "description", "introduction") ?? "",
        instructions: textOf(row, "instructions", "prompt_template", "prompt") ?? "",
        skills: own.filter((skill) => skills.has(skill)),
        tools: [],
      },
    ];
  });
}

function textOf(row: Row, ...names: readonly string[]): string | undefined {
  for (const name of names) {
    const value = row[name];
    if (value !== null && value !== undefined && value !== "") return String(value);
  }
  return undefined;
}

/** MariaDB writes a bit that is not set as a text of one zero byte. */
const off = new Set(["0", "\0", "false", "f", "no", "n", "off"]);

function isOff(row: Row, ...names: readonly string[]): boolean {
  return names.some((name) => off.has(String(row[name] ?? "").toLowerCase()));
}
