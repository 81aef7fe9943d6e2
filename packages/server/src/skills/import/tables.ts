import { isCanonicalName } from "@toolrack/core/internal";
import { defined } from "../../helpers/index.ts";
import type { NewExpert, NewSkillTool, SkillBundle } from "../../store/index.ts";
import { skillToolTypes } from "../../store/index.ts";

type Row = Readonly<Record<string, unknown>>;

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
  /** The database already has it: importing with `replace` would replace it. */
  readonly replaceable?: true;
}

export interface ImportedTables {
  readonly bundles: readonly SkillBundle[];
  readonly experts: readonly (NewExpert & { readonly id: string })[];
  /** Items that cannot be imported; all others can. */
  readonly failed: readonly ImportFailure[];
  readonly warnings: readonly string[];
}

/** Reads skills and experts from rows of other systems, with older or newer column names. Keeps the ids. */
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
  const more = ["version", "author", "tags", "argument_hint"].flatMap((key) => {
    const value = textOf(row, key);
    return value === undefined ? [] : [[key.replace("_", "-"), value]];
  });
  return {
    id,
    name,
    ...(mark !== undefined && /^[A-Za-z0-9_-]{1,50}$/.test(mark) && { mark }),
    description: textOf(row, "description") ?? "",
    instructions: textOf(row, "skill_md", "content", "instructions") ?? "",
    frontMatter: {
      ...defined({ license: textOf(row, "license") }),
      ...(more.length > 0 && { metadata: Object.fromEntries(more) }),
    },
    ...defined({ sourcePath: textOf(row, "source_path") }),
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
  const command = textOf(row, "command") ?? commandOf(textOf(row, "script_path"));
  const endpoint = textOf(row, "endpoint");
  const method = textOf(row, "method")?.match(/^[A-Za-z]{1,16}$/)?.[0];
  return [
    {
      name,
      ...defined({ id, displayName: textOf(row, "display_name", "title"), command, endpoint, method }),
      description: textOf(row, "description") ?? "",
      type: typeOf(row, endpoint),
      usage: textOf(row, "usage", "parameters") ?? "",
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
