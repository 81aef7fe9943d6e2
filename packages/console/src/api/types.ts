import type { CallFlags, JsonSchema, ToolErrorResponse, ToolResult } from "@toolrack/core";

/** What the HTTP API answers, as far as the console reads it. `GET /openapi.json` has the whole of it. */

export type {
  CallFlags,
  ContentBlock,
  FilePart as Attachment,
  JsonSchema,
  ResultPage,
  ToolResult,
} from "@toolrack/core";

export type ToolStatus = "ok" | "stale" | "disabled";

export interface ToolSummary {
  readonly name: string;
  readonly displayName: string;
  readonly title?: string;
  readonly description?: string;
  readonly status: ToolStatus;
  readonly category?: string;
  readonly tags?: readonly string[];
  readonly aliases?: readonly string[];
  readonly dangerous: boolean;
  readonly readOnly: boolean;
  readonly permissions?: readonly string[];
  readonly origin?: string;
  readonly createdAt: number;
}

export interface Tool extends ToolSummary {
  readonly inputSchema?: JsonSchema;
  readonly outputSchema?: JsonSchema;
  readonly metadata: Readonly<Record<string, unknown>>;
}

export interface ToolPage {
  readonly items: readonly ToolSummary[];
  readonly total: number;
  readonly version: number;
  readonly next?: string;
}

export interface CallAnswer {
  readonly callId: string;
  readonly toolName: string;
  readonly status: "completed" | "error";
  readonly duration: number;
  readonly result: ToolResult;
  readonly recorded: boolean;
  readonly replayOf?: string;
  /** Set by the console when the result is only the beginning of the whole. */
  readonly resultSize?: number;
}

export type CallStatus = "pending" | "running" | "completed" | "error" | "interrupted";

export type LoopVerdict = NonNullable<CallFlags["loop"]>;

export interface CallFacts {
  readonly callId: string;
  readonly parentCallId?: string;
  readonly replayOf?: string;
  readonly toolName: string;
  readonly displayName?: string;
  readonly status: CallStatus;
  readonly sessionID?: string;
  readonly messageID?: string;
  readonly caller?: string;
  readonly depth?: number;
  /** A call under way of which only the state is known has none. */
  readonly timestamp?: number;
  readonly duration?: number;
  readonly runDuration?: number;
  readonly parametersHash?: string;
  readonly flags?: CallFlags;
  readonly error?: ToolErrorResponse;
  readonly resultSize?: number;
}

export interface CallSummary extends CallFacts {
  readonly parametersPreview?: string;
  readonly resultType?: ToolResult["type"];
  readonly resultPreview?: string;
}

export interface Call extends CallFacts {
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly result?: ToolResult;
  readonly title?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly startedAt?: number;
  /** How long each stage took, in order, of a call that has ended. */
  readonly stages?: readonly { readonly name: string; readonly duration: number }[];
  /** What the tool said while it ran, where it said something. */
  readonly log?: readonly CallLine[];
}

export interface CallLine {
  readonly at: number;
  readonly level: "debug" | "info" | "warn" | "error" | "progress" | "note";
  readonly text: string;
}

export interface CallPage {
  readonly items: readonly CallSummary[];
  readonly next?: string;
}

export type ApprovalState = "pending" | "allowed" | "denied" | "expired";

export interface Approval {
  readonly id: string;
  readonly callId: string;
  readonly parentCallId?: string;
  readonly toolName: string;
  readonly displayName?: string;
  readonly sessionID?: string;
  readonly caller?: string;
  readonly message: string;
  readonly input: Readonly<Record<string, unknown>>;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly dangerous?: boolean;
  readonly state: ApprovalState;
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly decidedAt?: number;
  readonly decidedBy?: string;
  readonly reason?: string;
  readonly arguments?: Readonly<Record<string, unknown>>;
  /** The rule that the answer became. */
  readonly rule?: Pick<ApprovalRule, "tool" | "input" | "exact" | "sessionID">;
}

export interface ApprovalPage {
  readonly items: readonly Approval[];
  readonly next?: string;
}

export interface ApprovalRule {
  readonly id: string;
  readonly tool: string;
  readonly decision: "allow" | "ask" | "deny";
  readonly input?: Readonly<Record<string, unknown>>;
  readonly exact?: boolean;
  readonly sessionID?: string;
  readonly createdBy: string;
  readonly createdAt: number;
}

export interface LoadFailure {
  readonly file: string;
  readonly line?: number;
  readonly reason: string;
  readonly remedy: string;
  /** The lines around the trouble, where the server shows them. */
  readonly frame?: string;
}

export interface FileReport {
  readonly file: string;
  readonly status: "loaded" | "adapted" | "stale" | "failed" | "helper";
  readonly contract?: string;
  readonly tools: readonly string[];
  readonly warnings: readonly string[];
  readonly failure?: LoadFailure;
}

export interface LoadReport {
  readonly files: readonly FileReport[];
  readonly compiled: readonly string[];
  readonly added: readonly string[];
  readonly changed: readonly string[];
  readonly removed: readonly string[];
  readonly duration: number;
}

/** One reload of the past, in the form of the event `reload.finished`. */
export interface Reload {
  readonly at: number;
  readonly added: readonly string[];
  readonly changed: readonly string[];
  readonly removed: readonly string[];
  readonly failed: readonly string[];
  readonly duration: number;
}

export interface AccessToken {
  readonly id: string;
  readonly name: string;
  readonly scopes: {
    readonly tools?: readonly string[];
    readonly experts?: readonly string[];
    readonly admin?: boolean;
    /** Tools whose calls it may approve. */
    readonly approve?: readonly string[];
    /** Whether it may talk to models. Default: whether it may use any tool or expert. */
    readonly chat?: boolean;
  };
  readonly createdAt: number;
  readonly lastUsedAt?: number;
  readonly expiresAt?: number;
}

export interface Secret {
  readonly name: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

interface Totals {
  readonly calls: number;
  readonly errors: number;
  /** Milliseconds. */
  readonly p50?: number;
  readonly p95?: number;
}

/** What the server counted of calls that ended. */
export interface Statistics extends Totals {
  readonly since: number;
  readonly until: number;
  /** Milliseconds of a slice; slices begin at whole multiples of it, and those without a call are left out. */
  readonly interval: number;
  readonly buckets: readonly (Totals & { readonly at: number })[];
  readonly tools: readonly (Totals & { readonly toolName: string })[];
}

/** What the server says of itself. */
export interface ServerInfo {
  readonly version: string;
  readonly workspace: string;
  /** The words that start the program again, from any folder. */
  readonly program?: readonly string[];
  readonly startedAt: number;
  readonly limits: Readonly<Record<string, number>>;
  readonly retention: { readonly days: number; readonly maxBytes: number };
}

/** A program that has connected over MCP. */
export interface ConnectedClient {
  readonly name: string;
  readonly version?: string;
  readonly transport: string;
  /** Which version of the protocol it speaks: one with sessions, or the one without. */
  readonly era: "legacy" | "modern";
  /** Which token it bears. */
  readonly caller: string;
  readonly expert?: string;
  readonly lastSeenAt: number;
  /** It still holds an older list of tools. */
  readonly stale?: boolean;
}
