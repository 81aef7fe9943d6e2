export type { ServerEntry } from "./config/entry.ts";
export { readMcpFile } from "./config/resolve-entry.ts";
export { McpServers, type McpServerUpdate } from "./mcp-servers.ts";
export type { McpServerView, McpToolView } from "./wanted-servers.ts";
