import { relative, resolve } from "node:path";
import type { App } from "../../rack/index.ts";
import type { SkillLibrary } from "../../skills/index.ts";
import {
  exportSkills,
  importSkills,
  SkillInputError,
  SkillMissingError,
  SkillReadOnlyError,
} from "../../skills/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, exitCodes, usageError } from "../cli-error.ts";
import { amount, printable } from "../text.ts";
import { printTools } from "../tool-lists.ts";
import { withApp, withStore } from "../workspace.ts";
import { toolSummary } from "./tools.ts";

export type SkillAction = "list" | "show" | "import" | "export" | "trust" | "remove";

export interface SkillsOptions {
  readonly to?: string;
  readonly all?: boolean;
  readonly replace?: boolean;
  readonly trust?: boolean;
}

type Skill = ReturnType<SkillLibrary["require"]>;

/** `toolrack skills`: skills in the database and in folders. A running server picks up the changes. */
export async function skills(
  cli: Cli,
  action: SkillAction = "list",
  names: readonly string[],
  options: SkillsOptions,
): Promise<void> {
  const needsNames = action !== "list" && !(action === "export" && options.all === true);
  if (names.length === 0 && needsNames) {
    throw usageError(
      `Say which: ${cli.commandLine(`skills ${action} ${action === "import" ? "PATH..." : "NAME"}`)}`,
    );
  }
  return withSkills(cli, "skills list", (app) => skillActions[action](cli, app, names, options));
}

/** Opens the workspace with its store. Errors about a missing skill or expert name the command that lists them. */
async function withSkills(cli: Cli, listing: string, use: (app: App) => Promise<void>): Promise<void> {
  try {
    await withStore(cli, (store) => withApp(cli, { store }, use));
  } catch (thrown) {
    if (thrown instanceof SkillMissingError) {
      throw new CliError(`${thrown.message} See: ${cli.commandLine(listing)}`, {
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

type SkillWork = (cli: Cli, app: App, names: readonly string[], options: SkillsOptions) => Promise<void>;

const skillActions: Readonly<Record<SkillAction, SkillWork>> = {
  async list(cli, { skills: library }) {
    const all = library.list();
    const failed = library.failedFolders();
    const rows = all.map((skill) => [
      skill.id,
      skill.name,
      placeOf(skill),
      toolsOf(library, skill),
      skill.description,
    ]);
    const document = { skills: all.map((skill) => library.summaryOf(skill)), failed };
    const none = `There are no skills. Bring some with: ${cli.commandLine("skills import PATH")}`;
    cli.list(document, ["ID", "NAME", "OWNER", "TOOLS", "DESCRIPTION"], rows, none);
    if (cli.json) return;
    for (const { folder, reason } of failed) cli.talk(`${folder}: ${reason}`);
    // A skill without tools may be meant so. Where it is not, its warnings tell why.
    for (const skill of all.filter(({ tools }) => tools.length === 0))
      for (const warning of skill.warnings) cli.talk(`${placeOf(skill)}: ${warning}`);
  },

  async show(cli, { skills: library }, [name = ""]) {
    const skill = library.require(name);
    const tools = skill.tools.map((tool) => ({ ...tool, failure: library.failureOf(tool.id) }));
    cli.answer({ ...library.summaryOf(skill), tools }, () => {
      cli.print(`${cli.style("bold", printable(skill.name))}  ${skill.id}`);
      cli.print(`${placeOf(skill)}${skill.enabled ? "" : ", off"}${skill.trusted ? "" : ", not trusted"}`);
      if (skill.description !== "") cli.print(`\n${printable(skill.description)}`);
      for (const warning of skill.warnings) cli.talk(`warning: ${warning}`);
      if (tools.length > 0) {
        const rows = tools.map(({ id, name: tool, type, failure, description }) => [
          id,
          tool,
          type,
          failure ?? description,
        ]);
        cli.print("");
        cli.table(["ID", "TOOL", "TYPE", "DESCRIPTION"], rows);
      }
      if (skill.instructions.trim() !== "") cli.print(`\n${printable(skill.instructions.trim())}`);
    });
  },

  async import(cli, { skills: library, sandbox }, paths, { replace = false, trust = false }) {
    const found = paths.map((path) => resolve(cli.cwd, path));
    const imported = await importSkills(library, found, { sandbox, trusted: trust, replace });
    const { warnings, failed } = imported;
    for (const warning of warnings) cli.talk(`warning: ${warning}`);
    const document = {
      skills: imported.skills.map((skill) => library.summaryOf(skill)),
      experts: imported.experts.map(({ id, name }) => ({ id, name })),
      failed,
      warnings,
    };
    cli.answer(document, () => {
      for (const skill of imported.skills) {
        cli.print(`${skill.id}  ${printable(skill.name)}  ${toolsOf(library, skill)}`);
        for (const { id, name } of skill.tools) {
          const failure = library.failureOf(id);
          if (failure !== undefined) cli.talk(`${skill.name}/${name} cannot be used: ${failure}`);
        }
      }
      for (const expert of imported.experts) cli.print(`${expert.id}  expert ${printable(expert.name)}`);
    });
    tellFailed(cli, failed, "imported");
    if (!trust && imported.skills.length > 0) {
      cli.talk(
        `Their scripts have no network and their tools no secrets until you trust them: ${cli.commandLine("skills trust NAME")}`,
      );
    }
  },

  async export(cli, { skills: library }, names, { all = false, to = ".", replace = false }) {
    const wanted = all ? library.list() : names.map((name) => library.require(name));
    const exported = await exportSkills(library, wanted, resolve(cli.cwd, to), { replace });
    const folders = exported.folders.map((folder) => relative(cli.cwd, folder) || ".");
    cli.answer({ folders, failed: exported.failed }, () => {
      for (const folder of folders) cli.print(folder);
    });
    tellFailed(cli, exported.failed, "exported");
  },

  async trust(cli, { skills: library }, names) {
    for (const name of names) {
      const skill = await library.update(name, { trusted: true });
      if (!cli.json)
        cli.talk(`${skill.name} is trusted: it is given the network and the secrets that its tools name.`);
    }
    cli.answer({ trusted: names }, () => {});
  },

  async remove(cli, { skills: library }, names) {
    for (const name of names) {
      const skill = await library.remove(name);
      if (!cli.json) cli.talk(`${skill.name} is removed, with ${skill.tools.length} tools.`);
    }
    cli.answer({ removed: names }, () => {});
  },
};

function tellFailed(cli: Cli, failed: readonly { name: string; reason: string }[], what: string): void {
  for (const { name, reason } of failed) cli.talk(`${name} is not ${what}: ${reason}`);
  if (failed.length > 0) cli.exitCode = exitCodes.failure;
}

function placeOf({ owner, sourcePath }: Skill): string {
  return owner === "folder" ? (sourcePath ?? "folder") : "database";
}

function toolsOf(library: SkillLibrary, skill: Skill): string {
  const { toolCount, failedTools } = library.summaryOf(skill);
  const count = amount(toolCount, "tool");
  return failedTools === 0 ? count : `${count}, ${failedTools} failed`;
}

export type ExpertAction = "list" | "show" | "create" | "remove";

export interface ExpertsOptions {
  readonly skills?: readonly string[];
  readonly tools?: readonly string[];
  readonly description?: string;
}

/** `toolrack experts`: named sets of skills and tools. */
export async function experts(
  cli: Cli,
  action: ExpertAction = "list",
  name: string | undefined,
  options: ExpertsOptions,
): Promise<void> {
  if (name === undefined && action !== "list") {
    throw usageError(`Say which expert: ${cli.commandLine(`experts ${action} NAME`)}`);
  }
  return withSkills(cli, "experts list", (app) => expertActions[action](cli, app, name ?? "", options));
}

type ExpertWork = (cli: Cli, app: App, name: string, options: ExpertsOptions) => Promise<void>;

const expertActions: Readonly<Record<ExpertAction, ExpertWork>> = {
  async list(cli, { skills: library }) {
    const all = library.experts.list();
    const rows = all.map((expert) => [
      expert.id,
      expert.name,
      expert.skills.map((id) => library.find(id)?.name ?? id).join(", ") || "-",
      expert.tools.join(" ") || "-",
      String(expert.list().length),
    ]);
    const none = `There are no experts. Make one with: ${cli.commandLine("experts create NAME --skills SKILL")}`;
    cli.list({ experts: all }, ["ID", "NAME", "SKILLS", "TOOLS", "TOOLS NOW"], rows, none, { flexible: 2 });
  },

  async show(cli, { skills: library }, name) {
    const expert = library.experts.require(name);
    const tools = expert.list();
    cli.answer({ ...expert, toolNames: tools.map((tool) => tool.name) }, () => {
      cli.print(`${cli.style("bold", printable(expert.name))}  ${expert.id}`);
      if (expert.description !== "") cli.print(printable(expert.description));
      cli.print("");
      if (tools.length > 0) printTools(cli, tools.map(toolSummary));
      else cli.talk("It has no tools now.");
    });
  },

  async create(cli, app, name, { skills: chosen = [], tools = [], description = "" }) {
    const expert = await app.skills.experts.create({ name, skills: chosen, tools, description });
    cli.answer(expert, () => cli.print(expert.id));
  },

  async remove(cli, app, name) {
    const { id } = await app.skills.experts.remove(name);
    cli.answer({ id }, () => cli.talk(`The expert ${name} is removed.`));
  },
};
