import type { ThrownData } from "../thrown.ts";

/**
 * What the host and the program inside a worker say to each other. Everything is JSON. What comes from the worker
 * was made by unreviewed code: the host parses it, and trusts none of it.
 */

/** The tool's file as CommonJS, for the worker to evaluate. */
export interface ToolSource {
  readonly code: string;
  /** As stack traces name it. */
  readonly filename: string;
}

/** Given to a worker once, before its first call. */
export interface WorkerSettings {
  readonly tool: string;
  /** Only to be described: packages may be missing, and `init` does not run. */
  readonly isDescribing: boolean;
  /** Bridges answer with their mocks, and nothing that the tool stores is kept. */
  readonly isDryRun: boolean;
  readonly environment: Readonly<Record<string, unknown>>;
  /** Names of the packages that the tool may require. */
  readonly dependencies: readonly string[];
  readonly storage: StorageSnapshot;
}

/** All values of one tool together, as JSON. */
export const STORAGE_LIMIT = 10 * 1024 * 1024;

export interface StorageSnapshot {
  /** Grows with every change. */
  readonly version: number;
  readonly items: Readonly<Record<string, unknown>>;
}

/** One change of what a tool stores. */
export type StorageChange =
  | { readonly type: "set"; readonly key: string; readonly value: unknown }
  | { readonly type: "remove"; readonly key: string }
  | { readonly type: "clear" };

export interface ExecuteParams {
  readonly input: Readonly<Record<string, unknown>>;
  /** The version that the host has: a worker with another one asks for the items. */
  readonly storageVersion: number;
}

/** How a call ended that did not fail. A result holds JSON, or bytes. */
export type ExecuteOutcome =
  | { readonly type: "value"; readonly value?: unknown }
  | { readonly type: "bytes"; readonly base64: string }
  | { readonly type: "invalid"; readonly reasons: readonly string[] };

/** The entry of `getBusinessErrors` or `getBridgeErrors` that fits what was thrown. */
export interface BusinessMatch {
  readonly code: string;
  readonly description?: string;
  readonly solution?: string;
  readonly retryable: boolean;
}

/** What the methods of a tool said about it, unchecked. */
export interface RawDescription {
  /** What each method returned; one that is missing has no entry. */
  readonly answers: Readonly<Record<string, unknown>>;
  /** What each method threw. */
  readonly thrown: Readonly<Record<string, ThrownData>>;
  /** Which of the contract's methods are functions, and which are something else. */
  readonly members: Readonly<Record<string, string>>;
  /** Packages that were required although they are not there yet. */
  readonly missing: readonly string[];
  /** Evaluating the file failed, so that the rest is empty. */
  readonly failure?: ThrownData;
}
