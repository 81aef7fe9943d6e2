import type { InferInput } from "../schema/types.ts";
import type { FilePart, ToolResult } from "./result.ts";

/**
 * A schema in any accepted shape: Zod 4, Zod 3, a Standard Schema, a plain object of Zod fields, or JSON Schema.
 */
export type ToolParameters = object;

/**
 * Runs the tool. It may return a `ToolResult`, an MCP result, a string or any JSON value, and may throw
 * anything: the pipeline turns both into one form.
 */
export type ToolExecuteFunction<Input = Record<string, unknown>> = (
  context: ToolContext<Input>,
) => Promise<ToolResult | unknown>;

/** What an author hands to `Tool.define`. */
export interface ToolConfig<Parameters extends ToolParameters = ToolParameters> {
  readonly name: string;
  readonly description?: string;
  readonly parameters: Parameters;
  readonly execute: (context: ToolContext<InferInput<Parameters>>) => unknown;
  readonly metadata?: ToolMetadata;
  /** A short name for people. */
  readonly title?: string;
  /** The name people see in logs and lists when it differs from `name`, such as `SearXNG Search/网页搜索`. */
  readonly displayName?: string;
  /** Other names under which the tool answers. */
  readonly aliases?: readonly string[];
  /** What `structured` must look like. */
  readonly outputSchema?: ToolParameters;
}

/** A tool as the registry holds it. Frozen: a change makes a new one. */
export interface ToolInfo {
  /** Matches `^[A-Za-z0-9_-]{1,64}$` once registered. */
  readonly name: string;
  readonly description?: string;
  readonly parameters: ToolParameters;
  readonly execute: ToolExecuteFunction<never>;
  readonly metadata: ToolMetadata;
  readonly createdAt: number;
  readonly disabled: boolean;
  readonly title?: string;
  readonly displayName?: string;
  readonly aliases?: readonly string[];
  readonly outputSchema?: ToolParameters;
  /** The source, for people: a file, a table row, an MCP server. */
  readonly origin?: string;
}

/** How a tool takes part in loop detection. */
export interface LoopPolicy {
  /** What makes two calls the same: the named arguments, or whatever the function returns. */
  readonly key?: readonly string[] | ((input: Record<string, unknown>) => unknown);
  /** `"poll"`: the tool is meant to be repeated while waiting, so it may repeat four times as often. */
  readonly repeatable?: "poll";
}

/** A tool's description of itself besides its schema. Unknown keys are kept. */
export interface ToolMetadata {
  readonly category?: string;
  /** Permissions that the caller needs. `*` in a caller's permission matches any run of characters. */
  readonly permissions?: readonly string[];
  /** Patterns of tool names that this tool may call for any caller, even one that may not call them directly. */
  readonly calls?: readonly string[];
  /** Longest run in milliseconds; 0 means no limit. */
  readonly timeout?: number;
  /** Longest silence in milliseconds; every `progress()` and `metadata()` starts it anew. */
  readonly idleTimeout?: number;
  /** Needs a person's consent before it runs. */
  readonly dangerous?: boolean;
  /** The question the person is asked. */
  readonly confirm?: string;
  readonly tags?: readonly string[];
  /** Why the tool is off and how to switch it on, as a sentence for callers. */
  readonly disabledReason?: string;
  /** Changes nothing: repeating it with the same result brings nothing new. */
  readonly readOnly?: boolean;
  /** May be run twice with the effect of once. */
  readonly idempotent?: boolean;
  /** Uses systems outside the rack's control. */
  readonly openWorld?: boolean;
  /**
   * Refuse unknown arguments, at any depth, instead of dropping or keeping them. A key is unknown where the schema
   * lists the keys of an object without it and says nothing about other keys, and where parsing would lose it.
   */
  readonly strict?: boolean;
  /** A result that does not fit `outputSchema`: an error (`strict`, the default) or only a note in the record. */
  readonly outputCheck?: "strict" | "warn";
  /** `false`: never part of loop detection. */
  readonly loop?: false | LoopPolicy;
  readonly [key: string]: unknown;
}

/** Takes the lines that a tool logs. */
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

/** The context of a call. Members may be destructured; unused members cost nothing. */
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
  /** The same for every retry of this call; for services that support it. */
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
   * Asks the caller for a choice, a name or a number during the run. Rejects when the caller cannot be asked;
   * `client?.can("elicitation/create")` tells beforehand.
   */
  elicit(request: string | ElicitRequest): Promise<ElicitAnswer>;
  /** The caller, if it can be asked. */
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

/** Questions to a caller during its call, by their MCP names. */
export type ClientMethod = "elicitation/create" | "sampling/createMessage" | "roots/list";

/** The caller of a running call, if it can be asked. */
export interface CallClient {
  /** The caller's own name: `Cursor 2.4`. Not to be trusted. */
  readonly name?: string;
  /** The lowest log level that the caller wants, as MCP names it. Undefined when it has not said. */
  readonly logLevel?: string | undefined;
  /** With `params`: whether it accepts this very question, such as one of a certain `mode`. */
  can(method: ClientMethod, params?: object): boolean;
  /** Resolves with the caller's answer; rejects when it has none, or when the signal aborts. */
  request(method: ClientMethod, params: object, signal: AbortSignal): Promise<unknown>;
  /** Tells the caller something that needs no answer, such as a line of a log. Never throws. */
  notify(method: string, params: object): void;
}

/** The client as a tool uses it. */
export interface ToolClient extends CallClient {
  /** Without a signal, the question is withdrawn when the call ends. */
  request(method: ClientMethod, params?: object, signal?: AbortSignal): Promise<unknown>;
}

/** A question to the person at the client, with the wanted values. */
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

interface StateBase {
  readonly input: Record<string, unknown>;
  readonly title?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** The state of a call. It moves `pending → running → completed | error`; a finished state never changes. */
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

/** The steps of a call. */
export type ToolStatus = ToolState["status"];

/** How many tools there are. */
export interface RegistryStats {
  readonly totalTools: number;
  readonly disabledTools: number;
  readonly categories: Readonly<Record<string, number>>;
}

/** Read access to the rack. All reads are consistent: no change shows half. */
export interface RegistryReader {
  get(name: string): ToolInfo | undefined;
  getAll(): ToolInfo[];
  list(category?: string): ToolInfo[];
  /** Best first; at most `limit`, default 20. */
  search(query: string, limit?: number): ToolInfo[];
  findByTag(tag: string): ToolInfo[];
  getStats(): RegistryStats;
}

/** The rack as a running tool sees it: reads, and calls that become children of its own. */
export interface RegistryView extends RegistryReader {
  execute(name: string, input?: unknown): Promise<ToolResult>;
}
