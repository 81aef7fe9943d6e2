import type { ToolInfo, ToolRegistry } from "@toolrack/core";
import { definitionTokens } from "@toolrack/core/internal";
import { isMetaTool } from "../../calls/index.ts";
import type { Cli } from "../cli.ts";
import { ServerClient } from "../server-client.ts";
import { amount } from "../text.ts";
import { withApp } from "../workspace.ts";

/** A tool and the estimated tokens of its definition. */
interface ToolCost {
  readonly name: string;
  readonly origin?: string | undefined;
  readonly tokens: number;
}

interface CostFilter {
  readonly category?: string;
  readonly tag?: string;
  readonly all?: boolean;
}

/**
 * `toolrack list --tokens`: what each source and each tool costs a model's context, the most expensive first. A running
 * server is asked, because only it knows the tools of MCP servers. `choose`: the tools that the options mean.
 */
export async function listTokens(
  cli: Cli,
  options: CostFilter,
  choose: (registry: ToolRegistry) => ToolInfo[],
): Promise<void> {
  const server = await ServerClient.findIfAny(cli);
  const found = server === undefined ? await costsHere(cli, choose) : await costsAt(server, options);
  const tools = found.filter(({ name }) => !isMetaTool(name)).sort(byTokens);
  const sources = [...Map.groupBy(tools, ({ origin }) => sourceOf(origin))]
    .map(([source, own]) => ({ source, tools: own.length, tokens: total(own) }))
    .sort(byTokens);
  cli.answer({ tokens: total(tools), sources, tools }, () => {
    if (tools.length > 0) {
      const sourceRows = sources.map((one) => [String(one.tokens), String(one.tools), one.source]);
      cli.table(["TOKENS", "TOOLS", "FROM"], sourceRows);
      cli.print("");
      const toolRows = tools.map(({ name, origin = "", tokens }) => [String(tokens), name, origin]);
      cli.table(["TOKENS", "NAME", "FROM"], toolRows);
    }
    cli.talk(`${amount(tools.length, "tool")}, about ${total(tools)} tokens of definitions.`);
    if (server === undefined)
      cli.talk(`Tools of MCP servers are counted while a server runs: ${cli.commandLine("serve")}`);
  });
}

async function costsAt(server: ServerClient, { category, tag, all }: CostFilter): Promise<ToolCost[]> {
  const tools: (ToolCost & { readonly status: string })[] = [];
  let next: string | undefined = "0";
  while (next !== undefined) {
    const query = new URLSearchParams({ limit: "1000", cursor: next });
    if (category !== undefined) query.set("category", category);
    if (tag !== undefined) query.set("tag", tag);
    const page: { readonly items: typeof tools; readonly next?: string } = await server.ask(
      `/api/tools?${query}`,
    );
    tools.push(...page.items);
    next = page.next;
  }
  const wanted = tools.filter(({ status }) => all === true || status !== "disabled");
  return wanted.map(({ name, origin, tokens }) => ({ name, origin, tokens }));
}

function costsHere(cli: Cli, choose: (registry: ToolRegistry) => ToolInfo[]): Promise<ToolCost[]> {
  return withApp(cli, {}, async ({ registry }) =>
    choose(registry).map((info) => {
      return { name: info.name, origin: info.origin, tokens: definitionTokens(info) };
    }),
  );
}

/** The MCP server or skill that a tool comes from; one source for all tools of files, and one for those of the rack. */
function sourceOf(origin = ""): string {
  const [whole] = /^mcp server .+|^skill [^/]+|^built-in/.exec(origin) ?? [];
  return whole ?? (origin === "" ? "this rack" : "tool files");
}

function total(costs: readonly { readonly tokens: number }[]): number {
  return costs.reduce((sum, { tokens }) => sum + tokens, 0);
}

function byTokens(one: { readonly tokens: number }, other: { readonly tokens: number }): number {
  return other.tokens - one.tokens;
}
