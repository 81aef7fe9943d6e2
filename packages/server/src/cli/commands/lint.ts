import type { ToolInfo } from "@toolrack/core";
import { isHelperTool } from "../../calls/index.ts";
import { problemOfToolPattern, toolMatcher } from "../../config/index.ts";
import type { Finding } from "../../lint/index.ts";
import type { App } from "../../rack/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, exitCodes, usageError } from "../cli-error.ts";
import { withAllTools } from "../rack-tools.ts";
import { ServerClient } from "../server-client.ts";
import { amount, printable } from "../text.ts";

/** What lint found, in how many tools. */
export interface LintResult {
  readonly items: readonly Finding[];
  /** How many findings there are, if these are not all. */
  readonly total?: number;
  /** How many tools were looked at. */
  readonly tools: number;
}

/** `toolrack lint`: what in the definitions of tools misleads models. A running server is asked. */
export async function lint(cli: Cli, pattern = "*"): Promise<void> {
  const problem = problemOfToolPattern(pattern);
  if (problem !== undefined) throw usageError(problem);
  const server = await ServerClient.findIfAny(cli);
  const result =
    server === undefined
      ? await withAllTools(cli, (app) => lintTools(app, toolMatcher([pattern])))
      : await server.ask<LintResult>(`/api/lint?limit=10000&tools=${encodeURIComponent(pattern)}`);
  if (result.tools === 0 && pattern !== "*") {
    const message = `No tool fits "${pattern}". See all of them with: ${cli.commandLine("list")}`;
    throw new CliError(message, { code: "tool_not_found", exitCode: exitCodes.noSuchTool });
  }
  const { items: findings, total = findings.length, tools } = result;
  const isPart = total > findings.length;
  cli.answer({ findings, ...(isPart && { total }), tools }, () => printFindings(cli, result));
  if (result.items.length > 0) cli.exitCode = exitCodes.failure;
}

/** Lints those tools of an opened workspace that fit, beside all others that are enabled. */
export async function lintTools(app: App, fits: (tool: ToolInfo) => boolean): Promise<LintResult> {
  const { Linter, readSwitches } = await import("../../lint/index.ts");
  const { registry, config, workspace } = app;
  const all = registry.list().filter(({ name }) => !isHelperTool(name));
  const chosen = all.filter(fits);
  const linter = await Linter.open(all, config.lint);
  const items = await linter.lint(await readSwitches(workspace.directory, chosen), chosen);
  return { items, tools: chosen.length };
}

/** Prints the findings, one tool after the other. */
export function printFindings(cli: Cli, { items, total = items.length, tools }: LintResult): void {
  for (const [tool, findings] of Map.groupBy(items, (finding) => finding.tool)) {
    cli.print(cli.style("bold", tool));
    for (const { code, reason, remedy } of findings) {
      cli.print(`  ${cli.style("yellow", code)}  ${printable(reason)}`);
      cli.print(cli.style("dim", `    ${printable(remedy)}`));
    }
  }
  const found = total === 0 ? "nothing to mend" : amount(total, "finding");
  cli.print(`${amount(tools, "tool")}: ${found}`);
  if (total > items.length) cli.talk(`Shown are the first ${items.length}. Name a pattern to see others.`);
}
