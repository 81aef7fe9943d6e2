import { asRecord, defined } from "../../helpers/values.ts";
import type { ThrownData } from "../remote-error.ts";

/**
 * The messages between the host and a single-file tool's program in a worker, all JSON. Unreviewed code may
 * write the worker's messages: the host parses them and trusts nothing.
 */

/** The tool's file as CommonJS, for the worker to evaluate. */
export interface ToolSource {
  readonly code: string;
  /** The file name that stack traces show. */
  readonly filename: string;
}

/** Sent to a worker once, before its first call. */
export interface WorkerSettings {
  readonly tool: string;
  /** The worker only describes the tool: packages may be missing, and `init` does not run. */
  readonly isDescribing: boolean;
  /** Bridges use their mocks, and nothing that the tool stores is kept. */
  readonly isDryRun: boolean;
  readonly environment: Readonly<Record<string, unknown>>;
  /** Names of the packages that the tool may require. */
  readonly dependencies: readonly string[];
  readonly storage: StorageSnapshot;
}

/** The most bytes that the keys and JSON values in one tool's storage may have. */
export const STORAGE_LIMIT = 10 * 1024 * 1024;

export interface StorageSnapshot {
  /** Grows with every change of the storage. */
  readonly version: number;
  readonly items: Readonly<Record<string, unknown>>;
}

export type StorageChange =
  | { readonly type: "set"; readonly key: string; readonly value: unknown }
  | { readonly type: "remove"; readonly key: string }
  | { readonly type: "clear" };

export interface ExecuteParams {
  readonly input: Readonly<Record<string, unknown>>;
  /** The host's version of the storage: a worker with another one reads the items again. */
  readonly storageVersion: number;
}

/** The outcome of a call that threw nothing. `invalid`: the tool's own `validate` refused the arguments. */
export type ExecuteOutcome =
  | { readonly type: "value"; readonly value?: unknown }
  | { readonly type: "bytes"; readonly base64: string }
  | { readonly type: "invalid"; readonly reasons: readonly string[] };

/** The entry of `getBusinessErrors` or `getBridgeErrors` that matches an error. */
export interface BusinessMatch {
  readonly code: string;
  readonly description?: string;
  readonly solution?: string;
  readonly retryable: boolean;
}

export function readMatch(entry: unknown): BusinessMatch {
  const { code, description, solution, retryable } = asRecord(entry);
  const text = (value: unknown) => (typeof value === "string" && value !== "" ? value : undefined);
  return {
    code: text(code) ?? "BUSINESS_ERROR",
    ...defined({ description: text(description), solution: text(solution) }),
    retryable: retryable === true,
  };
}

/** The description of a tool as a worker reports it, unchecked. */
export interface RawDescription {
  /** The values that the tool's methods returned, by the method's name. Missing methods have no entry. */
  readonly answers: Readonly<Record<string, unknown>>;
  readonly thrown: Readonly<Record<string, ThrownData>>;
  /** The type of each member of the contract that the tool has. */
  readonly members: Readonly<Record<string, string>>;
  /** Packages that were required before they were installed. */
  readonly missing: readonly string[];
  /** Set when evaluating the file failed; then the rest is empty. */
  readonly failure?: ThrownData;
}
