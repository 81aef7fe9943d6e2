export type { ServerEntry } from "./config/entry.ts";
export { readMcpFile } from "./config/wanted-servers.ts";
export { McpServers, type McpServerUpdate } from "./mcp-servers.ts";
export type { McpServerView, McpToolView } from "./views.ts";
