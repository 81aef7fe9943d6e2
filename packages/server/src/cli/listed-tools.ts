import type { Cli } from "./cli.ts";
import type { ServerClient } from "./server-client.ts";
import { clipDisplay, oneLine } from "./text.ts";

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
