import { isCanonicalName } from "@toolrack/core/internal";
import { defined } from "../../helpers/index.ts";
import type { NewExpert, NewSkillTool, SkillBundle } from "../../store/index.ts";
import { skillToolTypes } from "../../store/index.ts";
import { UnknownValue } from "./sql-dump.ts";

export const importedTables = ["skills", "skill_tools", "experts", "expert_skills"] as const;

type Row = Readonly<Record<string, unknown>>;

export interface ImportFailure {
  readonly name: string;
  readonly reason: string;
  /** The database already has the skill or expert: importing with `replace` would replace it. */
  readonly replaceable?: true;
}

export interface ImportedTables {
  readonly bundles: readonly SkillBundle[];
  readonly experts: readonly (NewExpert & { readonly id: string })[];
  /** Skills and experts that cannot be imported; all others can. */
  readonly failed: readonly ImportFailure[];
  readonly warnings: readonly string[];
}

/**
 * Reads skills and experts from rows of other systems, with older or newer column names. Keeps the ids. Throws for a
 * value that only the database can compute.
 */
export function fromTables(tables: ReadonlyMap<string, readonly Row[]>, trusted: boolean): ImportedTables {
  const warnings: string[] = [];
  const failed: ImportFailure[] = [];
  const rowsOf = (table: (typeof importedTables)[number]): RowReader[] =>
    (tables.get(table) ?? []).map((row) => new RowReader(table, row));
  /** Returns the rows that have a usable id and name, and adds the others to `failed`. */
  const usable = (rows: readonly RowReader[], what: string, ...nameColumns: readonly string[]) =>
    rows.flatMap((row) => {
      const id = row.text("id");
      const name = row.text(...nameColumns);
      if (id !== undefined && name !== undefined && isCanonicalName(id)) return [{ id, name, row }];
      const reason = `It has no name, or no id of letters, digits, _ and -, at most 64: ${row}`;
      failed.push({ name: `${what} ${name ?? id ?? ""}`.trim(), reason });
      return [];
    });

  const skills = usable(rowsOf("skills"), "skill", "name");
  const known = new Set(skills.map(({ id }) => id));
  const tools = Map.groupBy(rowsOf("skill_tools"), (row) => row.text("skill_id") ?? "");
  const bundles = skills.map(({ id, name, row }): SkillBundle => {
    const own = (tools.get(id) ?? []).flatMap((tool) => toTool(tool, name, warnings));
    return { skill: { id, name, ...toSkill(row), trusted }, tools: own, files: [] };
  });
  for (const [id, orphans] of tools) {
    if (!known.has(id))
      warnings.push(`${orphans.length} tools of the skill "${id}" are left out: there is no such skill.`);
  }

  const links = rowsOf("expert_skills").filter((row) => !row.isOff("is_enabled", "enabled"));
  const skillsOf = Map.groupBy(links, (row) => row.text("expert_id"));
  const experts = usable(rowsOf("experts"), "expert", "name", "expert_name").map(({ id, name, row }) => {
    const own = (skillsOf.get(id) ?? []).flatMap((link) => link.text("skill_id") ?? []);
    return {
      id,
      name,
      description: row.text("description", "introduction") ?? "",
      instructions: row.text("instructions", "prompt_template", "prompt") ?? "",
      skills: own.filter((skill) => known.has(skill)),
      tools: [],
    };
  });
  return { bundles, experts, failed, warnings };
}

/** Texts that mean false. MariaDB writes a bit that is not set as a text of one zero byte. */
const off = new Set(["0", "\0", "false", "f", "no", "n", "off"]);

class RowReader {
  readonly #table: string;
  readonly #row: Row;

  constructor(table: string, row: Row) {
    this.#table = table;
    this.#row = row;
  }

  /** The text in the first of these columns that has a value. */
  text(...columns: readonly string[]): string | undefined {
    for (const column of columns) {
      const value = this.#row[column];
      if (value instanceof UnknownValue) throw value.problem(`${this.#table}.${column}`);
      if (value !== null && value !== undefined && value !== "") return String(value);
    }
    return undefined;
  }

  isOff(...columns: readonly string[]): boolean {
    return columns.some((column) => off.has((this.text(column) ?? "").toLowerCase()));
  }

  toString(): string {
    return JSON.stringify(this.#row).slice(0, 200);
  }
}

function toSkill(row: RowReader): Omit<SkillBundle["skill"], "id" | "name"> {
  const mark = row.text("mark");
  const metadata = defined({
    version: row.text("version"),
    author: row.text("author"),
    tags: row.text("tags"),
    "argument-hint": row.text("argument_hint"),
  });
  return {
    ...(mark !== undefined && /^[A-Za-z0-9_-]{1,50}$/.test(mark) && { mark }),
    description: row.text("description") ?? "",
    instructions: row.text("skill_md", "content", "instructions") ?? "",
    frontMatter: {
      ...defined({ license: row.text("license") }),
      ...(Object.keys(metadata).length > 0 && { metadata }),
    },
    ...defined({ sourcePath: row.text("source_path") }),
    enabled: !row.isOff("is_active", "enabled"),
  };
}

function toTool(row: RowReader, skill: string, warnings: string[]): NewSkillTool[] {
  const id = row.text("id");
  const name = row.text("name");
  if (name === undefined || (id !== undefined && !isCanonicalName(id))) {
    warnings.push(`A tool of "${skill}" without a usable id or name is left out.`);
    return [];
  }
  const script = row.text("script_path");
  const isResident = row.text("is_resident") !== undefined && !row.isOff("is_resident");
  const ofScript = script && `${script.endsWith(".py") ? "python3" : "node"} ${script}`;
  const command = row.text("command") ?? (script?.startsWith("resident://") ? script : ofScript);
  const endpoint = row.text("endpoint");
  const method = row.text("method")?.match(/^[A-Za-z]{1,16}$/)?.[0];
  const displayName = row.text("display_name", "title");
  const type = row.text("type");
  return [
    {
      name,
      ...defined({ id, displayName, endpoint, method }),
      // The refusal of such a command says why the tool does not run.
      ...defined({ command: isResident ? `resident://${script ?? name}` : command }),
      description: row.text("description") ?? "",
      type: skillToolTypes.find((one) => one === type) ?? (endpoint === undefined ? "script" : "http"),
      usage: row.text("usage", "parameters") ?? "",
      enabled: !row.isOff("is_active", "enabled"),
    },
  ];
}
