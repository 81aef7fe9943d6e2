import type { ToolErrorResponse } from "../error/codes.ts";
import type { ToolError } from "../error/tool-error.ts";
import type { ToolResult } from "../tool/result.ts";
import type { ClientMethod, ProgressUpdate, ToolClient, ToolInfo, ToolState } from "../tool/types.ts";
import type { CallFlags, LogLevel } from "./events.ts";
import type { CallOptions } from "./settings.ts";

/**
 * Has calls of some tools performed by other processes. The process that a call came to admits it: it resolves, checks
 * and asks for consent. Another one performs it: it runs the tool and records the call.
 */
export interface CallDispatcher {
  /** The lane of a tool; undefined for a tool that runs here. Asked for every call. Must not throw. */
  laneOf(tool: ToolInfo): string | undefined;
  /**
   * Resolves once, when the call has ended elsewhere and is on record. Rejects when it certainly did not begin
   * elsewhere: then the call fails with that error and is recorded here.
   */
  submit(lane: string, call: HandedCall): Promise<PerformedCall>;
}

/** An admitted call in the hands of a dispatcher. None of its methods does anything after the call has ended. */
export interface HandedCall {
  readonly callId: string;
  readonly tool: ToolInfo;
  /** The caller, when it can be asked. */
  readonly client: ToolClient | undefined;
  /** Called once, when the call is cancelled or its time is over. The dispatcher must then settle it soon. */
  onAbort: ((reason: ToolError) => void) | undefined;
  /** Makes the plain form of the call. Not made before it is needed, because it takes a copy of the arguments. */
  admitted(): AdmittedCall;
  /** Says what the call waits for, or that it waits for nothing any more. */
  waits(title: string | undefined): void;
  /** Another process has begun to run the tool. `grace`: milliseconds more that it has to say that the time is over. */
  began(grace: number): void;
  state(update: Partial<ToolState>): void;
  progress(update: ProgressUpdate): void;
  log(level: LogLevel, text: string, at: number): void;
  /** Asks a person, by the approval policy of this process. */
  ask(message: string, details: Readonly<Record<string, unknown>> | undefined): Promise<void>;
  /** Makes a call as a child of this one, with no more rights than it has. Never rejects. */
  call(name: string, input: unknown, options: CallOptions): Promise<ToolResult>;
}

/** A call that was admitted, as plain JSON: all that another process needs to perform it. */
export interface AdmittedCall {
  readonly callId: string;
  readonly toolName: string;
  /** Validated. */
  readonly input: Record<string, unknown>;
  readonly isLarge: boolean;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** Milliseconds since the epoch; absent when there is no limit. */
  readonly deadline?: number | undefined;
  readonly parentCallId?: string | undefined;
  readonly depth: number;
  readonly options: Pick<
    CallOptions,
    | "sessionID"
    | "messageID"
    | "caller"
    | "tid"
    | "agent"
    | "directory"
    | "worktree"
    | "messages"
    | "extra"
    | "env"
  >;
  readonly permissions: readonly string[];
  /** The names of the tools that the caller may use; absent when it may use all. */
  readonly reach?: readonly string[] | undefined;
  /** Secrets in the arguments of the calls above it. */
  readonly secrets: readonly string[];
  readonly flags?: CallFlags | undefined;
  readonly client?: ClientView | undefined;
}

/** What is known of the caller that can be asked questions. */
export interface ClientView {
  readonly name: string;
  readonly logLevel?: string | undefined;
  /** The questions that it can answer, such as `elicitation/create url` with its mode. */
  readonly can: readonly string[];
}

/** How a call ended that another process performed. Plain JSON. */
export interface PerformedCall {
  readonly result: ToolResult;
  /** Set when the call failed. */
  readonly error?: ToolErrorResponse | undefined;
  readonly flags?: CallFlags | undefined;
}

/** By what a performed call reaches the process that admitted it. */
export interface CallLink {
  /** The caller, when it can be asked. `linkedClient` makes it. */
  readonly client?: CallOptions["client"];
  /** Resolves with the result, also of a call that failed: then its `error` is set. */
  call(name: string, input: unknown, options: CallOptions): Promise<ToolResult>;
  /** Rejects when the answer is no. */
  ask(message: string, details: Readonly<Record<string, unknown>> | undefined): Promise<void>;
  request(method: ClientMethod, params: object, signal: AbortSignal): Promise<unknown>;
  notify(method: string, params: object): void;
}
