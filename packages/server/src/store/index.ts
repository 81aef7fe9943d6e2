export type { AnsweredFor, ApprovalQuery, ApprovalRule, ApprovalStore, StoredApproval } from "./approvals.ts";
export type { Blobs } from "./blobs.ts";
export type { CallQuery } from "./calls/call-query.ts";
export type { CallLine, CallTrace, StartedCall, StoredCall } from "./calls/call-row.ts";
export type { CallStore } from "./calls/calls.ts";
export type { LaneCall, LaneCalls, LaneHandover } from "./calls/lane-calls.ts";
export type { HeldRecords } from "./calls/waiting-records.ts";
export type {
  ChatMessage,
  ChatSession,
  ChatStore,
  Handoff,
  MessagePage,
  MessageQuery,
  NewChatMessage,
  SessionChanges,
} from "./chat.ts";
export { isFullDisk, StoreUnavailable, type UnavailableReason } from "./database-errors.ts";
export {
  BlobMissingError,
  ExpertConflictError,
  InvalidCursorError,
  McpServerError,
  PatternTooWideError,
  RepairRefused,
  SkillChangedError,
  SkillConflictError,
} from "./errors.ts";
export type { ExpertChanges, ExpertStore, NewExpert, StoredExpert } from "./experts.ts";
export { Follower, type Following } from "./follower.ts";
export type { Instance } from "./instances.ts";
export {
  mostHeld,
  mysqlAddress,
  newId,
  problemOfRulePattern,
  REQUEST_MARK,
  type SkillToolType,
  skillToolTypes,
  toKey,
  tokenSecretName,
} from "./keys.ts";
export type { LoopRelease } from "./loop-releases.ts";
export type {
  McpServerStore,
  McpToolChange,
  StoredMcpServer,
  StoredMcpTool,
  ToolOverride,
} from "./mcp-servers.ts";
export type { NodeConnection, NodeRow, Pulse } from "./node-connection.ts";
export type { RepairReport } from "./repair.ts";
export type { Page } from "./row-mapping.ts";
export type { NewSchedule, ScheduleQuery, ScheduleTiming, StoredSchedule } from "./schedules.ts";
export type { LearnedSearch, SearchStore } from "./searches.ts";
export type {
  NewSkill,
  NewSkillTool,
  SkillBundle,
  SkillChanges,
  SkillFile,
  SkillStore,
  SkillToolChanges,
  StoredSkill,
  StoredSkillTool,
} from "./skills.ts";
export type { Store } from "./store.ts";
export type { StoredToken, TokenStore, ToolSwitch, ValueInfo } from "./tokens.ts";
export type { NewUsage, UsageStatistics, UsageTotals } from "./usage.ts";
export type { RegistryVersion, SeenVersion } from "./versions.ts";

import type { problemsOf, repairDatabase as Repair } from "./repair.ts";
// Most commands never open the database, so its code is loaded on first use.
import type { openStore as Open } from "./store.ts";

export const openStore: typeof Open = async (options) => (await import("./store.ts")).openStore(options);

export const repairDatabase: typeof Repair = async (directory) =>
  (await import("./repair.ts")).repairDatabase(directory);

/** Lists what is wrong with a SQLite file, in SQLite's words; empty when it is whole. */
export async function databaseProblems(...args: Parameters<typeof problemsOf>): Promise<string[]> {
  return (await import("./repair.ts")).problemsOf(...args);
}
