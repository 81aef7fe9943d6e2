import type { RegistrySnapshot } from "../registry/catalog.ts";
import type { SearchSettings } from "../registry/search/tool-search.ts";
import { DefinitionError } from "../tool/define.ts";
import type { CallClient, Logger, ToolInfo, ToolState } from "../tool/types.ts";
import { type Mask, readyMask, type SecretValues } from "./mask.ts";

/** How a registry runs calls. Every value has a safe default. */
export interface CallSettings {
  /** Longest run in milliseconds for tools that set no `timeout`; 0 means no limit. Default 120,000. */
  readonly timeout: number;
  /** Longest arguments, in characters of JSON text. Default 8 Mi. */
  readonly maxArguments: number;
  /** The most characters of a result's text that a model is given. Default 50,000. */
  readonly maxContent: number;
  /** The most characters of JSON that a result's structured value may have. Default 1 Mi. */
  readonly maxStructured: number;
  /** How deep calls may nest. Default 16. */
  readonly maxDepth: number;
  /** How many finished calls are remembered. Default 100. */
  readonly historyLimit: number;
  /**
   * How many characters of results that were cut are kept in all, so that callers can read the rest. Default
   * 64 Mi.
   */
  readonly keptResults: number;
  /** The permissions of a call whose options name none. Default: none. */
  readonly permissions: readonly string[];
  /** Refuse unknown arguments for every tool. Default false. */
  readonly strict: boolean;
  /** `false` switches loop detection off. Default true: on for calls with a session. */
  readonly loop: boolean;
  readonly approval: ApprovalPolicy | undefined;
  /** Stands in for tools in every call whose options name no other. Default: none. */
  readonly mock: CallMock | undefined;
  /** All forms in which a secret of a call's arguments may be written, such as Base64. Default: as it is. */
  readonly secretForms: (secret: string) => Iterable<string>;
  readonly logger: Logger;
  /** What tools see as their directory when the caller names none. Default empty. */
  readonly directory: string;
  /**
   * Secret values that are masked in records, events and results. They are read several times in every call,
   * so the function, or `list`, should give the same frozen array until a value in it changes.
   */
  readonly secrets: SecretValues;
  /** Gives each tool what it reads as `ctx.env` when the caller gives none. Asked before every run. */
  readonly environment: EnvironmentOf | EnvironmentSource | undefined;
  readonly search: SearchSettings;
}

/** Returns the environment of a tool; undefined when it has none. If it rejects, the tool does not run. */
export type EnvironmentOf = (tool: ToolInfo) => Promise<Environment> | undefined;

/** Gives environments to some tools only, so that calls of the others do not wait for one. */
export interface EnvironmentSource {
  /** Has the names of the tools to ask for. Tools that declare `metadata.environment` are always asked for. */
  readonly tools: { has(name: string): boolean };
  readonly of: EnvironmentOf;
}

/** The settings and secrets of a tool, by name. */
export type Environment = Readonly<Record<string, string>>;

/** The settings as the pipeline uses them: checked, with the secrets as a mask. */
export interface CheckedSettings extends Omit<CallSettings, "secrets" | "environment"> {
  readonly secrets: () => Mask;
  readonly environment: EnvironmentSource | undefined;
}

const noSecrets: readonly string[] = Object.freeze([]);
const everyTool = { has: () => true };
const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} };

export const defaultSettings: CallSettings = {
  timeout: 120_000,
  maxArguments: 8 * 1024 * 1024,
  maxContent: 50_000,
  maxStructured: 1024 * 1024,
  maxDepth: 16,
  historyLimit: 100,
  keptResults: 64 * 1024 * 1024,
  permissions: [],
  strict: false,
  loop: true,
  approval: undefined,
  mock: undefined,
  secretForms: (secret) => [secret],
  logger: silent,
  directory: "",
  secrets: () => noSecrets,
  environment: undefined,
  search: {},
};

const limits = ["timeout", "maxArguments", "maxContent", "maxStructured", "maxDepth", "keptResults"] as const;

/** The settings with defaults filled in. Throws `DefinitionError` for a number that makes no sense. */
export function checkedSettings(given: Partial<CallSettings>): CheckedSettings {
  const settings = { ...defaultSettings };
  for (const [key, value] of Object.entries(given)) {
    if (value !== undefined) Object.assign(settings, { [key]: value });
  }
  for (const key of limits) {
    if (typeof settings[key] !== "number" || !(settings[key] >= 0))
      throw new DefinitionError(`The setting ${key} must be a number, 0 or more.`, key);
  }
  if (!Number.isInteger(settings.historyLimit) || settings.historyLimit < 0) {
    throw new DefinitionError("The setting historyLimit must be a whole number, 0 or more.", "historyLimit");
  }
  const { environment } = settings;
  return {
    ...settings,
    secrets: readyMask(settings.secrets),
    environment: typeof environment === "function" ? { tools: everyTool, of: environment } : environment,
  };
}

/** What a caller says about a call. Everything is optional. */
export interface CallOptions {
  /** Must not be in use by another call. The registry makes one when none is given. */
  readonly callId?: string;
  /** Calls of one session share history and loop detection. Without one, loop detection is off. */
  readonly sessionID?: string;
  /**
   * The owner of the session, where callers choose the names of sessions: loop detection keeps sessions of
   * different owners apart, even under the same name.
   */
  readonly sessionCaller?: string;
  /** The model turn that makes the call; identical calls of one turn count once for loop detection. */
  readonly messageID?: string;
  /** Cancels the call. */
  readonly signal?: AbortSignal;
  readonly caller?: string;
  /** The permissions that the caller holds. Default: the `permissions` of the registry's settings. */
  readonly permissions?: readonly string[];
  /**
   * Returns whether the caller may use a tool at all. It applies to the whole chain: a tool that another tool
   * calls must be allowed too, unless the calling tool lists it in `metadata.calls`.
   */
  readonly allow?: (tool: ToolInfo) => boolean;
  /**
   * Called with the id of this call after this call, or one below it in the chain, has waited for a person's
   * consent. Returns a sentence that says why the caller may not have anything run any more, such as that its
   * token was taken back; undefined when it may. If it rejects, the call that waited does not run.
   */
  readonly withdrawn?: (callId: string) => Promise<string | undefined>;
  /** The caller, when it can be asked something while the call runs. */
  readonly client?: CallClient;
  /** The caller's time limit in milliseconds. It can shorten the tool's own limit, not extend it. */
  readonly timeout?: number;
  /** The tools that the caller was shown: the called name is looked up among them. */
  readonly snapshot?: RegistrySnapshot;
  /** Settings and secrets for this call, used instead of those that the registry's `environment` gives the tool. */
  readonly env?: Environment;
  /** Stands in for tools in this call and in all calls of its chain. For tests. */
  readonly mock?: CallMock;
  /** The line of the program that makes the call. Kept in the record. */
  readonly line?: number | undefined;
  readonly logger?: Logger;
  /** Called with the new state whenever the call's state changes. */
  readonly metadata?: (state: ToolState) => void;
  /** A task that the call belongs to, for logs. */
  readonly tid?: string;
  readonly agent?: string;
  readonly directory?: string;
  readonly worktree?: string;
  readonly messages?: readonly unknown[];
  readonly extra?: Readonly<Record<string, unknown>>;
}

/**
 * Answers calls in place of their tools: in tests, and where a recording is served. Only the tool's own code is left out;
 * all stages before and after it are real.
 */
export interface CallMock {
  /**
   * Called with every call that is about to run. Returns a function that gives what the tool would return, or throws what
   * it would throw; undefined lets the tool run. If this method throws, the call fails and the tool does not run.
   */
  answer(call: MockedCall): (() => unknown) | undefined;
  /** Instead of the approval policy of the registry. */
  readonly approval?: ApprovalPolicy;
}

/** A call that a `CallMock` may answer. */
export interface MockedCall {
  readonly tool: ToolInfo;
  /** The arguments, validated and with defaults. */
  readonly input: Readonly<Record<string, unknown>>;
  /** How many calls are above it. */
  readonly depth: number;
}

/** What a person, or a policy, is asked. */
export interface ApprovalRequest {
  readonly callId: string;
  readonly parentCallId?: string;
  readonly toolName: string;
  readonly displayName: string;
  readonly input: Readonly<Record<string, unknown>>;
  /**
   * The question: the tool's own `confirm` text, the text that a running tool asks, or a text made from the
   * tool's name.
   */
  readonly message: string;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly dangerous: boolean;
  /** `before`: whether the call may run at all. `during`: something that the tool asks while it runs. */
  readonly stage: "before" | "during";
  readonly sessionID: string;
  readonly caller: string;
  /** Milliseconds since the epoch; no answer by then is a denial. */
  readonly expiresAt: number;
}

/** The answer of a person or a policy to an approval request. */
export type ApprovalDecision =
  | {
      readonly decision: "allow";
      /**
       * Run the call with these arguments instead; they are validated like any others. Has no effect on a
       * question asked `during` the run, because the tool already has its arguments.
       */
      readonly arguments?: Readonly<Record<string, unknown>>;
      readonly reason?: string;
    }
  | { readonly decision: "deny"; readonly reason?: string };

/** The answer of an approval policy. */
export type ApprovalVerdict = "allow" | "deny" | "ask" | ApprovalDecision;

/**
 * How consent is obtained; the host supplies it. Both functions may throw or reject: that counts as a denial,
 * and the error's message as the reason.
 */
export interface ApprovalPolicy {
  /**
   * Called for every call that has passed the stages before approval, and for every question that a tool asks
   * `during` its run. Without this function, a person is asked about dangerous tools and such questions, and
   * all other calls are allowed. `tool` is the tool that the call runs, even if another tool has its name by
   * now.
   */
  decide?(request: ApprovalRequest, tool: ToolInfo): ApprovalVerdict | Promise<ApprovalVerdict>;
  /**
   * Called when the verdict is `ask`. The signal aborts when the call ends, or time is up, before an answer
   * came.
   */
  ask?(request: ApprovalRequest, signal: AbortSignal): Promise<ApprovalDecision>;
  /**
   * Where people find the question, such as "the inbox". Told to the caller when nobody has answered in time.
   */
  readonly place?: string;
  /** How long an answer may take, in milliseconds. Default: 5 minutes. */
  readonly timeout?: number | undefined;
}
