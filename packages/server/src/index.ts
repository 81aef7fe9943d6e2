export type { InternalTool, InternalToolContext } from "./calls/index.ts";
export type {
  ActiveTurn,
  FeedEntry,
  MessagePart,
  ShownApproval,
  TextPart,
  ToolPart,
  TurnEnd,
  TurnEvent,
  TurnFeed,
} from "./chat/index.ts";
export {
  ChatService,
  type NewMessage,
  type OfferedTools,
  type ToolSelection,
  ToolsService,
} from "./chat/index.ts";
export type { Config, Models, Services, Workspace } from "./config/index.ts";
export { defineConfig } from "./config/index.ts";
export type { FileReport, LoadEvent, LoadListener, LoadReport } from "./files/index.ts";
export type { McpServers, McpServerUpdate, McpServerView, McpToolView } from "./mcp/connect/index.ts";
export { type App, type OpenedChat, type OpenOptions, openChatService, openWorkspace } from "./rack/index.ts";
export { SkillLoader, ToolManager } from "./skills/index.ts";
export type { ChatMessage, ChatSession } from "./store/index.ts";
