import { join } from "node:path";
import type { FileReport } from "../../files/index.ts";
import type { Cli } from "../cli.ts";
import { type ListedTool, ownFirst, printTools, type ToolQuery, toolsAt } from "../listed-tools.ts";
import type { ServerClient } from "../server-client.ts";
import { ListingDraft, readListing } from "../stored-listing.ts";
import { amount } from "../text.ts";
import { entryAt, failuresIn, findWorkspace, talkFailures } from "../workspace.ts";

export interface ListOptions extends ToolQuery {
  readonly tokens?: boolean;
}

/**
 * `toolrack list`: the tools on the rack, the workspace's own first. A running server is asked, which has the tools of
 * MCP servers too. Failed files are reported on standard error.
 */
export async function list(cli: Cli, options: ListOptions): Promise<void> {
  const { tools, files } = await listed(cli);
  const fitting = tools.filter((tool) => fits(tool, options));
  if (options.tokens === true) {
    return showTokens(cli, fitting);
  }
  const summaries = fitting.map(({ tokens: _, ...tool }) => tool);
  cli.answer({ tools: summaries, failures: failuresIn({ files }) }, () => {
    if (fitting.length > 0) printTools(cli, fitting);
    else cli.talk(emptyNote(cli, tools, options));
    talkFailures(cli, { files });
  });
}

interface Listing {
  readonly tools: readonly ListedTool[];
  readonly files: readonly FileReport[];
}

/** All tools of the running server, or else of the workspace, and what became of its files. */
async function listed(cli: Cli): Promise<Listing> {
  const workspace = findWorkspace(cli);
  if (entryAt(join(workspace, ".toolrack", "server.json")) !== undefined) {
    // Imported late, because the parts of Node that it needs take longer to load than a stored listing to be shown.
    const { ServerClient } = await import("../server-client.ts");
    const server = await ServerClient.findIfAny(cli);
    if (server !== undefined) {
      const [tools, files] = await Promise.all([toolsAt(server, { all: true }), filesAt(server)]);
      return { tools, files };
    }
  }
  const stored = readListing(workspace);
  if (stored !== undefined) return { tools: stored, files: [] };
  const draft = new ListingDraft(cli, workspace);
  const { withAllTools } = await import("../rack-tools.ts");
  const { toolSummary } = await import("./tools.ts");
  const found = await withAllTools(cli, async (app) => {
    const tools = app.registry.getAll().map(toolSummary).sort(ownFirst);
    const { files } = app.report;
    if (failuresIn({ files }).length === 0) await draft.add(app.workspace, tools);
    return { tools, files };
  });
  draft.store();
  return found;
}

async function filesAt(server: ServerClient): Promise<readonly FileReport[]> {
  return (await server.ask<{ readonly files: readonly FileReport[] }>("/api/files")).files;
}

function fits({ disabled, ...tool }: ListedTool, { category, tag, all }: ToolQuery): boolean {
  if (disabled === true && all !== true) return false;
  return (
    (category === undefined || tool.category === category) &&
    (tag === undefined || tool.tags?.includes(tag) === true)
  );
}

function emptyNote(cli: Cli, tools: readonly ListedTool[], { category, tag }: ListOptions): string {
  if (category === undefined && tag === undefined)
    return `There are no tools here. Make one with: ${cli.commandLine("new")}`;
  const known = tools.flatMap((tool) => (tag === undefined ? (tool.category ?? []) : (tool.tags ?? [])));
  const what = tag === undefined ? `category "${category}"` : `tag "${tag}"`;
  return `No tool has the ${what}. There are: ${[...new Set(known)].sort().join(", ")}`;
}

/**
 * `toolrack list --tokens`: what each source and each tool costs a model's context, the most expensive first.
 */
function showTokens(cli: Cli, listed: readonly ListedTool[]): void {
  const tools = listed.map(({ name, origin, tokens = 0 }) => ({ name, origin, tokens })).sort(byTokens);
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
  });
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
