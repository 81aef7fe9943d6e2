import type { ToolInfo } from "@toolrack/core";
import type { App } from "../../../index.ts";
import { callOf, examplePairs } from "../arguments/example-call.ts";
import { parsePairs } from "../arguments/parse-pairs.ts";
import { parametersOf } from "../arguments/schema-parts.ts";
import type { Cli } from "../cli.ts";
import { exitCodes } from "../exit-codes.ts";
import { failuresIn, talkFailures } from "../file-problems.ts";
import { formatDuration } from "../text/duration.ts";
import { oneLine } from "../text/printable.ts";
import { withApp } from "../with-app.ts";

/** `toolrack start`: opens the workspace, says what is on the rack, and runs one of its tools. */
export function start(cli: Cli): Promise<number> {
  return withApp(cli, {}, async (app) => {
    const { report, workspace, registry } = app;
    const loaded = report.files.filter((file) => file.tools.length > 0);
    const sample = await runSample(app);
    if (cli.json) {
      const tools = registry.list().map((info) => info.name);
      cli.printJson({ workspace: workspace.directory, tools, files: report.files, sample });
      return exitCodes.ok;
    }
    const failed = failuresIn(report).length;
    cli.print(`Workspace ${workspace.directory}`);
    cli.print(
      `${amount(loaded.length, "tool file")} loaded in ${formatDuration(report.duration)}, ${failed} failed; ` +
        `${amount(registry.list().length, "tool")} on the rack`,
    );
    talkFailures(cli, report);
    cli.print("");
    for (const [group, names] of groups(registry.list()))
      cli.print(`${cli.style("bold", group)}  ${names.join("  ")}`);
    if (sample !== undefined)
      cli.print(`\n${cli.style("dim", "$")} ${cli.commandLine(sample.command)}\n${sample.output}`);
    cli.print(`\n${nextSteps(cli, sample?.tool)}`);
    return exitCodes.ok;
  });
}

interface Sample {
  readonly tool: string;
  /** Without the program's name. */
  readonly command: string;
  readonly output: string;
}

/** One call through the whole pipeline, of a tool that changes nothing. */
async function runSample({ registry, report }: App): Promise<Sample | undefined> {
  const own = report.files.flatMap((file) => file.tools).map((name) => registry.get(name));
  const info = [registry.get("unit_convert"), ...own].find((candidate) => isHarmless(candidate));
  if (info === undefined) return undefined;
  const pairs = info.name === "unit_convert" ? ["value=42.195", "from=km", "to=mile"] : examplePairs(info);
  const input = parsePairs(pairs, parametersOf(info));
  const { content, error } = await registry.execute(info.name, input, { caller: "cli" });
  // Made-up arguments may not suit a tool; that is nothing to show.
  return error === undefined
    ? { tool: info.name, command: callOf(info.name, pairs), output: content }
    : undefined;
}

function isHarmless(info: ToolInfo | undefined): info is ToolInfo {
  return info?.metadata.readOnly === true && info.metadata.openWorld !== true;
}

function groups(tools: readonly ToolInfo[]): [string, string[]][] {
  const byGroup = new Map<string, string[]>();
  for (const { name, metadata } of tools) {
    const group = oneLine(metadata.category ?? "other");
    byGroup.set(group, [...(byGroup.get(group) ?? []), name]);
  }
  return [...byGroup].sort(([one], [other]) => (one < other ? -1 : 1));
}

function nextSteps(cli: Cli, tool = "NAME"): string {
  const steps: [string, string][] = [
    ["list", "all tools with their descriptions"],
    [`show ${tool}`, "everything about one of them"],
    ["call NAME key=value", "run one"],
    ["check", "what became of every tool file"],
    ["new", "write a tool of your own"],
  ];
  const width = Math.max(...steps.map(([words]) => cli.commandLine(words).length));
  const lines = steps.map(([words, what]) => `  ${cli.commandLine(words).padEnd(width)}   ${what}`);
  return ["Go on with:", ...lines].join("\n");
}

function amount(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}
