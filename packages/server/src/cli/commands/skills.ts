import { relative, resolve } from "node:path";
import type { App } from "../../index.ts";
import { SkillInputError, SkillMissingError, SkillReadOnlyError } from "../../skills/checks.ts";
import { exportSkills } from "../../skills/export.ts";
import { importSkills } from "../../skills/import/import.ts";
import type { SkillLibrary } from "../../skills/skill-library.ts";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { oneLine, printable } from "../text/printable.ts";
import { renderTable } from "../text/render-table.ts";
import { withApp } from "../with-app.ts";
import { withStore } from "../with-store.ts";

export type SkillAction = "list" | "show" | "import" | "export" | "trust" | "remove";

export interface SkillsOptions {
  readonly to?: string;
  readonly all?: boolean;
  readonly replace?: boolean;
  readonly trust?: boolean;
}

type Skill = ReturnType<SkillLibrary["require"]>;

/** `toolrack skills`: sets of tools in the database and in folders. A running server follows what is changed here. */
export async function skills(
  cli: Cli,
  action: SkillAction = "list",
  names: readonly string[],
  options: SkillsOptions,
): Promise<number> {
  if (names.length === 0 && needsNames(action, options)) {
    throw usageError(
      `Say which: ${cli.commandLine(`skills ${action} ${action === "import" ? "PATH..." : "NAME"}`)}`,
    );
  }
  return withStore(cli, (store) =>
    withApp(cli, { store }, (app) => naming(cli, () => actions[action](cli, app, names, options))),
  );
}

function needsNames(action: SkillAction, { all }: SkillsOptions): boolean {
  return action !== "list" && !(action === "export" && all === true);
}

type Action = (cli: Cli, app: App, names: readonly string[], options: SkillsOptions) => Promise<number>;

const actions: Readonly<Record<SkillAction, Action>> = {
  async list(cli, { skills: library }) {
    const all = library.list();
    const failed = library.failedFolders();
    if (cli.json) {
      cli.printJson({ skills: all.map((skill) => summaryOf(library, skill)), failed });
      return exitCodes.ok;
    }
    if (all.length === 0)
      cli.talk(`There are no skills. Bring some with: ${cli.commandLine("skills import PATH")}`);
    else {
      const rows = all.map((skill) => [
        skill.id,
        oneLine(skill.name),
        placeOf(skill),
        toolsOf(library, skill),
        oneLine(skill.description),
      ]);
      const head = ["ID", "NAME", "OWNER", "TOOLS", "DESCRIPTION"];
      const styleHead = (text: string) => cli.style("bold", text);
      cli.print(renderTable(rows, { head, styleHead, columns: cli.columns, flexible: 4 }).join("\n"));
    }
    for (const { folder, reason } of failed) cli.talk(`${folder}: ${reason}`);
    return exitCodes.ok;
  },

  async show(cli, { skills: library }, [name = ""]) {
    const skill = library.require(name);
    if (cli.json) {
      cli.printJson({
        ...summaryOf(library, skill),
        tools: skill.tools.map((tool) => toolOf(library, tool)),
      });
      return exitCodes.ok;
    }
    cli.print(`${cli.style("bold", printable(skill.name))}  ${skill.id}`);
    cli.print(`${placeOf(skill)}${skill.enabled ? "" : ", off"}${skill.trusted ? "" : ", not trusted"}`);
    if (skill.description !== "") cli.print(`\n${printable(skill.description)}`);
    for (const warning of skill.warnings) cli.talk(`warning: ${warning}`);
    const rows = skill.tools.map((tool) => [
      tool.id,
      oneLine(tool.name),
      tool.type,
      library.failureOf(tool.id) ?? oneLine(tool.description),
    ]);
    if (rows.length > 0) {
      const head = ["ID", "TOOL", "TYPE", "DESCRIPTION"];
      cli.print(`\n${renderTable(rows, { head, columns: cli.columns, flexible: 3 }).join("\n")}`);
    }
    if (skill.instructions.trim() !== "") cli.print(`\n${printable(skill.instructions.trim())}`);
    return exitCodes.ok;
  },

  async import(cli, { skills: library, sandbox }, paths, { replace = false, trust = false }) {
    const found = paths.map((path) => resolve(path));
    const imported = await importSkills(library, found, { sandbox, trusted: trust, replace });
    for (const warning of imported.warnings) cli.talk(`warning: ${warning}`);
    if (cli.json) {
      cli.printJson({
        skills: imported.skills.map((skill) => summaryOf(library, skill)),
        experts: imported.experts.map(({ id, name }) => ({ id, name })),
        failed: imported.failed,
        warnings: imported.warnings,
      });
    } else {
      for (const skill of imported.skills) {
        cli.print(`${skill.id}  ${printable(skill.name)}  ${toolsOf(library, skill)}`);
        for (const { id, name } of skill.tools) {
          const failure = library.failureOf(id);
          if (failure !== undefined) cli.talk(`${skill.name}/${name} cannot be used: ${failure}`);
        }
      }
      for (const expert of imported.experts) cli.print(`${expert.id}  expert ${printable(expert.name)}`);
    }
    for (const { name, reason } of imported.failed) cli.talk(`${name} is not imported: ${reason}`);
    if (!trust && imported.skills.length > 0) {
      cli.talk(
        `Their scripts have no network and their tools no secrets until you trust them: ${cli.commandLine("skills trust NAME")}`,
      );
    }
    return imported.failed.length === 0 ? exitCodes.ok : exitCodes.failure;
  },

  async export(cli, { skills: library }, names, { all = false, to = ".", replace = false }) {
    const wanted = all ? library.list() : names.map((name) => library.require(name));
    const { folders, failed } = await exportSkills(library, wanted, resolve(to), { replace });
    const shown = folders.map((folder) => relative(process.cwd(), folder) || ".");
    if (cli.json) cli.printJson({ folders: shown, failed });
    else for (const folder of shown) cli.print(folder);
    for (const { name, reason } of failed) cli.talk(`${name} is not exported: ${reason}`);
    return failed.length === 0 ? exitCodes.ok : exitCodes.failure;
  },

  async trust(cli, { skills: library }, names) {
    for (const name of names) {
      const skill = await library.update(name, { trusted: true });
      if (!cli.json)
        cli.talk(`${skill.name} is trusted: it is given the network and the secrets that its tools name.`);
    }
    if (cli.json) cli.printJson({ trusted: names });
    return exitCodes.ok;
  },

  async remove(cli, { skills: library }, names) {
    for (const name of names) {
      const skill = await library.remove(name);
      if (!cli.json) cli.talk(`${skill.name} is removed, with ${skill.tools.length} tools.`);
    }
    if (cli.json) cli.printJson({ removed: names });
    return exitCodes.ok;
  },
};

async function naming(cli: Cli, work: () => Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (thrown) {
    if (thrown instanceof SkillMissingError) {
      throw new CliError(`${thrown.message} See: ${cli.commandLine("skills list")}`, {
        code: `${thrown.what}_not_found`,
      });
    }
    if (thrown instanceof SkillReadOnlyError) throw new CliError(thrown.message, { code: "skill_read_only" });
    if (thrown instanceof SkillInputError) {
      throw new CliError(thrown.message, { code: "invalid_input", details: { issues: thrown.issues } });
    }
    throw thrown;
  }
}

function placeOf({ owner, sourcePath }: Skill): string {
  return owner === "folder" ? (sourcePath ?? "folder") : "database";
}

function toolsOf(library: SkillLibrary, { tools }: Skill): string {
  const failed = tools.filter(({ id }) => library.failureOf(id) !== undefined).length;
  const count = tools.length === 1 ? "1 tool" : `${tools.length} tools`;
  return failed === 0 ? count : `${count}, ${failed} failed`;
}

function summaryOf(library: SkillLibrary, skill: Skill) {
  const { directory: _directory, revision: _revision, frontMatterText: _text, tools, ...rest } = skill;
  const failed = tools.filter(({ id }) => library.failureOf(id) !== undefined);
  return { ...rest, toolCount: tools.length, failedTools: failed.length };
}

function toolOf(library: SkillLibrary, tool: Skill["tools"][number]) {
  const failure = library.failureOf(tool.id);
  return { ...tool, ...(failure === undefined ? {} : { failure }) };
}
