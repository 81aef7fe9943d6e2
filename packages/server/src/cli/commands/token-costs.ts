import type { Cli } from "../cli.ts";
import type { ListedTool } from "../rack-tools.ts";
import { amount } from "../text.ts";

/**
 * `toolrack list --tokens`: what each source and each tool costs a model's context, the most expensive first.
 */
export function showTokens(cli: Cli, listed: readonly ListedTool[]): void {
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
