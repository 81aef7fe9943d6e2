export { ApiError } from "./api-error.ts";
export { type CallWatcher, findAnswer, newId, readCall, runTool, startReplay, tryTool } from "./calls.ts";
export { eventStream, type RackEvent, readEvents, useEvents } from "./events.ts";
export { open, readPages, request, unlessForbidden } from "./request.ts";
export { currentSession, followOtherTabs, openSession, signIn, signOut } from "./session.ts";
export { loopsOf, type RackStatistics, readCalls, readStatistics } from "./statistics.ts";
export type {
  Approval,
  ApprovalRule,
  Call,
  CallAnswer,
  CallFacts,
  CallLine,
  CallPage,
  CallProgress,
  CallStatus,
  CallSummary,
  ChatMessage,
  ChatPart,
  ChatSession,
  ChatTextPart,
  ChatToolPart,
  Expert,
  FileReport,
  JsonSchema,
  LoopVerdict,
  McpServer,
  McpServerTool,
  Reload,
  Server,
  Skill,
  SkillFile,
  SkillImport,
  SkillSummary,
  SkillTool,
  SkillToolDraft,
  SkillToolType,
  Token,
  Tool,
  ToolResult,
  ToolSummary,
} from "./types.ts";
