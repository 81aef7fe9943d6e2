import type { ToolCallRecord, ToolResult } from "@toolrack/core";
import type { ApprovalStore } from "./approvals/approval-store.ts";
import type { CallLine } from "./calls/call-line.ts";
import type { CallStatistics, StatisticsQuery } from "./calls/call-statistics.ts";
import type { ChatStore } from "./chat/chat-store.ts";
import type { ExpertStore } from "./experts/expert-store.ts";
import type { McpServerStore } from "./mcp-servers/mcp-server-store.ts";
import type { RegistryVersion } from "./registry-version/registry-version.ts";
import type { ScheduleStore } from "./schedules/schedule-store.ts";
import type { SecretStore } from "./secrets/secret-store.ts";
import type { SkillStore } from "./skills/skill-store.ts";
import type { ToolSwitchStore } from "./tool-switches/tool-switch-store.ts";

/** A call as it is kept. */
export interface StoredCall extends Omit<ToolCallRecord, "status"> {
  /** `error` also for a call that was interrupted. */
  readonly status: "running" | "completed" | "error";
  /** The bounded one; a larger whole is a blob, read by page. Empty while the call runs. */
  readonly result: ToolResult;
  /** Characters of the whole result text. */
  readonly resultSize: number;
  /** The call that this one repeats. */
  readonly replayOf?: string;
  /** `interrupted`: the process died while it ran. */
  readonly outcome: "running" | "completed" | "error" | "interrupted";
  /** What the tool said while it ran, where it said something. Not in lists. */
  readonly log?: readonly CallLine[];
}

/** A call that has begun, noted so that a crash leaves a trace. */
export interface StartedCall {
  readonly callId: string;
  readonly parentCallId?: string;
  readonly toolName: string;
  readonly displayName: string;
  readonly sessionID: string;
  readonly caller: string;
  readonly timestamp: number;
  readonly parameters: Record<string, unknown>;
}

export interface CallQuery {
  /** Glob over the tool's name: `*` for any characters, `?` for one. */
  readonly tool?: string;
  readonly status?: "running" | "completed" | "error" | "interrupted";
  readonly session?: string;
  readonly minDuration?: number;
  readonly maxDuration?: number;
  /** Milliseconds since the epoch. */
  readonly since?: number;
  readonly until?: number;
  /** Anywhere in the arguments, the recorded result or the error, whatever the case of Latin letters. */
  readonly text?: string;
  /** The call that made them. */
  readonly parent?: string;
  /** A call, all that it made, and all that those made. */
  readonly root?: string;
  /** Glob over the caller. */
  readonly caller?: string;
  /** Only calls that no other call made. */
  readonly top?: boolean;
  /** Only calls that bear this flag. */
  readonly flag?: "loop";
  /** At most 500; default 50. Newest first. */
  readonly limit?: number;
  /** From the page before. */
  readonly cursor?: string;
}

export interface Page<Item> {
  readonly items: readonly Item[];
  readonly next?: string;
}

/** Is told of a call by its id, and why the database refuses it. */
export type RefusalListener = (callId: string, reason: unknown) => void;

export interface CallStore {
  /** Returns at once; written with the next batch. */
  started(call: StartedCall): void;
  /**
   * Resolves when it is safe, whatever happens to the process: in the database, or in a journal beside it from which the
   * database has it a moment later, and at the next start if the process ends before. Every method here knows of it from
   * then on. `whole` is the whole text, when `result` has only a part of it. A call with the id of an earlier one is kept
   * beside it, under that id with an ending of its own. Rejects when the database cannot be reached for seconds, or the
   * disk is full.
   */
  finished(
    record: ToolCallRecord,
    result: ToolResult,
    replayOf?: string,
    whole?: string,
    log?: readonly CallLine[],
  ): Promise<void>;
  /**
   * Tells of calls that are safe in the journal and that the database refuses, once for each. They stay there and are
   * tried again, by the next process at the latest.
   */
  onRefused(listener: RefusalListener): void;
  get(callId: string): Promise<StoredCall | undefined>;
  /**
   * Running calls too. So that a page stays small, an item has the first 2,000 characters of the result's text and
   * nothing else of the result, and no arguments longer than 16,000: `get` has all. Throws `InvalidCursorError`.
   */
  list(query: CallQuery): Promise<Page<StoredCall>>;
  /** A page of the whole text of the result, in characters. Rejects when its blob is not on this node. */
  readResult(
    callId: string,
    offset: number,
    limit: number,
  ): Promise<{ text: string; total: number } | undefined>;
  /** Counts and times of calls that have ended. */
  statistics(query: StatisticsQuery): Promise<CallStatistics>;
  /**
   * Settles what a process that died left running; never a call of a process that lives, here or on another node.
   * Answers how many. To be called at the start, and on a shared database every minute or so.
   */
  settleInterrupted(): Promise<number>;
}

export interface StoredToken {
  readonly id: string;
  readonly name: string;
  readonly scopes: {
    readonly tools?: readonly string[];
    readonly experts?: readonly string[];
    readonly admin?: boolean;
    /** May talk to models. Default: when it may use tools or experts. */
    readonly chat?: boolean;
  };
  readonly createdAt: number;
  readonly lastUsedAt?: number;
  readonly expiresAt?: number;
}

export interface TokenStore {
  /** Only the hash is kept. */
  add(token: StoredToken, hash: string): Promise<void>;
  findByHash(hash: string): Promise<StoredToken | undefined>;
  list(): Promise<StoredToken[]>;
  remove(id: string): Promise<boolean>;
  touch(id: string, at: number): Promise<void>;
}

/** Everything that outlives the process, on SQLite, PostgreSQL or MySQL/MariaDB. */
export interface Store {
  readonly engine: "sqlite" | "postgres" | "mysql";
  readonly calls: CallStore;
  readonly tokens: TokenStore;
  readonly approvals: ApprovalStore;
  readonly secrets: SecretStore;
  readonly schedules: ScheduleStore;
  readonly skills: SkillStore;
  readonly mcpServers: McpServerStore;
  readonly experts: ExpertStore;
  readonly toolSwitches: ToolSwitchStore;
  readonly chat: ChatStore;
  readonly registryVersion: RegistryVersion;
  /**
   * Deletes what is older (milliseconds) or more (bytes of all calls) than the retention says, oldest first, and blobs
   * that nothing refers to. What is running, waiting for an answer or scheduled stays.
   */
  prune(options: { readonly maxAge?: number; readonly maxBytes?: number }): Promise<void>;
  /** Writes what is waiting, then closes. */
  close(): Promise<void>;
}
