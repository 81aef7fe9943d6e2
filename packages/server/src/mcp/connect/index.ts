export { readMcpFile } from "./config/configured-servers.ts";
export type { ServerEntry } from "./config/entry.ts";
export { McpServers, type McpServerUpdate } from "./mcp-servers.ts";
export type { McpServerView, McpToolView } from "./server-views.ts";
