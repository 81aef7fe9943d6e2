import type { ToolInfo, ToolRegistry } from "@toolrack/core";
import type { Cli } from "../cli.ts";
import { exitCodes } from "../exit-codes.ts";
import { failuresIn, talkFailures } from "../file-problems.ts";
import { toolSummary } from "../tool-summary.ts";
import { printTools } from "../tool-table.ts";
import { withApp } from "../with-app.ts";

export interface ListOptions {
  readonly category?: string;
  readonly tag?: string;
  readonly all?: boolean;
}

/** `toolrack list`: the tools on the rack, by name; files that failed are told of on standard error. */
export function list(cli: Cli, options: ListOptions): Promise<number> {
  return withApp(cli, {}, async ({ registry, report }) => {
    const tools = choose(registry, options);
    if (cli.json) {
      cli.printJson({ tools: tools.map(toolSummary), failures: failuresIn(report) });
      return exitCodes.ok;
    }
    if (tools.length > 0) printTools(cli, tools);
    else cli.talk(emptyNote(cli, registry, options));
    talkFailures(cli, report);
    return exitCodes.ok;
  });
}

function choose(registry: ToolRegistry, { category, tag, all }: ListOptions): ToolInfo[] {
  return registry
    .getAll()
    .filter((info) => all === true || !info.disabled)
    .filter((info) => category === undefined || info.metadata.category === category)
    .filter((info) => tag === undefined || info.metadata.tags?.includes(tag) === true)
    .sort((one, other) => (one.name < other.name ? -1 : 1));
}

function emptyNote(cli: Cli, registry: ToolRegistry, { category, tag }: ListOptions): string {
  if (category === undefined && tag === undefined)
    return `There are no tools here. Make one with: ${cli.commandLine("new")}`;
  const known = tag === undefined ? Object.keys(registry.getStats().categories) : tagsOf(registry);
  const what = tag === undefined ? `category "${category}"` : `tag "${tag}"`;
  return `No tool has the ${what}. There are: ${known.sort().join(", ")}`;
}

function tagsOf(registry: ToolRegistry): string[] {
  return [...new Set(registry.getAll().flatMap((info) => info.metadata.tags ?? []))];
}
