import type { RegistrySnapshot } from "../registry/catalog.ts";
import { DefinitionError } from "../tool/define.ts";
import type { CallClient, Logger, ToolInfo, ToolState } from "../tool/types.ts";
import { Mask } from "./mask.ts";

/** How a registry runs calls. Every value has a safe default. */
export interface CallSettings {
  /** Longest run in milliseconds for tools that set none; 0 means no limit. Default 120,000. */
  readonly timeout: number;
  /** Longest arguments, in characters of JSON text. Default 8 Mi. */
  readonly maxArguments: number;
  /** Characters of a result that a model gets. Default 50,000. */
  readonly maxContent: number;
  /** The largest structured value of a result, in characters of JSON. Default 1 Mi. */
  readonly maxStructured: number;
  /** How deep calls may nest. Default 16. */
  readonly maxDepth: number;
  /** How many finished calls are remembered. Default 100. */
  readonly historyLimit: number;
  /** Characters of whole results that are kept for `readResult`. Default 64 Mi. */
  readonly keptResults: number;
  /** The permissions of callers that name none. Default: none. */
  readonly permissions: readonly string[];
  /** Refuse unknown arguments for every tool. Default false. */
  readonly strict: boolean;
  /** `false` switches loop detection off. Default true: on for calls with a session. */
  readonly loop: boolean;
  readonly approval: ApprovalPolicy | undefined;
  readonly logger: Logger;
  /** The tools' directory when the caller names none. Default empty. */
  readonly directory: string;
  /**
   * Secret values that are masked in records, events and results. Called several times in every call, so it should
   * return the same frozen array until something changes.
   */
  readonly secrets: () => Iterable<string>;
}

/** The settings after `checkedSettings`. */
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

/** Fills in defaults. Throws `DefinitionError` for an invalid number. */
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
  return { ...settings, secrets: makeMaskReader(settings.secrets) };
}

/**
 * Makes a mask of the secrets, anew only after they changed. If the host's function throws, the last known secrets are
 * masked.
 */
function makeMaskReader(secrets: CallSettings["secrets"]): () => Mask {
  /** The list that was read last, if it is frozen. */
  let fixed: Iterable<string> | undefined;
  let values: readonly string[] = [];
  let mask = Mask.none;
  return () => {
    try {
      const now = secrets();
      if (now === fixed) return mask;
      const list = [...now];
      if (list.length !== values.length || list.some((value, at) => value !== values[at])) {
        mask = new Mask(list);
        values = list;
      }
      fixed = Object.isFrozen(now) ? now : undefined;
    } catch {
      // The last mask still applies.
    }
    return mask;
  };
}

/** All optional. */
export interface CallOptions {
  /** Must be new. Default: a generated id. */
  readonly callId?: string;
  /** Calls of one session share history and loop detection. Without one, loop detection is off. */
  readonly sessionID?: string;
  /** The owner of the session, if callers choose session names: sessions of two owners share nothing. */
  readonly sessionCaller?: string;
  /** The model turn that makes the call; identical calls of one turn count once for loop detection. */
  readonly messageID?: string;
  /** Cancels the call. */
  readonly signal?: AbortSignal;
  readonly caller?: string;
  /** The caller's permissions. Default: the registry's. */
  readonly permissions?: readonly string[];
  /**
   * Which tools the caller may use. It holds for the whole chain: a tool's own calls must be allowed too, unless the
   * tool lists them in `metadata.calls`.
   */
  readonly allow?: (tool: ToolInfo) => boolean;
  /**
   * Called with this call's id after the call, or a child of it, waited for a person's consent. Returns a sentence when
   * the caller may no longer run anything, for instance because its token was revoked. If it rejects, the call does not
   * run.
   */
  readonly withdrawn?: (callId: string) => Promise<string | undefined>;
  /** The caller, if it can answer questions while the call runs. */
  readonly client?: CallClient;
  /** Milliseconds. Can only shorten the tool's own time limit. */
  readonly timeout?: number;
  /** The list that the caller was shown; it decides which tool a name means. */
  readonly snapshot?: RegistrySnapshot;
  readonly env?: Readonly<Record<string, string>>;
  readonly logger?: Logger;
  /** Called after every change of the call's state. */
  readonly metadata?: (state: ToolState) => void;
  /** A task that the call belongs to, for logs. */
  readonly tid?: string;
  readonly agent?: string;
  readonly directory?: string;
  readonly worktree?: string;
  readonly messages?: readonly unknown[];
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** A question to a person or a policy. */
export interface ApprovalRequest {
  readonly callId: string;
  readonly parentCallId?: string;
  readonly toolName: string;
  readonly displayName: string;
  readonly input: Readonly<Record<string, unknown>>;
  /** The tool's own `confirm` text, or a generated question. */
  readonly message: string;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly dangerous: boolean;
  /** `before`: whether the call may run. `during`: a question of the running tool. */
  readonly stage: "before" | "during";
  readonly sessionID: string;
  readonly caller: string;
  /** Milliseconds since the epoch; no answer by then is a denial. */
  readonly expiresAt: number;
}

export type ApprovalDecision =
  | {
      readonly decision: "allow";
      /** Arguments to run with instead; they are validated. Ignored for a question `during` a run. */
      readonly arguments?: Readonly<Record<string, unknown>>;
      readonly reason?: string;
    }
  | { readonly decision: "deny"; readonly reason?: string };

/** The answer of an approval policy. */
export type ApprovalVerdict = "allow" | "deny" | "ask" | ApprovalDecision;

/**
 * The host's way to obtain consent. Both functions may throw or reject: that counts as a denial with the error's
 * message as the reason.
 */
export interface ApprovalPolicy {
  /**
   * Called for every call that reaches this stage, and for every question `during` a run. Without it, dangerous tools
   * and questions `ask`, all others `allow`. `tool` is the version that the call runs, even if the name now belongs to
   * another tool.
   */
  decide?(request: ApprovalRequest, tool: ToolInfo): ApprovalVerdict | Promise<ApprovalVerdict>;
  /** Called when the verdict is `ask`. The signal aborts when the call ends before an answer came. */
  ask?(request: ApprovalRequest, signal: AbortSignal): Promise<ApprovalDecision>;
  /** Where people find the question, such as "the inbox"; for the error text when nobody answered. */
  readonly place?: string;
  /** How long an answer may take, in milliseconds. Default: 5 minutes. */
  readonly timeout?: number | undefined;
}
