export { type App, type OpenOptions, openWorkspace } from "./app.ts";
export type { Config, Models, Services } from "./config/config.ts";
export { defineConfig } from "./config/define-config.ts";
export type { Workspace } from "./config/workspace.ts";
export { SkillLoader } from "./skills/skill-loader.ts";
export { ToolManager } from "./skills/tool-manager.ts";
export type { InternalTool, InternalToolContext } from "./sources/internal/contract.ts";
export type { FileReport, LoadEvent, LoadListener, LoadReport } from "./sources/load-report.ts";
export type { McpServers, McpServerUpdate, McpServerView, McpToolView } from "./sources/mcp/mcp-servers.ts";
