import type { RegistryView } from "../registry/catalog.ts";
import type { ToolInfo } from "./define.ts";
import type { FilePart, ToolResult } from "./result.ts";

interface StateBase {
  readonly input: Record<string, unknown>;
  readonly title?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** Where a call stands. It moves `pending → running → completed | error`; a finished state never changes. */
export type ToolState =
  | (StateBase & { readonly status: "pending"; readonly raw?: string })
  | (StateBase & { readonly status: "running"; readonly time: { readonly start: number } })
  | (StateBase & {
      readonly status: "completed";
      readonly output: string;
      readonly attachments?: readonly FilePart[];
      readonly time: { readonly start: number; readonly end: number };
    })
  | (StateBase & {
      readonly status: "error";
      readonly error: string;
      readonly time: { readonly start: number; readonly end: number };
    });

export type ToolStatus = ToolState["status"];

export interface Logger {
  debug(...values: unknown[]): void;
  info(...values: unknown[]): void;
  warn(...values: unknown[]): void;
  error(...values: unknown[]): void;
}

/** What a tool reports while it works. */
export interface ProgressUpdate {
  readonly progress: number;
  readonly total?: number;
  readonly message?: string;
}

/** A question to a person, asked in the middle of a run. */
export interface AskRequest {
  readonly message: string;
  readonly details?: Readonly<Record<string, unknown>>;
}

/** What a tool may say about a call that it makes. */
export interface ChildOptions {
  /** Who calls; default `<this tool>_<this call's id>`. */
  readonly caller?: string;
  /** A task that the call belongs to; default that of this call. */
  readonly tid?: string;
}

/**
 * What a tool is given. Every member may be destructured; what a tool does not touch costs nothing.
 */
export interface ToolContext<Input = Record<string, unknown>> {
  readonly callId: string;
  /** The validated arguments, defaults filled in. */
  readonly input: Input;
  /** Empty when the caller has no session. */
  readonly sessionID: string;
  readonly messageID: string;
  /** Aborted on cancel and on timeout. */
  readonly signal: AbortSignal;
  readonly tool: ToolInfo;
  /** The rack as this call sees it. Calls made through it are children of this call. */
  readonly registry: RegistryView;
  /** Who called: a client's name, or `<parent tool>_<suffix>` in a chain. */
  readonly caller: string;
  /** Settings and secrets granted to this tool. */
  readonly env: Readonly<Record<string, string>>;
  readonly logger: Logger;
  /** The same for every retry of this very call; hand it to services that support it. */
  readonly idempotencyKey: string;
  /** Updates the call's state. Never throws; ignored once the call has ended. A tool cannot end its own call. */
  metadata(update: Partial<ToolState>): void;
  /** Tells listeners how far the work is, and restarts the idle timeout. Never throws. */
  progress(update: ProgressUpdate | number, total?: number, message?: string): void;
  /** Calls another tool as a child of this call. Rejects with the child's `ToolError` when it fails. */
  call(name: string, input?: unknown, options?: ChildOptions): Promise<ToolResult>;
  /** Resolves when a person agrees; rejects with `ApprovalDeniedError` otherwise. */
  ask(request: string | AskRequest): Promise<void>;
  /**
   * Asks whoever made the call for something, in the middle of the run: a choice, a name, a number. Rejects when that
   * caller cannot be asked; `client?.can("elicitation/create")` says so beforehand.
   */
  elicit(request: string | ElicitRequest): Promise<ElicitAnswer>;
  /** Whoever made the call, when it can be spoken to. */
  readonly client: ToolClient | undefined;

  /** `callId`, as older tools spell it. */
  readonly callID: string;
  /** `signal`, as older tools spell it. */
  readonly abort: AbortSignal;
  readonly agent: string;
  readonly directory: string;
  readonly worktree: string;
  readonly messages: readonly unknown[];
  readonly extra: Readonly<Record<string, unknown>>;
}

/** What a caller can be asked while its call runs, by the names that MCP gives these questions. */
export type ClientMethod = "elicitation/create" | "sampling/createMessage" | "roots/list";

/** Whoever made a call, as far as it can be spoken to while the call runs. */
export interface CallClient {
  /** What the caller says that it is: `Cursor 2.4`. Not to be trusted. */
  readonly name?: string;
  /** From which level on it wants to hear what is logged, as MCP names the levels. Undefined when it has not said. */
  readonly logLevel?: string | undefined;
  /** With `params`: whether it can be asked this very question, such as one of a certain `mode`. */
  can(method: ClientMethod, params?: object): boolean;
  /** Resolves with the caller's answer; rejects when it has none, or when the signal aborts. */
  request(method: ClientMethod, params: object, signal: AbortSignal): Promise<unknown>;
  /** Tells the caller something that needs no answer, such as a line of a log. Never throws. */
  notify(method: string, params: object): void;
}

/** The same as a tool has it at hand. */
export interface ToolClient extends CallClient {
  /** Without `params` there are none; without a signal the question is withdrawn when the call ends. */
  request(method: ClientMethod, params?: object, signal?: AbortSignal): Promise<unknown>;
}

/** A question to the person at the other end, with the values that are wanted from them. */
export interface ElicitRequest {
  readonly message: string;
  /** A flat JSON Schema of what is wanted: texts, numbers, booleans and choices. */
  readonly schema?: object;
}

export interface ElicitAnswer {
  readonly action: "accept" | "decline" | "cancel";
  /** What was entered, when the action is `accept`. */
  readonly content?: Readonly<Record<string, unknown>>;
}
