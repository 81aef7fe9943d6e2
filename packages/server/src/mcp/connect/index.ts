export type { ServerInstructions } from "./catalogue/catalogue.ts";
export { readMcpFile } from "./config/configured-servers.ts";
export type { ServerEntry } from "./config/entry.ts";
export { ConfigurationError } from "./failures.ts";
export { McpServers, type McpServerUpdate } from "./mcp-servers.ts";
export type { OpenApi } from "./protocol/api.ts";
export type { McpServersOptions } from "./server-context.ts";
export { type McpServerView, type McpToolView, mcpServer, mcpServerTool } from "./server-schemas.ts";
