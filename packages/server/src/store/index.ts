export {
  type AnsweredFor,
  type ApprovalQuery,
  type ApprovalRule,
  type ApprovalStore,
  problemOfRulePattern,
  type StoredApproval,
} from "./approvals.ts";
export type { CallLine } from "./calls/call-writer.ts";
export { ResultElsewhereError } from "./calls/calls.ts";
export { type HeldRecords, mostHeld } from "./calls/held-calls.ts";
export type {
  ChatMessage,
  ChatSession,
  ChatStore,
  Handoff,
  MessagePage,
  MessageQuery,
  SessionChanges,
} from "./chat-tables.ts";
export { isFullDisk, mysqlAddress } from "./database.ts";
export {
  type ExpertChanges,
  ExpertConflictError,
  type ExpertStore,
  type NewExpert,
  type StoredExpert,
} from "./experts.ts";
export { RegistryVersion } from "./instances.ts";
export {
  McpServerError,
  type McpServerStore,
  type McpToolChange,
  type StoredMcpServer,
  type StoredMcpTool,
  type ToolOverride,
} from "./mcp-servers.ts";
export { problemsOf, RepairRefused, type RepairReport, repairDatabase } from "./repair/repair-database.ts";
export type { NewSchedule, ScheduleTiming, StoredSchedule } from "./schedules.ts";
export {
  type NewSkill,
  type NewSkillTool,
  newId,
  type SeenVersion,
  type SkillBundle,
  SkillChangedError,
  type SkillChanges,
  SkillConflictError,
  type SkillFile,
  type SkillStore,
  type SkillToolChanges,
  type SkillToolType,
  type StoredSkill,
  type StoredSkillTool,
  skillToolTypes,
} from "./skill-tables.ts";
export {
  type CallQuery,
  type CallStore,
  openStore,
  type Page,
  type StartedCall,
  type Store,
  type StoredCall,
  type StoredToken,
  type TokenStore,
} from "./store.ts";
export { StoreUnavailable, type UnavailableReason } from "./store-unavailable.ts";
export type { SecretInfo, ToolSwitch } from "./tokens.ts";
export { InvalidCursorError, toKey } from "./values.ts";
