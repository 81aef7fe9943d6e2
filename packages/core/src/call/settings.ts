import type { Logger } from "../tool/context.ts";
import { DefinitionError } from "../tool/definition-error.ts";
import type { ApprovalPolicy } from "./approval.ts";
import { SecretMask } from "./secret-mask.ts";

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
   * array should be given until something in it changes.
   */
  readonly secrets: () => Iterable<string>;
}

/** The settings as the pipeline has them. */
export interface CheckedSettings extends Omit<CallSettings, "secrets"> {
  readonly secrets: () => SecretMask;
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
  return { ...settings, secrets: readySecrets(settings.secrets) };
}

/**
 * The secrets made ready for masking, again only when they have changed. A host that cannot say them must not cost a
 * call its record; those that it said before are masked.
 */
function readySecrets(secrets: CallSettings["secrets"]): () => SecretMask {
  /** The list that was read last, when it can never change. */
  let fixed: Iterable<string> | undefined;
  let values: readonly string[] = [];
  let mask = SecretMask.empty;
  return () => {
    try {
      const now = secrets();
      if (now === fixed) return mask;
      const list = [...now];
      if (list.length !== values.length || list.some((value, at) => value !== values[at])) {
        mask = new SecretMask(list);
        values = list;
      }
      fixed = Object.isFrozen(now) ? now : undefined;
    } catch {
      // Nobody is left to tell.
    }
    return mask;
  };
}
