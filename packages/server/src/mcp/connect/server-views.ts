import { McpServerError, type ToolOverride } from "../../store/index.ts";
import { instructionsAsTool, ownMember, type UpstreamTool } from "./catalogue/catalogue.ts";
import { isOffered } from "./catalogue/tool.ts";
import { hashOfPin, pinOf } from "./catalogue/tool-approvals.ts";
import { uncheckedIn } from "./catalogue/usable-schema.ts";
import { isLocal, type ServerEntry } from "./config/entry.ts";
import { shownEntry } from "./config/secret-values.ts";
import { commandFor, notSignedIn } from "./failures.ts";
import type { ManagedServer } from "./managed-server.ts";
import type { McpServerView, McpToolView } from "./server-schemas.ts";
import type { SignIn } from "./sign-in/sign-in.ts";
import { canSignIn } from "./sign-in/stored-sign-in.ts";

/** `owner`: the id of the token that looks, where each token signs in for itself. */
export function viewOf(server: ManagedServer, owner: string): McpServerView {
  const { key, wanted, upstream, pins, connections } = server;
  const { catalogue, status } = upstream;
  const problem = wanted.problem ?? catalogue.cut?.join(" ");
  const signIn = server.signIns.of(owner)?.view;
  const isAwaited = wanted.entry.api !== undefined && status.state === "ready" && signIn?.signedIn === false;
  const missing = isAwaited && status.reason === undefined ? notSignedIn(key) : undefined;
  return {
    ...status,
    ...(missing && { reason: missing.reason, reasonCode: missing.code, reasonDetails: missing.details }),
    key,
    place: wanted.place,
    enabled: wanted.isEnabled,
    problem,
    problemOf: problem === undefined ? undefined : wanted.problem === undefined ? "lists" : "entry",
    entry: shownEntry(wanted.invalid?.given ?? wanted.entry),
    tools: wanted.isEnabled ? server.registered.size : 0,
    leftOut: server.leftOut.size,
    quarantined: catalogue.tools.filter((tool) => pins.of(tool).state === "quarantined").length,
    tokens: server.registered.tokens,
    instructions: instructionsView(server),
    prompts: catalogue.prompts.length,
    resources: catalogue.resources.length + catalogue.templates.length,
    refused: server.refused,
    connections: connections?.size,
    signIn,
  };
}

function instructionsView({
  instructions,
  upstream,
  pins,
  context,
}: ManagedServer): McpServerView["instructions"] {
  const given = instructionsAsTool(upstream.catalogue);
  const isChanged = given !== undefined && pins.of(given).state === "quarantined";
  const changed = isChanged
    ? { text: context.mask(given.description ?? ""), hash: hashOfPin(pinOf(given)) }
    : undefined;
  if (instructions === undefined && changed === undefined) return undefined;
  const { text = "", isOwn = false } = instructions ?? {};
  return { text, from: isOwn ? "entry" : "server", changed };
}

/** All tools of the server, in the order in which the server lists them. */
export function toolViewsOf(server: ManagedServer): McpToolView[] {
  const { names } = server.context;
  const { rename = {}, ...choices } = server.wanted.entry.toolrack?.tools ?? {};
  return server.upstream.catalogue.tools.map((tool) => {
    const { name, description } = tool;
    const { state: pin, changes, approvedAt, approvedBy, override } = server.pins.of(tool);
    const rackName = names.nameOf(server.key, override.rename ?? ownMember(rename, name) ?? name);
    const offered = isOffered(choices, name) && !server.leftOut.has(name);
    const unchecked = offered ? uncheckedIn(tool) : [];
    const hash = hashOfPin(pinOf(tool));
    const pinned = { pin, changes, approvedAt, approvedBy, override };
    const tokens = server.registered.tokensOf(rackName);
    return { name, rackName, description, tokens, hash, offered, unchecked, ...pinned };
  });
}

/**
 * Returns the tool with this name. Throws when there is none. If a hash is given, also throws when the tool's
 * definition no longer has that hash.
 */
export function requireTool(server: ManagedServer, name: string, hash?: string): UpstreamTool {
  const { key, wanted, upstream } = server;
  const tool = server.find(name);
  if (tool === undefined) {
    // The tools are unknown until the server has run once.
    const known = upstream.state === "ready" ? "" : `, as far as is known: it is ${upstream.state}`;
    const next = wanted.isEnabled
      ? `${known}. See: ${commandFor("show", key)}`
      : `, as far as is known: it is switched off. Switch it on: ${commandFor("enable", key)}`;
    throw new McpServerError("mcp_tool_not_found", `The MCP server "${key}" has no tool "${name}"${next}`);
  }
  const current = hashOfPin(pinOf(tool));
  if (hash === undefined || hash === current) return tool;
  const { changes } = server.pins.of(tool);
  const now =
    changes.length === 0
      ? "It is what was approved before"
      : `It now differs from what was approved in ${changes.map(({ path }) => path).join(", ")}`;
  throw new McpServerError(
    "mcp_tool_changed",
    `${name === "" ? "What is said by" : `The tool "${name}" of`} the MCP server "${key}" changed after it was looked at, so nothing was approved. ${now}. Look at it again and approve what you see: ${commandFor("show", key)}`,
    { tool: name, hash: current, changes },
  );
}

/** Settings for tools, by the server's names for them; null removes the settings. */
export type ToolOverrides = Readonly<Record<string, ToolOverride | null>>;

/** Throws when a tool would get the name of another tool of the server. Upper and lower case count as equal. */
export function refuseDoubles(server: ManagedServer, overrides: ToolOverrides): void {
  const before = toolViewsOf(server);
  const nameOf = (name: string) => server.context.names.nameOf(server.key, name);
  for (const [name, override] of Object.entries(overrides)) {
    if (override?.rename === undefined) continue;
    const rackName = nameOf(override.rename);
    const other = before.find((tool) => {
      if (tool.name === name) return false;
      const changed = ownMember(overrides, tool.name);
      const renamed = changed === undefined ? tool.rackName : nameOf(changed?.rename ?? tool.name);
      // A renamed tool can still be called by the server's own name for it.
      return [nameOf(tool.name), renamed].some((taken) => taken.toLowerCase() === rackName.toLowerCase());
    });
    if (other === undefined) continue;
    throw new McpServerError(
      "mcp_server_invalid",
      `The tool "${name}" cannot be renamed to ${rackName}: that is the name of the tool "${other.name}". Choose another name.`,
    );
  }
}

/** The sign-in for the token with the id `owner`. Throws `McpServerError` when the server has none. */
export function requireSignIn(server: ManagedServer, owner: string): SignIn {
  const { key, wanted } = server;
  const signIn = server.signIns.of(owner);
  if (signIn !== undefined) return signIn;
  const problem =
    wanted.invalid?.reason ?? `Nobody can sign in at the MCP server "${key}": ${whyNobody(wanted.entry)}.`;
  throw new McpServerError("mcp_server_invalid", problem);
}

function whyNobody(entry: ServerEntry): string {
  if (isLocal(entry)) return "it is a process, which takes its credentials from its environment";
  if (entry.api !== undefined)
    return 'it is an API whose entry names no client for that. Give its auth one, by the name of the scheme: { "clientId": … }';
  const canHaveBoth = canSignIn({ ...entry, toolrack: { ...entry.toolrack, oauth: {} } });
  const other = canHaveBoth ? ', or give it "toolrack": { "oauth": {} } if the server wants both' : "";
  return `its entry sends credentials of its own, in a header or in its url. Take them out of the entry first${other}`;
}
