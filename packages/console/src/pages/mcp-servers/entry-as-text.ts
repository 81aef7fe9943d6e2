import type { McpServer } from "../../api/mcp-server-types.ts";

/** The entry as it would stand in a file, for people to read, copy and change. */
export function entryAsText({ key, entry }: Pick<McpServer, "key" | "entry">): string {
  return JSON.stringify({ mcpServers: { [key]: entry } }, undefined, 2);
}
