import { shellQuote } from "../../helpers/values.ts";
import type { McpServerView, McpToolView } from "../../index.ts";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { ServerClient } from "../server-client.ts";
import { oneLine } from "../text/printable.ts";
import { renderTable } from "../text/render-table.ts";
import { importMcpServers } from "./import-mcp-servers.ts";
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

/** How many words may follow the key. */
const MOST_WORDS: Partial<Record<McpServerAction, number>> = { add: Number.POSITIVE_INFINITY, approve: 2 };

/** `toolrack mcp-servers`: the upstream MCP servers of the running server. */
export async function mcpServers(
  cli: Cli,
  action: McpServerAction = "list",
  key: string | undefined,
  rest: readonly string[],
  options: McpServersOptions,
): Promise<number> {
  const extra = action === "list" ? key : rest[MOST_WORDS[action] ?? 0];
  if (extra !== undefined) {
    throw usageError(`mcp-servers ${action} does not know what to do with "${extra}". Leave it out.`);
  }
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
      return restart(cli, key);
    case "approve":
      return approve(cli, key, rest[0], rest[1]);
    case "login":
      return login(cli, key, options.open !== false);
    case "logout":
      return logout(cli, key);
    case "import":
      return importMcpServers(cli, key, (name, entry) => add(cli, name, entry));
  }
}

async function list(cli: Cli): Promise<number> {
  const client = await ServerClient.find(cli);
  const { items, fileProblem, problems } = await client.ask<ServerList>("/api/mcp-servers");
  if (cli.json) {
    cli.printJson({ servers: items, ...(fileProblem === undefined ? {} : { fileProblem }), problems });
    return exitCodes.ok;
  }
  if (fileProblem !== undefined) cli.talk(fileProblem);
  const listed = new Set(items.map((server) => server.key));
  for (const [key, problem] of Object.entries(problems)) if (!listed.has(key)) cli.talk(problem);
  if (items.length === 0) {
    cli.talk(
      `There are no MCP servers. Write them into mcp.json, or: ${cli.commandLine("mcp-servers add KEY")} -- COMMAND`,
    );
    return exitCodes.ok;
  }
  const head = ["KEY", "STATE", "TOOLS", "TRANSPORT", "SERVER", "WHY"];
  const rows = items.map((server) => [
    server.key,
    server.state,
    toolsOf(server),
    [server.transport, server.era].filter((part) => part !== undefined).join(" "),
    server.serverInfo === undefined ? "-" : `${server.serverInfo.name} ${server.serverInfo.version}`,
    whyOf(server),
  ]);
  printTable(cli, head, rows);
  return exitCodes.ok;
}

/** Why it cannot be used, with the last line of its own, which mostly says it best. */
function whyOf({ state, reason, lastWord, problem }: McpServerView): string {
  const why = state === "ready" ? [] : [reason, lastWord && `Its last words: ${lastWord}`];
  return [...why, problem].filter(Boolean).join(" ");
}

function toolsOf({ tools, leftOut, quarantined }: McpServerView): string {
  const without = [
    ...(leftOut > 0 ? [`${leftOut} left out`] : []),
    ...(quarantined > 0 ? [`${quarantined} in quarantine`] : []),
  ];
  return without.length === 0 ? String(tools) : `${tools} (${without.join(", ")})`;
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
    ["problem", server.problem],
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
      // What nobody can call was not agreed to by anybody either.
      offered || pin === "quarantined" ? pin : "-",
      changes.map(({ path }) => path).join(", "),
    ]);
    cli.print("");
    printTable(cli, ["TOOL", "ON THE RACK", "PIN", "CHANGED"], rows);
  }
  for (const { name, reason } of server.refused)
    cli.print(`\n${oneLine(name)} is left out: ${oneLine(reason)}`);
  for (const { name, unchecked } of tools) {
    for (const { part, reason } of unchecked) {
      const told = `${name} is offered, but its ${part} is not checked here: ${reason}`;
      cli.print(`\n${oneLine(told)}`);
    }
  }
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

async function restart(cli: Cli, key: string): Promise<number> {
  const server = await ask<McpServerView>(cli, key, "/restart", "POST");
  if (server.state !== "disabled") return tell(cli, server);
  const enable = cli.commandLine(`mcp-servers enable ${shellQuote(key)}`);
  throw new CliError(
    `The MCP server "${key}" is switched off, so nothing was started. Switch it on: ${enable}`,
    {
      code: "mcp_server_disabled",
    },
  );
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
  else if (tools.length === 0) cli.talk(`The MCP server "${oneLine(key)}" is approved as its entry is now.`);
  else cli.talk(`Approved as they are now: ${tools.map((tool) => oneLine(tool.name)).join(", ")}`);
  return exitCodes.ok;
}

function toEntry([command, ...args]: readonly string[], options: McpServersOptions): object {
  const { url, type, header = [], env = [], install } = options;
  if (command === undefined && url === undefined && install === undefined) {
    throw usageError(
      "Say how the server is reached: --url URL, --install PACKAGE@VERSION, or its command after --.",
    );
  }
  const ways = [
    ["--url", url],
    ["--install", install],
    // With an installed package, what follows are the arguments of its program.
    ["a command", install === undefined ? command : undefined],
  ].flatMap(([way, given]) => (given === undefined ? [] : [way]));
  if (ways.length > 1) {
    throw usageError(`A server is reached in one way: keep either ${ways.join(" or ")}.`);
  }
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
  const why = oneLine(whyOf(server));
  if (cli.json) cli.printJson({ server });
  else cli.talk(`${server.key}: ${server.state}${why === "" ? "" : `. ${why}`}`);
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
