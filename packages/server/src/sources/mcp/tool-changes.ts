import { McpServerError } from "../../store/mcp-servers/mcp-server-error.ts";
import type { ToolOverride } from "../../store/mcp-servers/mcp-server-store.ts";
import type { UpstreamTool } from "./catalogue/catalogue.ts";
import { ownMember } from "./catalogue/own-member.ts";
import { hashOfPin, pinOf } from "./catalogue/pin.ts";
import type { RackNames } from "./catalogue/rack-names.ts";
import { commandFor } from "./command-for.ts";
import type { ManagedServer } from "./managed-server.ts";
import { toolViewsOf } from "./mcp-server-view.ts";

/** What is said about tools, by the names that the server gives them; null takes back what was said. */
export type ToolOverrides = Readonly<Record<string, ToolOverride | null>>;

/** The tool of that name. With a hash, only while its definition is the one that the hash stands for. */
export function requireTool(server: ManagedServer, name: string, hash?: string): UpstreamTool {
  const tool = server.find(name);
  if (tool === undefined) {
    throw new McpServerError(
      "mcp_tool_not_found",
      `The MCP server "${server.key}" has no tool "${name}"${nextStep(server)}`,
    );
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
    `The tool "${name}" of the MCP server "${server.key}" changed after it was looked at, so nothing was approved. ${now}. Look at it again and approve what you see: ${commandFor("show", server.key)}`,
    { tool: name, hash: current, changes },
  );
}

/** Which tools a server has is known once it has run. */
function nextStep({ key, wanted, upstream }: ManagedServer): string {
  if (!wanted.isEnabled)
    return `, as far as is known: it is switched off. Switch it on: ${commandFor("enable", key)}`;
  const isUp = upstream.state === "ready";
  return `${isUp ? "" : `, as far as is known: it is ${upstream.state}`}. See: ${commandFor("show", key)}`;
}

/** A tool cannot be given the name that another tool of the server has. Names that differ by case only are one. */
export function refuseDoubles(
  server: ManagedServer,
  overrides: ToolOverrides,
  names: Pick<RackNames, "nameOf">,
): void {
  const before = toolViewsOf(server, names);
  for (const [name, override] of Object.entries(overrides)) {
    if (override?.rename === undefined) continue;
    const rackName = names.nameOf(server.key, override.rename);
    const other = before.find((tool) => {
      if (tool.name === name) return false;
      const own = names.nameOf(server.key, tool.name);
      const said = ownMember(overrides, tool.name);
      const renamed =
        said === undefined ? tool.rackName : names.nameOf(server.key, said?.rename ?? tool.name);
      // By its own name a renamed tool is reached too.
      return [own, renamed].some((taken) => taken.toLowerCase() === rackName.toLowerCase());
    });
    if (other === undefined) continue;
    throw new McpServerError(
      "mcp_server_invalid",
      `The tool "${name}" cannot be renamed to ${rackName}: that is the name of the tool "${other.name}". Choose another name.`,
    );
  }
}
