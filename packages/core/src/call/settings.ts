import type { RegistrySnapshot } from "../registry/catalog.ts";
import { DefinitionError } from "../tool/define.ts";
import type { CallClient, Logger, ToolInfo, ToolState } from "../tool/types.ts";
import { type Mask, readyMask, type SecretValues } from "./mask.ts";

/** How a registry runs calls. Every value has a safe default. */
export interface CallSettings {
  /** Longest run in milliseconds for tools that set none; 0 means no limit. Default 120,000. */
  readonly timeout: number;
  /** Longest arguments, in characters of JSON text. Default 8 Mi. */
  readonly maxArguments: number;
  /** What a model is given of a result at the most. Default 50,000 characters. */
  readonly maxContent: number;
  /** The largest structured value that a result has, in characters of JSON. Default 1 Mi. */
  readonly maxStructured: number;
  /** How deep calls may nest. Default 16. */
  readonly maxDepth: number;
  /** How many finished calls are remembered. Default 100. */
  readonly historyLimit: number;
  /** How many characters of whole results are kept for reading on. Default 64 Mi. */
  readonly keptResults: number;
  /** What a caller holds who does not say. Default: nothing. */
  readonly permissions: readonly string[];
  /** Refuse unknown arguments for every tool. Default false. */
  readonly strict: boolean;
  /** `false` switches loop detection off. Default true: on for calls with a session. */
  readonly loop: boolean;
  readonly approval: ApprovalPolicy | undefined;
  readonly logger: Logger;
  /** What tools see as their directory when the caller names none. Default empty. */
  readonly directory: string;
  /**
   * Secret values that are masked in records, events and results. Asked several times in every call, so the same frozen
   * array should be given until something in it changes; or something whose `list` is such an array.
   */
  readonly secrets: SecretValues;
}

/** The settings as the pipeline has them. */
export interface CheckedSettings extends Omit<CallSettings, "secrets"> {
  readonly secrets: () => Mask;
}

const noSecrets: readonly string[] = Object.freeze([]);
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
  logger: silent,
  directory: "",
  secrets: () => noSecrets,
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
  return { ...settings, secrets: readyMask(settings.secrets) };
}

/** What a caller says about a call. Everything is optional. */
export interface CallOptions {
  /** Must be new; made when not given. */
  readonly callId?: string;
  /** Calls of one session share history and loop detection. Without one, loop detection is off. */
  readonly sessionID?: string;
  /** Whose session it is, where callers choose the names of sessions: those of two owners share nothing. */
  readonly sessionCaller?: string;
  /** The model turn that makes the call; identical calls of one turn count once for loop detection. */
  readonly messageID?: string;
  /** Cancels the call. */
  readonly signal?: AbortSignal;
  readonly caller?: string;
  /** What the caller holds. Without it, the registry's own default applies. */
  readonly permissions?: readonly string[];
  /**
   * Which tools the caller may reach at all. It holds for the whole chain: what a tool calls in turn must be allowed
   * too, unless that tool says in `metadata.calls` that it calls it for whoever may use it.
   */
  readonly allow?: (tool: ToolInfo) => boolean;
  /**
   * Asked when the call, or one that it makes, has waited for a person to agree, with the id of this one: a sentence that
   * says why the caller may have nothing run any more, such as that its token was taken back. May reject: then it does not
   * run.
   */
  readonly withdrawn?: (callId: string) => Promise<string | undefined>;
  /** The caller, when it can be asked something while the call runs. */
  readonly client?: CallClient;
  /** Shortens the tool's own time limit, in milliseconds. */
  readonly timeout?: number;
  /** The list the caller was shown: its names decide which tool is meant. */
  readonly snapshot?: RegistrySnapshot;
  readonly env?: Readonly<Record<string, string>>;
  readonly logger?: Logger;
  /** Is told of every change of the call's state. */
  readonly metadata?: (state: ToolState) => void;
  /** A task that the call belongs to, for logs. */
  readonly tid?: string;
  readonly agent?: string;
  readonly directory?: string;
  readonly worktree?: string;
  readonly messages?: readonly unknown[];
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** What a person, or a policy, is asked. */
export interface ApprovalRequest {
  readonly callId: string;
  readonly parentCallId?: string;
  readonly toolName: string;
  readonly displayName: string;
  readonly input: Readonly<Record<string, unknown>>;
  /** The question: the tool's own `confirm` text, or one made for it. */
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

/** What a person or a policy said to an approval. */
export type ApprovalDecision =
  | {
      readonly decision: "allow";
      /** Run with these arguments instead; they are validated like any others. Too late for a question `during` a run. */
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
   * Called for every call that reached this stage, and for every question that a tool asks `during` its run. Without
   * it: dangerous tools and questions `ask`, all others `allow`. `tool` is the one that the call runs, also where another
   * has its name by now.
   */
  decide?(request: ApprovalRequest, tool: ToolInfo): ApprovalVerdict | Promise<ApprovalVerdict>;
  /** Called when the verdict is `ask`. The signal aborts when the call ends before an answer came. */
  ask?(request: ApprovalRequest, signal: AbortSignal): Promise<ApprovalDecision>;
  /** Where people find the question, for the caller of a call that nobody answered for: "the inbox". */
  readonly place?: string;
  /** How long an answer may take, in milliseconds. Default: 5 minutes. */
  readonly timeout?: number | undefined;
}
