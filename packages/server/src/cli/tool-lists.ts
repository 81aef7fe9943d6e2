import { join } from "node:path";
import type { FileReport } from "../files/index.ts";
import { Cli, type GlobalOptions, ownProgram } from "./cli.ts";
import type { ServerClient } from "./server-client.ts";
import { type ListedTool, readListing } from "./stored-listing.ts";
import { amount, clipDisplay, oneLine } from "./text.ts";
import { entryAt, failuresIn, findWorkspace, talkFailures } from "./workspace.ts";

export interface ToolQuery {
  readonly category?: string;
  readonly tag?: string;
  readonly all?: boolean;
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

/** The workspace's own files first, then skills, then other servers and APIs, then what comes with Toolrack. */
export function ownFirst(one: ListedTool, other: ListedTool): number {
  return rankOf(one) - rankOf(other) || (one.name < other.name ? -1 : 1);
}

function rankOf({ origin = "" }: ListedTool): number {
  if (origin === "" || origin.startsWith("built-in")) return 3;
  if (/^(?:mcp server|api) /.test(origin)) return 2;
  return origin.startsWith("skill ") ? 1 : 0;
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

export interface ListOptions extends ToolQuery {
  readonly tokens?: boolean;
}

export interface Listing {
  readonly tools: readonly ListedTool[];
  readonly files: readonly FileReport[];
}

/**
 * `toolrack list` with its usual words, where nothing need be loaded for it. Returns whether it was shown; if not, nothing
 * was printed. The packed program asks this first. It is one file there, because loading the twenty that all commands need
 * takes as long as Node's own start.
 */
export async function listQuickly(words: readonly string[]): Promise<boolean> {
  const options = optionsIn(words);
  if (options === undefined) return false;
  const { env, stdin, stdout, stderr } = process;
  // A reader that has seen enough, as in `toolrack list | head`, is not an error.
  stdout.on("error", ({ code }: NodeJS.ErrnoException) => process.exit(code === "EPIPE" ? 0 : 1));
  const cli = new Cli(options, { cwd: process.cwd(), env, stdin, stdout, stderr, program: ownProgram() });
  // What is wrong is found again, and told, by the whole program.
  const listing = await quickListing(cli).catch(() => undefined);
  if (listing !== undefined) showListing(cli, options, listing);
  return listing !== undefined;
}

const switches = ["--all", "--json", "--tokens"];

/** Undefined for words that only the whole program understands. */
function optionsIn(words: readonly string[]): (GlobalOptions & ListOptions) | undefined {
  if (words.some((word) => !switches.includes(word))) return undefined;
  const [all, json, tokens] = switches.map((word) => words.includes(word));
  return { all: all === true, json: json === true, tokens: tokens === true };
}

/** All tools of the running server, or those that are stored. Undefined when the workspace has to be loaded. */
export async function quickListing(cli: Cli): Promise<Listing | undefined> {
  const workspace = findWorkspace(cli);
  if (entryAt(join(workspace, ".toolrack", "server.json")) !== undefined) {
    // Imported late, because the parts of Node that it needs take longer to load than a stored listing to be shown.
    const { ServerClient } = await import("./server-client.ts");
    const server = await ServerClient.findIfAny(cli);
    if (server !== undefined) {
      const [tools, files] = await Promise.all([toolsAt(server, { all: true }), filesAt(server)]);
      return { tools, files };
    }
  }
  const tools = readListing(workspace);
  return tools && { tools, files: [] };
}

async function filesAt(server: ServerClient): Promise<readonly FileReport[]> {
  return (await server.ask<{ readonly files: readonly FileReport[] }>("/api/files")).files;
}

/** Prints the tools that the options ask for. Failed files are reported on standard error. */
export function showListing(cli: Cli, options: ListOptions, { tools, files }: Listing): void {
  const fitting = tools.filter((tool) => fits(tool, options));
  if (options.tokens === true) {
    showTokens(cli, fitting);
    return;
  }
  const summaries = fitting.map(({ tokens: _, ...tool }) => tool);
  cli.answer({ tools: summaries, failures: failuresIn({ files }) }, () => {
    if (fitting.length > 0) printTools(cli, fitting);
    else cli.talk(emptyNote(cli, tools, options));
    talkFailures(cli, { files });
  });
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

/** `toolrack list --tokens`: what each source and each tool costs a model's context, the most expensive first. */
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
