import type { AnyInput, InferInput } from "../schema/types.ts";
import type { FilePart, ToolResult } from "./result.ts";

/**
 * A schema in any accepted shape: Zod 4, Zod 3, a Standard Schema, a plain object of Zod fields, or JSON Schema.
 */
export type ToolParameters = object;

/**
 * Runs the tool. The function may return a `ToolResult`, an MCP result, a string or any JSON value: the
 * pipeline turns each into a `ToolResult`. It may throw anything: the pipeline turns that into a `ToolError`.
 */
export type ToolExecuteFunction<Input = AnyInput> = (
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
  /** Other names by which callers can call the tool. */
  readonly aliases?: readonly string[];
  /** The schema of `structured` in the tool's results. */
  readonly outputSchema?: ToolParameters;
}

/** A tool as the registry stores it. The object is frozen: every change makes a new object. */
export interface ToolInfo {
  /** Matches `^[A-Za-z0-9_-]{1,64}$` once registered. */
  readonly name: string;
  readonly description?: string;
  /** The schema as the author wrote it. A reader who knows which library it is from may say so: `z.ZodType`. */
  // biome-ignore lint/suspicious/noExplicitAny: the schema may be of any library, and its reader knows which.
  readonly parameters: any;
  readonly execute: ToolExecuteFunction<never>;
  readonly metadata: ToolMetadata;
  readonly createdAt: number;
  readonly disabled: boolean;
  readonly title?: string;
  readonly displayName?: string;
  readonly aliases?: readonly string[];
  readonly outputSchema?: ToolParameters;
  /** Differs when the tool's code differs, and is the same for the same code on every machine. Set by its source. */
  readonly version?: string;
  /** Where the tool comes from, as a text for people: a file, a table row, an MCP server. */
  readonly origin?: string;
}

/** How a tool takes part in loop detection. */
export interface LoopPolicy {
  /**
   * What loop detection compares to see whether two calls are the same: the values of these arguments, or the
   * value that the function returns.
   */
  readonly key?: readonly string[] | ((input: Record<string, unknown>) => unknown);
  /**
   * `"poll"`: the tool is meant to be called repeatedly while waiting, so loop detection allows four times as
   * many repetitions.
   */
  readonly repeatable?: "poll";
}

/** What a tool says about itself besides its schema. Keys that this type does not list are kept. */
export interface ToolMetadata {
  readonly category?: string;
  /** Permissions that the caller needs. `*` in a caller's permission matches any run of characters. */
  readonly permissions?: readonly string[];
  /** Patterns of tool names that this tool may call for any caller, even one that may not call them directly. */
  readonly calls?: readonly string[];
  /** Longest run in milliseconds; 0 means no limit. */
  readonly timeout?: number;
  /**
   * Longest time in milliseconds without a `progress()` or `metadata()` call of the tool; 0 means no limit.
   */
  readonly idleTimeout?: number;
  /** Needs a person's consent before it runs. */
  readonly dangerous?: boolean;
  /** The question the person is asked. */
  readonly confirm?: string;
  readonly tags?: readonly string[];
  /** Why the tool is off and how to switch it on, as a sentence for callers. */
  readonly disabledReason?: string;
  /**
   * The tool changes nothing. Loop detection counts equal results of such a tool as no progress, even for
   * different arguments.
   */
  readonly readOnly?: boolean;
  /** Running the tool twice with the same arguments has the same effect as running it once. */
  readonly idempotent?: boolean;
  /** The lane of workers that run the tool, where there are workers. Without it, a call runs where it arrives. */
  readonly lane?: string;
  /** Uses systems outside the rack's control. */
  readonly openWorld?: boolean;
  /**
   * Refuse unknown arguments, at any depth, instead of dropping or keeping them. An argument is unknown when
   * the schema lists the keys of its object without it and says nothing about other keys, and when parsing
   * would drop it.
   */
  readonly strict?: boolean;
  /**
   * What happens to a result that does not fit `outputSchema`: the call fails (`strict`, the default), or the
   * record gets a note (`warn`). `hint` is like `warn`, and MCP clients are not shown the schema, because they
   * refuse results that do not fit it.
   */
  readonly outputCheck?: "strict" | "warn" | "hint";
  /**
   * Who may call the tool: a `model` by itself, or `code` that a model wrote (`toolrack_run`). Default: both. A tool that
   * only code may call is not shown to models.
   */
  readonly callers?: readonly ("model" | "code")[];
  /** `false`: loop detection ignores the calls of this tool. */
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

/** Options for a call that a tool makes to another tool. */
export interface ChildOptions {
  /** The caller of the new call. Default: `<name of the calling tool>_<id of its call>`. */
  readonly caller?: string;
  /** The task that the new call belongs to. Default: the task of the calling tool's own call. */
  readonly tid?: string;
  /** The id of the new call. Must not be in use by another call. */
  readonly callId?: string;
  /** The line of the calling program that makes the call, for its record. */
  readonly line?: number;
}

/** The context of a call. It may be destructured and spread; unused members cost nothing. */
export interface ToolContext<Input = AnyInput> {
  readonly callId: string;
  /** The validated arguments, defaults filled in. */
  readonly input: Input;
  /** Empty when the caller has no session. */
  readonly sessionID: string;
  readonly messageID: string;
  /** Aborted when the call is cancelled or times out. */
  readonly signal: AbortSignal;
  readonly tool: ToolInfo;
  /** The rack as this call sees it. Calls made through it are children of this call. */
  readonly registry: RegistryView;
  /** Who called: a client's name or, when another tool made the call, `<name of that tool>_<suffix>`. */
  readonly caller: string;
  /** Settings and secrets granted to this tool. */
  readonly env: Readonly<Record<string, string>>;
  readonly logger: Logger;
  /**
   * A key made of the session, the call id, the tool and the arguments. Send it to services that support
   * idempotency keys, so that a repeated request has no second effect.
   */
  readonly idempotencyKey: string;
  /** Updates the call's state, but cannot end the call. Never throws; ignored once the call has ended. */
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
  /** For questions to the caller; undefined when the caller cannot be asked. */
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

/** The questions that a tool can ask the caller during a call, by their MCP method names. */
export type ClientMethod = "elicitation/create" | "sampling/createMessage" | "roots/list";

/** The caller of a running call, for questions and notifications to it. */
export interface CallClient {
  /** The name that the caller gives itself, such as `Cursor 2.4`. Nothing proves that it is true. */
  readonly name?: string;
  /**
   * The lowest log level that the caller wants, as MCP names it. Undefined when the caller has not set one.
   */
  readonly logLevel?: string | undefined;
  /**
   * Whether the caller can answer this kind of question. With `params`: whether it accepts these parameters
   * too, such as a certain `mode`.
   */
  can(method: ClientMethod, params?: object): boolean;
  /** Resolves with the caller's answer; rejects when the caller gives none, or when the signal aborts. */
  request(method: ClientMethod, params: object, signal: AbortSignal): Promise<unknown>;
  /** Tells the caller something that needs no answer, such as a line of a log. Never throws. */
  notify(method: string, params: object): void;
}

/** The caller as a tool uses it: a question needs neither parameters nor a signal. */
export interface ToolClient extends CallClient {
  /** Without a signal, the question is withdrawn when the call ends. */
  request(method: ClientMethod, params?: object, signal?: AbortSignal): Promise<unknown>;
}

/** A question to the person at the client, with a schema of the values to enter. */
export interface ElicitRequest {
  readonly message: string;
  /** A flat JSON Schema of the values to enter: texts, numbers, booleans and choices. */
  readonly schema?: object;
}

export interface ElicitAnswer {
  readonly action: "accept" | "decline" | "cancel";
  /** The values that the person entered, when the action is `accept`. */
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

/** The names of a call's states: `pending`, `running`, `completed`, `error`. */
export type ToolStatus = ToolState["status"];

/** Counts of the registered tools. `categories` counts the enabled tools of each category. */
export interface RegistryStats {
  readonly totalTools: number;
  readonly disabledTools: number;
  readonly categories: Readonly<Record<string, number>>;
}

/** Read access to the rack. A reader sees each change of the tools completely or not at all. */
export interface RegistryReader {
  get(name: string): ToolInfo | undefined;
  getAll(): ToolInfo[];
  list(category?: string): ToolInfo[];
  /** The tools that match the query, best match first; at most `limit`, default 20. */
  search(query: string, limit?: number): ToolInfo[];
  findByTag(tag: string): ToolInfo[];
  getStats(): RegistryStats;
}

/** The rack as a running tool sees it. Calls made through it are children of the tool's own call. */
export interface RegistryView extends RegistryReader {
  /** Await it before `search` where there may be thousands of tools: it builds the index without blocking others. */
  prepareSearch(): Promise<void>;
  execute(name: string, input?: unknown): Promise<ToolResult>;
}
