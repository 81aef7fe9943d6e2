import type { App } from "../../index.ts";
import { SkillInputError, SkillMissingError } from "../../skills/checks.ts";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { oneLine, printable } from "../text/printable.ts";
import { renderTable } from "../text/render-table.ts";
import { printTools } from "../tool-table.ts";
import { withApp } from "../with-app.ts";
import { withStore } from "../with-store.ts";

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
): Promise<number> {
  if (name === undefined && action !== "list") {
    throw usageError(`Say which expert: ${cli.commandLine(`experts ${action} NAME`)}`);
  }
  return withStore(cli, (store) =>
    withApp(cli, { store }, (app) => naming(cli, () => actions[action](cli, app, name ?? "", options))),
  );
}

type Action = (cli: Cli, app: App, name: string, options: ExpertsOptions) => Promise<number>;

const actions: Readonly<Record<ExpertAction, Action>> = {
  async list(cli, { skills }) {
    const all = skills.experts.list();
    if (cli.json) cli.printJson({ experts: all });
    else if (all.length === 0) {
      cli.talk(
        `There are no experts. Make one with: ${cli.commandLine("experts create NAME --skills SKILL")}`,
      );
    } else {
      const rows = all.map((expert) => [
        expert.id,
        oneLine(expert.name),
        expert.skills.map((id) => oneLine(skills.find(id)?.name ?? id)).join(", ") || "-",
        expert.tools.join(" ") || "-",
        String(expert.list().length),
      ]);
      const head = ["ID", "NAME", "SKILLS", "TOOLS", "TOOLS NOW"];
      const styleHead = (text: string) => cli.style("bold", text);
      cli.print(renderTable(rows, { head, styleHead, columns: cli.columns, flexible: 2 }).join("\n"));
    }
    return exitCodes.ok;
  },

  async show(cli, { skills }, name) {
    const expert = skills.experts.require(name);
    const tools = expert.list();
    if (cli.json) {
      cli.printJson({ ...expert, toolNames: tools.map((tool) => tool.name) });
      return exitCodes.ok;
    }
    cli.print(`${cli.style("bold", printable(expert.name))}  ${expert.id}`);
    if (expert.description !== "") cli.print(printable(expert.description));
    cli.print("");
    if (tools.length > 0) printTools(cli, tools);
    else cli.talk("It has no tools now.");
    return exitCodes.ok;
  },

  async create(cli, app, name, { skills = [], tools = [], description = "" }) {
    const expert = await app.skills.experts.create({ name, skills, tools, description });
    if (cli.json) cli.printJson(expert);
    else cli.print(expert.id);
    return exitCodes.ok;
  },

  async remove(cli, { skills }, name) {
    const { id } = await skills.experts.remove(name);
    if (cli.json) cli.printJson({ id });
    else cli.talk(`The expert ${name} is removed.`);
    return exitCodes.ok;
  },
};

async function naming(cli: Cli, work: () => Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (thrown) {
    if (thrown instanceof SkillMissingError) {
      throw new CliError(`${thrown.message} See: ${cli.commandLine("experts list")}`, {
        code: `${thrown.what}_not_found`,
      });
    }
    if (thrown instanceof SkillInputError) {
      throw new CliError(thrown.message, { code: "invalid_input", details: { issues: thrown.issues } });
    }
    throw thrown;
  }
}
