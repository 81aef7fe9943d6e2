import { McpServerError } from "../../store/mcp-servers/mcp-server-error.ts";
import type { ToolOverride } from "../../store/mcp-servers/mcp-server-store.ts";
import type { UpstreamTool } from "./catalogue/catalogue.ts";
import { ownMember } from "./catalogue/own-member.ts";
import { hashOfPin, pinOf } from "./catalogue/pin.ts";
import { rackNameOf } from "./catalogue/tool-names.ts";
import type { ManagedServer } from "./managed-server.ts";
import { toolViewsOf } from "./mcp-server-view.ts";

/** What is said about tools, by the names that the server gives them; null takes back what was said. */
export type ToolOverrides = Readonly<Record<string, ToolOverride | null>>;

/** The tool of that name. With a hash, only while its definition is the one that the hash stands for. */
export function requireTool(server: ManagedServer, name: string, hash?: string): UpstreamTool {
  const tool = server.find(name);
  if (tool === undefined) {
    throw new McpServerError("mcp_tool_not_found", `The MCP server "${server.key}" has no tool "${name}".`);
  }
  const current = hashOfPin(pinOf(tool));
  if (hash === undefined || hash === current) return tool;
  const { changes } = server.pins.of(name);
  const now =
    changes.length === 0
      ? "It is what was approved before"
      : `It now differs from what was approved in ${changes.map(({ path }) => path).join(", ")}`;
  throw new McpServerError(
    "mcp_tool_changed",
    `The tool "${name}" of the MCP server "${server.key}" changed after it was looked at, so nothing was approved. ${now}. Look at it again and approve what you see: toolrack mcp-servers show ${server.key}`,
    { tool: name, hash: current, changes },
  );
}

/** A tool cannot be given the name that another tool of the server has. `keys` are those of all servers. */
export function refuseDoubles(
  server: ManagedServer,
  overrides: ToolOverrides,
  keys: () => Iterable<string>,
): void {
  const before = toolViewsOf(server, keys());
  for (const [name, override] of Object.entries(overrides)) {
    if (override?.rename === undefined) continue;
    const rackName = rackNameOf(server.key, override.rename, keys());
    const other = before.find((tool) => {
      if (tool.name === name) return false;
      const own = rackNameOf(server.key, tool.name, keys());
      const said = ownMember(overrides, tool.name);
      const renamed =
        said === undefined ? tool.rackName : rackNameOf(server.key, said?.rename ?? tool.name, keys());
      // By its own name a renamed tool is reached too.
      return rackName === own || rackName === renamed;
    });
    if (other === undefined) continue;
    throw new McpServerError(
      "mcp_server_invalid",
      `The tool "${name}" cannot be renamed to ${rackName}: that is the name of the tool "${other.name}". Choose another name.`,
    );
  }
}
