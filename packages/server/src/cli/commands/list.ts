import { join } from "node:path";
import type { FileReport } from "../../files/index.ts";
import type { Cli } from "../cli.ts";
import type { ServerClient } from "../server-client.ts";
import { ListingDraft, readListing } from "../stored-listing.ts";
import { amount, clipDisplay, oneLine } from "../text.ts";
import { entryAt, failuresIn, findWorkspace, talkFailures } from "../workspace.ts";

/** A tool as lists show it. */
export interface ListedTool {
  readonly name: string;
  readonly title?: string | undefined;
  readonly displayName?: string | undefined;
  readonly description?: string | undefined;
  readonly aliases?: readonly string[] | undefined;
  readonly category?: string | undefined;
  readonly tags?: readonly string[] | undefined;
  readonly origin?: string | undefined;
  readonly dangerous: boolean;
  readonly readOnly: boolean;
  readonly disabled?: boolean | undefined;
  /** The estimated number of tokens that the tool's definition takes in a model's context. */
  readonly tokens?: number;
}

interface ToolQuery {
  readonly category?: string;
  readonly tag?: string;
  readonly all?: boolean;
}

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

/** A tool as the server describes it in lists. */
export type AnsweredTool = Omit<ListedTool, "disabled"> & { readonly status: "ok" | "stale" | "disabled" };

/** The tools of a running server. With `words`, those that fit, best first; else the workspace's own first. */
export async function toolsAt(
  server: ServerClient,
  { category, tag, all = false }: ToolQuery,
  words?: string,
  most = Number.POSITIVE_INFINITY,
): Promise<ListedTool[]> {
  const tools: AnsweredTool[] = [];
  let next: string | undefined = "0";
  while (next !== undefined && tools.length < most) {
    const query = new URLSearchParams({ limit: String(Math.min(most, 1000)), cursor: next });
    for (const [key, value] of Object.entries({ q: words, category, tag }))
      if (value !== undefined) query.set(key, value);
    const page: { readonly items: AnsweredTool[]; readonly next?: string } = await server.ask(
      `/api/tools?${query}`,
    );
    tools.push(...page.items);
    next = page.next;
  }
  const found = tools.map(({ status, ...tool }) => ({ ...tool, disabled: status === "disabled" }));
  const wanted = found.filter(({ disabled }) => all || !disabled);
  return words === undefined ? wanted.sort(ownFirst) : wanted;
}

async function filesAt(server: ServerClient): Promise<readonly FileReport[]> {
  return (await server.ask<{ readonly files: readonly FileReport[] }>("/api/files")).files;
}

/** The workspace's own files first, then skills, then other servers and APIs, then what comes with Toolrack. */
function ownFirst(one: ListedTool, other: ListedTool): number {
  return rankOf(one) - rankOf(other) || (one.name < other.name ? -1 : 1);
}

function rankOf({ origin = "" }: ListedTool): number {
  if (origin === "" || origin.startsWith("built-in")) return 3;
  if (/^(?:mcp server|api) /.test(origin)) return 2;
  return origin.startsWith("skill ") ? 1 : 0;
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

/** How wide a description is at most when the output is no terminal. */
const WIDEST_ABOUT = 80;

/** Prints one tool per line, with its description cut to the terminal. */
export function printTools(cli: Cli, tools: readonly ListedTool[]): void {
  const about = (tool: ListedTool) => clipDisplay(oneLine(aboutOf(tool)), cli.columns ?? WIDEST_ABOUT);
  const rows = tools.map((tool) => [tool.name, about(tool), tool.origin ?? ""]);
  cli.table(["NAME", "DESCRIPTION", "FROM"], rows, { flexible: 1, style: "dim" });
}

function aboutOf({ name, title, displayName, description = "", disabled }: ListedTool): string {
  const label = displayName ?? title;
  const text = label === undefined || label === name ? description : `${label}: ${description}`;
  return disabled ? `(disabled) ${text}` : text;
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
