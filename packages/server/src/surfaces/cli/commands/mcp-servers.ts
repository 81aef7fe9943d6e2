import { readFile } from "node:fs/promises";
import type { McpServerView, McpToolView } from "../../../index.ts";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { ServerClient } from "../server-client.ts";
import { oneLine } from "../text/printable.ts";
import { renderTable } from "../text/render-table.ts";
import { shellQuote } from "../text/shell-quote.ts";
import { login, logout } from "./mcp-sign-in.ts";

export type McpServerAction =
  | "list"
  | "show"
  | "add"
  | "remove"
  | "enable"
  | "disable"
  | "restart"
  | "approve"
  | "login"
  | "logout"
  | "import";

export interface McpServersOptions {
  readonly url?: string;
  readonly type?: string;
  readonly header?: readonly string[];
  readonly env?: readonly string[];
  readonly install?: string;
  /** Whether login shows the page. Default true. */
  readonly open?: boolean;
}

interface ServerList {
  readonly items: readonly McpServerView[];
  readonly fileProblem?: string;
  readonly problems: Readonly<Record<string, string>>;
}

/** `toolrack mcp-servers`: the upstream MCP servers of the running server. */
export async function mcpServers(
  cli: Cli,
  action: McpServerAction = "list",
  key: string | undefined,
  rest: readonly string[],
  options: McpServersOptions,
): Promise<number> {
  if (action === "list") return list(cli);
  if (key === undefined) {
    const wanted = action === "import" ? "FILE" : "KEY";
    throw usageError(`Which one? ${cli.commandLine(`mcp-servers ${action} ${wanted}`)}`);
  }
  switch (action) {
    case "show":
      return show(cli, key);
    case "add":
      return tell(cli, await add(cli, key, toEntry(rest, options)));
    case "remove":
      return remove(cli, key);
    case "enable":
    case "disable":
      return tell(cli, await ask<McpServerView>(cli, key, "", "PATCH", { enabled: action === "enable" }));
    case "restart":
      return tell(cli, await ask<McpServerView>(cli, key, "/restart", "POST"));
    case "approve":
      return approve(cli, key, rest[0], rest[1]);
    case "login":
      return login(cli, key, options.open !== false);
    case "logout":
      return logout(cli, key);
    case "import":
      return importFile(cli, key);
  }
}

async function list(cli: Cli): Promise<number> {
  const client = await ServerClient.find(cli);
  const { items, fileProblem, problems } = await client.ask<ServerList>("/api/mcp-servers");
  if (cli.json) {
    cli.printJson({ servers: items, ...(fileProblem === undefined ? {} : { fileProblem }), problems });
    return exitCodes.ok;
  }
  for (const problem of [fileProblem, ...Object.values(problems)])
    if (problem !== undefined) cli.talk(problem);
  if (items.length === 0) {
    cli.talk(
      "There are no MCP servers. Write them into mcp.json, or: toolrack mcp-servers add KEY -- COMMAND",
    );
    return exitCodes.ok;
  }
  const head = ["KEY", "STATE", "TOOLS", "TRANSPORT", "SERVER", "WHY"];
  const rows = items.map((server) => [
    server.key,
    server.state,
    String(server.tools) + (server.quarantined > 0 ? ` (${server.quarantined} in quarantine)` : ""),
    [server.transport, server.era].filter((part) => part !== undefined).join(" "),
    server.serverInfo === undefined ? "-" : `${server.serverInfo.name} ${server.serverInfo.version}`,
    server.state === "ready" ? "" : (server.reason ?? ""),
  ]);
  printTable(cli, head, rows);
  return exitCodes.ok;
}

async function show(cli: Cli, key: string): Promise<number> {
  const server = await ask<McpServerView>(cli, key);
  const { items: tools } = await ask<{ items: McpToolView[] }>(cli, key, "/tools");
  const { items: lines } = await ask<{ items: { from: string; text: string }[] }>(cli, key, "/log");
  if (cli.json) {
    cli.printJson({ server, tools, log: lines });
    return exitCodes.ok;
  }
  const facts: [string, unknown][] = [
    ["state", server.reason === undefined ? server.state : `${server.state}: ${server.reason}`],
    ["place", server.place === "file" ? "the workspace's file" : "the store"],
    ["entry", JSON.stringify(server.entry)],
    ["transport", [server.transport, server.era, server.protocolVersion].filter(Boolean).join(" ")],
    ["process", server.pid],
    ["sign-in", signInOf(server)],
  ];
  const known = facts.filter(([, value]) => value !== undefined && value !== "");
  cli.print(known.map(([name, value]) => `${name.padEnd(10)} ${oneLine(String(value))}`).join("\n"));
  if (tools.length > 0) {
    const rows = tools.map(({ name, rackName, pin, offered, changes }) => [
      name,
      offered ? rackName : "(left out)",
      pin,
      changes.map(({ path }) => path).join(", "),
    ]);
    cli.print("");
    printTable(cli, ["TOOL", "ON THE RACK", "PIN", "CHANGED"], rows);
  }
  for (const { name, reason } of server.refused)
    cli.print(`\n${oneLine(name)} is left out: ${oneLine(reason)}`);
  for (const { name, changes, hash } of tools) {
    for (const { path, before, after } of changes) {
      cli.print(`\n${oneLine(name)} ${oneLine(path)}`);
      if (before !== undefined) cli.print(cli.style("red", `- ${oneLine(JSON.stringify(before))}`));
      if (after !== undefined) cli.print(cli.style("green", `+ ${oneLine(JSON.stringify(after))}`));
    }
    if (changes.length > 0) {
      const words = [key, name, hash].map((word) => shellQuote(oneLine(word))).join(" ");
      cli.print(`\nTo approve exactly this: ${cli.commandLine(`mcp-servers approve ${words}`)}`);
    }
  }
  if (lines.length > 0)
    cli.print(
      `\n${lines
        .slice(-20)
        .map(({ from, text }) => `${from}: ${oneLine(text)}`)
        .join("\n")}`,
    );
  return exitCodes.ok;
}

function signInOf({ signIn, state }: McpServerView): string | undefined {
  if (signIn === undefined || (!signIn.signedIn && state !== "needs-auth")) return undefined;
  if (signIn.signedIn) return "signed in";
  return signIn.pending ? "waits for somebody to finish it" : (signIn.problem ?? "nobody has signed in");
}

async function add(cli: Cli, key: string, entry: object): Promise<McpServerView> {
  const client = await ServerClient.find(cli);
  return client.ask<McpServerView>("/api/mcp-servers", "POST", { key, entry });
}

async function remove(cli: Cli, key: string): Promise<number> {
  await ask(cli, key, "", "DELETE");
  if (cli.json) cli.printJson({ key });
  else cli.talk(`The MCP server "${key}" is removed.`);
  return exitCodes.ok;
}

/** The hash, which `show` prints below the difference, makes sure that it is approved what was looked at. */
async function approve(
  cli: Cli,
  key: string,
  name: string | undefined,
  hash: string | undefined,
): Promise<number> {
  const path = name === undefined ? "/approve" : `/tools/${encodeURIComponent(name)}/approve`;
  const body = hash === undefined ? {} : { hash };
  const answer = await ask<McpToolView | { items: McpToolView[] }>(cli, key, path, "POST", body);
  const tools = "items" in answer ? answer.items : [answer];
  if (cli.json) cli.printJson({ tools });
  else cli.talk(`Approved as they are now: ${tools.map((tool) => oneLine(tool.name)).join(", ")}`);
  return exitCodes.ok;
}

/** Adds the servers of another program's file. Those that are here already stay as they are. */
async function importFile(cli: Cli, path: string): Promise<number> {
  const { parseJsonc } = await import("../../../text/parse-jsonc.ts");
  const text = await readFile(path, "utf8").catch((error: Error) => {
    throw new CliError(`${path} cannot be read: ${error.message}`, { code: "unreadable_file" });
  });
  const { mcpServers: most, servers } = parse(text, path, parseJsonc);
  const added: string[] = [];
  const skipped: Record<string, string> = {};
  for (const [key, entry] of Object.entries(most ?? servers ?? {})) {
    try {
      await add(cli, key, entry as object);
      added.push(key);
    } catch (thrown) {
      if (!(thrown instanceof CliError) || thrown.code === "no_server") throw thrown;
      skipped[key] = thrown.message;
    }
  }
  if (cli.json) cli.printJson({ added, skipped });
  else {
    cli.talk(added.length === 0 ? "Nothing was added." : `Added: ${added.join(", ")}`);
    for (const [key, reason] of Object.entries(skipped)) cli.talk(`${key} is left out: ${reason}`);
  }
  return Object.keys(skipped).length === 0 ? exitCodes.ok : exitCodes.failure;
}

function parse(
  text: string,
  path: string,
  parseJsonc: (text: string) => unknown,
): { readonly mcpServers?: object; readonly servers?: object } {
  try {
    const document = parseJsonc(text);
    return typeof document === "object" && document !== null ? document : {};
  } catch (thrown) {
    throw new CliError(`${path} is not valid JSON: ${(thrown as Error).message}`, { code: "invalid_file" });
  }
}

function toEntry([command, ...args]: readonly string[], options: McpServersOptions): object {
  const { url, type, header = [], env = [], install } = options;
  if (command === undefined && url === undefined && install === undefined) {
    throw usageError(
      "Say how the server is reached: --url URL, --install PACKAGE@VERSION, or its command after --.",
    );
  }
  // With an installed package, what follows are the arguments of its program.
  const words =
    install === undefined ? { command, args } : { args: command === undefined ? [] : [command, ...args] };
  return {
    ...(url === undefined ? words : { url }),
    ...(type === undefined ? {} : { type }),
    ...(header.length === 0 ? {} : { headers: pairs(header, "--header") }),
    ...(env.length === 0 ? {} : { env: pairs(env, "--env") }),
    ...(install === undefined ? {} : { toolrack: { install } }),
  };
}

function pairs(words: readonly string[], option: string): Record<string, string> {
  return Object.fromEntries(
    words.map((word) => {
      const at = word.indexOf("=");
      if (at < 1) throw usageError(`${option} takes NAME=VALUE, not "${word}".`);
      return [word.slice(0, at), word.slice(at + 1)];
    }),
  );
}

function tell(cli: Cli, server: McpServerView): number {
  if (cli.json) cli.printJson({ server });
  else
    cli.talk(
      `${server.key}: ${server.state}${server.reason === undefined ? "" : `. ${oneLine(server.reason)}`}`,
    );
  return server.state === "failed" ? exitCodes.failure : exitCodes.ok;
}

async function ask<Body>(cli: Cli, key: string, path = "", method = "GET", body?: object): Promise<Body> {
  const client = await ServerClient.find(cli);
  return client.ask<Body>(`/api/mcp-servers/${encodeURIComponent(key)}${path}`, method, body);
}

function printTable(cli: Cli, head: readonly string[], rows: readonly string[][]): void {
  const styleHead = (text: string) => cli.style("bold", text);
  const lines = renderTable(
    rows.map((row) => row.map(oneLine)),
    { head, columns: cli.columns, flexible: head.length - 1, styleHead },
  );
  cli.print(lines.join("\n"));
}
