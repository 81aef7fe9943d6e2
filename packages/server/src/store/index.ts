export type { AnsweredFor, ApprovalQuery, ApprovalRule, ApprovalStore, StoredApproval } from "./approvals.ts";
export type { CallLine } from "./calls/call-writer.ts";
export type { HeldRecords } from "./calls/held-calls.ts";
export type {
  ChatMessage,
  ChatSession,
  ChatStore,
  Handoff,
  MessagePage,
  MessageQuery,
  SessionChanges,
} from "./chat-tables.ts";
export {
  ExpertConflictError,
  InvalidCursorError,
  McpServerError,
  RepairRefused,
  ResultElsewhereError,
  SkillChangedError,
  SkillConflictError,
} from "./errors.ts";
export type { ExpertChanges, ExpertStore, NewExpert, StoredExpert } from "./experts.ts";
export { Follower, type Following } from "./follower.ts";
export {
  isFullDisk,
  mostHeld,
  mysqlAddress,
  newId,
  problemOfRulePattern,
  type SkillToolType,
  skillToolTypes,
  toKey,
} from "./forms.ts";
export type { RegistryVersion } from "./instances.ts";
export type {
  McpServerStore,
  McpToolChange,
  StoredMcpServer,
  StoredMcpTool,
  ToolOverride,
} from "./mcp-servers.ts";
export type { RepairReport } from "./repair/repair-database.ts";
export type { NewSchedule, ScheduleTiming, StoredSchedule } from "./schedules.ts";
export type {
  NewSkill,
  NewSkillTool,
  SeenVersion,
  SkillBundle,
  SkillChanges,
  SkillFile,
  SkillStore,
  SkillToolChanges,
  StoredSkill,
  StoredSkillTool,
} from "./skill-tables.ts";
export type {
  CallQuery,
  CallStore,
  Page,
  StartedCall,
  Store,
  StoredCall,
  StoredToken,
  TokenStore,
} from "./store.ts";
export { StoreUnavailable, type UnavailableReason } from "./store-unavailable.ts";
export type { SecretInfo, ToolSwitch } from "./tokens.ts";

import type { problemsOf, repairDatabase as Repair } from "./repair/repair-database.ts";
// Most commands never open the database: what does is loaded when it is asked for.
import type { openStore as Open } from "./store.ts";

export const openStore: typeof Open = async (options) => (await import("./store.ts")).openStore(options);

export const repairDatabase: typeof Repair = async (directory) =>
  (await import("./repair/repair-database.ts")).repairDatabase(directory);

/** What is wrong with a SQLite file, sentence by sentence; nothing when it is whole. */
export async function databaseProblems(...args: Parameters<typeof problemsOf>): Promise<string[]> {
  return (await import("./repair/repair-database.ts")).problemsOf(...args);
}
