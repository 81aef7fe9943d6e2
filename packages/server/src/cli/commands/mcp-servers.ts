import { spawn } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { shellQuote } from "../../helpers/index.ts";
import type { McpServerView, McpToolView } from "../../mcp/connect/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, exitCodes, usageError } from "../cli-error.ts";
import { askServer } from "../server-client.ts";
import { oneLine } from "../text.ts";
import { importMcpServers } from "./mcp-server-files.ts";

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
  /** Whether login opens the page in a browser. Default true. */
  readonly open?: boolean;
}

/** How many words may follow the key, by action; none for actions that are not named. */
const MOST_WORDS: Partial<Record<McpServerAction, number>> = { add: Number.POSITIVE_INFINITY, approve: 2 };

/** `toolrack mcp-servers`: the upstream MCP servers of the running server. */
export async function mcpServers(
  cli: Cli,
  action: McpServerAction = "list",
  key: string | undefined,
  rest: readonly string[],
  options: McpServersOptions,
  /** What it is called in sentences. */
  noun: "MCP server" | "API" = "MCP server",
): Promise<void> {
  const extra = action === "list" ? key : rest[MOST_WORDS[action] ?? 0];
  const command = noun === "API" ? "apis" : "mcp-servers";
  if (extra !== undefined) {
    throw usageError(`${command} ${action} does not know what to do with "${extra}". Leave it out.`);
  }
  if (action === "list") {
    const none = `There are no MCP servers. Write them into mcp.json, or: ${cli.commandLine("mcp-servers add KEY")} -- COMMAND`;
    return listServers(cli, () => true, none);
  }
  if (key === undefined) {
    const wanted = action === "import" ? "FILE" : "KEY";
    throw usageError(`Which one? ${cli.commandLine(`${command} ${action} ${wanted}`)}`);
  }
  switch (action) {
    case "show":
      return show(cli, key);
    case "add":
      return printState(cli, await add(cli, key, toEntry(rest, options)));
    case "remove":
      return remove(cli, key, noun);
    case "enable":
    case "disable":
      return printState(
        cli,
        await ask<McpServerView>(cli, key, "", "PATCH", { enabled: action === "enable" }),
      );
    case "restart":
      return restart(cli, key, noun, command);
    case "approve":
      return approve(cli, key, noun, rest[0], rest[1]);
    case "login":
      return login(cli, key, options.open !== false);
    case "logout":
      return logout(cli, key);
    case "import":
      return importMcpServers(cli, key, (name, entry) => add(cli, name, entry));
  }
}

function ask<Body>(cli: Cli, key: string, path = "", method = "GET", body?: object): Promise<Body> {
  return askServer<Body>(cli, `/api/mcp-servers/${encodeURIComponent(key)}${path}`, method, body);
}

interface ServerList {
  readonly items: readonly McpServerView[];
  readonly fileProblem?: string;
  readonly problems: Readonly<Record<string, string>>;
}

/** Prints the upstreams that `isWanted` picks. `none`: what is said when there are none. */
export async function listServers(
  cli: Cli,
  isWanted: (server: McpServerView) => boolean,
  none: string,
): Promise<void> {
  const { items: all, fileProblem, problems } = await askServer<ServerList>(cli, "/api/mcp-servers");
  const items = all.filter(isWanted);
  cli.answer({ servers: items, fileProblem, problems }, () => {
    if (fileProblem !== undefined) cli.talk(fileProblem);
    const listed = new Set(all.map((server) => server.key));
    for (const [key, problem] of Object.entries(problems)) if (!listed.has(key)) cli.talk(problem);
    if (items.length === 0) {
      cli.talk(none);
      return;
    }
    const rows = items.map((server) => [
      server.key,
      server.state,
      toolsOf(server),
      String(server.tokens),
      [server.transport, server.era].filter((part) => part !== undefined).join(" "),
      server.serverInfo === undefined ? "-" : `${server.serverInfo.name} ${server.serverInfo.version}`,
      whyOf(server),
    ]);
    cli.table(["KEY", "STATE", "TOOLS", "TOKENS", "TRANSPORT", "SERVER", "WHY"], rows);
  });
}

/** Why the server cannot be used, or why its tools are not known yet. */
function whyOf({ reason, problem }: McpServerView): string {
  return oneLine([reason, problem].filter(Boolean).join(" "));
}

function toolsOf({ tools, leftOut, quarantined }: McpServerView): string {
  const without = [
    ...(leftOut > 0 ? [`${leftOut} left out`] : []),
    ...(quarantined > 0 ? [`${quarantined} in quarantine`] : []),
  ];
  return without.length === 0 ? String(tools) : `${tools} (${without.join(", ")})`;
}

interface ShownServer {
  readonly server: McpServerView;
  readonly tools: readonly McpToolView[];
  readonly log: readonly { readonly from: string; readonly text: string }[];
}

async function show(cli: Cli, key: string): Promise<void> {
  const server = await ask<McpServerView>(cli, key);
  const { items: tools } = await ask<{ items: ShownServer["tools"] }>(cli, key, "/tools");
  const { items: log } = await ask<{ items: ShownServer["log"] }>(cli, key, "/log");
  cli.answer({ server, tools, log }, () => printServer(cli, key, { server, tools, log }));
}

function printServer(cli: Cli, key: string, { server, tools, log }: ShownServer): void {
  const facts: [string, unknown][] = [
    ["state", server.reason === undefined ? server.state : `${server.state}: ${server.reason}`],
    ["problem", server.problem],
    ["place", server.place === "file" ? "the workspace's file" : "the store"],
    ["entry", JSON.stringify(server.entry)],
    ["transport", [server.transport, server.era, server.protocolVersion].filter(Boolean).join(" ")],
    ["process", server.pid],
    ["callers", server.connections && `have ${server.connections} connections of their own`],
    ["sign-in", signInOf(server)],
    ["tokens", server.tokens],
    ["says", server.instructions?.text],
  ];
  const known = facts.filter(([, value]) => value !== undefined && value !== "");
  cli.print(known.map(([name, value]) => `${name.padEnd(10)} ${oneLine(String(value))}`).join("\n"));
  if (tools.length > 0) {
    const rows = tools.map(({ name, rackName, pin, offered, tokens, changes }) => [
      name,
      offered ? rackName : "(left out)",
      String(tokens ?? "-"),
      // A tool that is left out has no pin, because nobody approved it.
      offered || pin === "quarantined" ? pin : "-",
      changes.map(({ path }) => path).join(", "),
    ]);
    cli.print("");
    cli.table(["TOOL", "ON THE RACK", "TOKENS", "PIN", "CHANGED"], rows);
  }
  for (const { name, reason } of server.refused)
    cli.print(`\n${oneLine(name)} is left out: ${oneLine(reason)}`);
  for (const { name, unchecked } of tools) {
    for (const { part, reason } of unchecked)
      cli.print(`\n${oneLine(`${name} is offered, but its ${part} is not checked here: ${reason}`)}`);
  }
  for (const tool of tools) if (tool.changes.length > 0) printChanges(cli, key, tool);
  const { text = "", changed } = server.instructions ?? {};
  if (changed !== undefined) {
    const changes = [{ path: "instructions", before: text, after: changed.text }];
    printChanges(cli, key, { name: "", changes, hash: changed.hash });
  }
  const lines = log.slice(-20).map(({ from, text }) => `${from}: ${oneLine(text)}`);
  if (lines.length > 0) cli.print(`\n${lines.join("\n")}`);
}

/** The instructions of a server are approved by an empty name. */
function printChanges(
  cli: Cli,
  key: string,
  { name, changes, hash }: Pick<McpToolView, "name" | "changes" | "hash">,
): void {
  for (const { path, before, after } of changes) {
    cli.print(`\n${oneLine(name)} ${oneLine(path)}`);
    if (before !== undefined) cli.print(cli.style("red", `- ${oneLine(JSON.stringify(before))}`));
    if (after !== undefined) cli.print(cli.style("green", `+ ${oneLine(JSON.stringify(after))}`));
  }
  const words = [key, name, hash].map((word) => shellQuote(oneLine(word))).join(" ");
  cli.print(`\nTo approve exactly this: ${cli.commandLine(`mcp-servers approve ${words}`)}`);
}

function signInOf({ signIn, state, transport }: McpServerView): string | undefined {
  const isAsked = state === "needs-auth" || transport === "api";
  if (signIn === undefined || (!signIn.signedIn && !isAsked)) return undefined;
  if (signIn.signedIn) return "signed in";
  return signIn.pending ? "waits for somebody to finish it" : (signIn.problem ?? "nobody has signed in");
}

function add(cli: Cli, key: string, entry: object): Promise<McpServerView> {
  return askServer(cli, "/api/mcp-servers", "POST", { key, entry });
}

function toEntry([command, ...args]: readonly string[], options: McpServersOptions): object {
  const { url, type, header = [], env = [], install } = options;
  const ways = [
    ["--url", url],
    ["--install", install],
    // With an installed package, the words are arguments of its program.
    ["a command", install === undefined ? command : undefined],
  ].flatMap(([way, given]) => (given === undefined ? [] : [way]));
  if (ways.length === 0) {
    throw usageError(
      "Say how the server is reached: --url URL, --install PACKAGE@VERSION, or its command after --.",
    );
  }
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

export function pairs(words: readonly string[], option: string): Record<string, string> {
  return Object.fromEntries(
    words.map((word) => {
      const at = word.indexOf("=");
      if (at < 1) throw usageError(`${option} takes NAME=VALUE, not "${word}".`);
      return [word.slice(0, at), word.slice(at + 1)];
    }),
  );
}

function printState(cli: Cli, server: McpServerView): void {
  const why = whyOf(server);
  cli.answer({ server }, () => cli.talk(`${server.key}: ${server.state}${why === "" ? "" : `. ${why}`}`));
  if (server.state === "failed") cli.exitCode = exitCodes.failure;
}

async function restart(cli: Cli, key: string, noun: string, command: string): Promise<void> {
  const server = await ask<McpServerView>(cli, key, "/restart", "POST");
  if (server.state !== "disabled") return printState(cli, server);
  const enable = cli.commandLine(`${command} enable ${shellQuote(key)}`);
  throw new CliError(
    `The ${noun} "${key}" is switched off, so nothing was started. Switch it on: ${enable}`,
    { code: "mcp_server_disabled" },
  );
}

async function remove(cli: Cli, key: string, noun: string): Promise<void> {
  await ask(cli, key, "", "DELETE");
  cli.answer({ key }, () => cli.talk(`The ${noun} "${key}" is removed.`));
}

/** With the hash that `show` prints, only the definition that the person has seen is approved. */
async function approve(cli: Cli, key: string, noun: string, name?: string, hash?: string): Promise<void> {
  // The instructions of the server have an empty name, which fits into no path.
  if (name === "" && hash === undefined)
    throw usageError("The instructions of a server are approved with their hash, which show prints.");
  const isTool = name !== undefined && name !== "";
  const path = isTool ? `/tools/${encodeURIComponent(name)}/approve` : "/approve";
  const body = isTool || hash === undefined ? { hash } : { hashes: { "": hash } };
  const answer = await ask<McpToolView | { items: McpToolView[] }>(cli, key, path, "POST", body);
  const tools = "items" in answer ? answer.items : [answer];
  cli.answer({ tools }, () => {
    if (name === "") cli.talk(`The instructions of the ${noun} "${oneLine(key)}" are approved.`);
    else if (tools.length === 0) cli.talk(`The ${noun} "${oneLine(key)}" is approved as its entry is now.`);
    else cli.talk(`Approved as they are now: ${tools.map((tool) => oneLine(tool.name)).join(", ")}`);
  });
}

const POLL = 500;

/** Opens the sign-in page of a server, and waits until the person has signed in and the server has started. */
async function login(cli: Cli, key: string, canOpen: boolean): Promise<void> {
  const { since } = await ask<McpServerView>(cli, key);
  const begun = await ask<{ url: string; expiresAt: number }>(cli, key, "/login", "POST");
  // With --json, the calling program opens the page and checks the server's state itself.
  if (cli.json) return cli.answer(begun, () => {});
  cli.talk(`Sign in at ${oneLine(key)} on this page; it works for ten minutes:`);
  cli.print(begun.url);
  if (canOpen && cli.interactive) openInBrowser(begun.url);
  const { signIn, state, reason } = await settled(cli, key, since);
  if (signIn?.signedIn !== true) {
    const why = signIn?.problem ?? "Nobody came back from the page in time.";
    throw new CliError(`Not signed in at ${key}. ${why}`, { code: "mcp_sign_in_failed" });
  }
  cli.talk(`Signed in. ${key}: ${state}${reason === undefined ? "" : `. ${oneLine(reason)}`}`);
  if (state !== "ready") cli.exitCode = exitCodes.failure;
}

/** Waits until the sign-in has ended and the server has left the state that it entered at the time `since`. */
async function settled(cli: Cli, key: string, since: number): Promise<McpServerView> {
  for (;;) {
    const server = await ask<McpServerView>(cli, key);
    const { pending, signedIn } = server.signIn ?? {};
    const isStarting =
      signedIn === true &&
      server.state !== "disabled" &&
      (server.state === "starting" || server.since === since);
    if (pending !== true && !isStarting) return server;
    await delay(POLL);
  }
}

/** Opens a page in the browser of this machine. Does nothing where that is not possible. */
function openInBrowser(address: string): void {
  const { href, protocol } = new URL(address);
  // The address is not ours, so it must not name a program or a file.
  if (protocol !== "https:" && protocol !== "http:") return;
  // None of these programs is a shell, so no part of the address is run as a command.
  const openers: Partial<Record<NodeJS.Platform, readonly string[]>> = {
    darwin: ["open"],
    win32: ["rundll32", "url.dll,FileProtocolHandler"],
  };
  const [program = "", ...args] = openers[process.platform] ?? ["xdg-open"];
  const child = spawn(program, [...args, href], { stdio: "ignore", detached: true });
  child.on("error", () => {});
  child.unref();
}

async function logout(cli: Cli, key: string): Promise<void> {
  const answer = await ask<{ revoked: boolean; server: McpServerView }>(cli, key, "/logout", "POST");
  const { revoked, server } = answer;
  const how = revoked ? "The tokens were taken back." : "The tokens were forgotten here, but not taken back.";
  cli.answer({ revoked, server }, () => cli.talk(`Signed out at ${key}. ${how}`));
}
