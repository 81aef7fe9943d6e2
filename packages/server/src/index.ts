export type { InternalTool, InternalToolContext } from "./calls/internal-tool.ts";
export { ChatService, type NewMessage } from "./chat/chat-service.ts";
export { type OfferedTools, ToolsService, type ToolWish } from "./chat/tools.ts";
export type {
  FeedEntry,
  MessagePart,
  ShownApproval,
  TextPart,
  ToolPart,
  TurnEnd,
  TurnEvent,
  TurnFeed,
} from "./chat/turn/events.ts";
export type { ActiveTurn } from "./chat/turns.ts";
export type { Config, Models, Services } from "./config/config.ts";
export { defineConfig } from "./config/config.ts";
export type { Workspace } from "./config/workspace.ts";
export type { FileReport, LoadEvent, LoadListener, LoadReport } from "./files/load-report.ts";
export type { McpServers, McpServerUpdate } from "./mcp/connect/mcp-servers.ts";
export type { McpServerView, McpToolView } from "./mcp/connect/wanted-servers.ts";
export { type App, type OpenOptions, openWorkspace } from "./rack/app.ts";
export { type OpenedChat, openChatService } from "./rack/chat-service.ts";
export { SkillLoader } from "./skills/loader.ts";
export { ToolManager } from "./skills/tool-manager.ts";
export type { ChatMessage, ChatSession } from "./store/chat-tables.ts";
