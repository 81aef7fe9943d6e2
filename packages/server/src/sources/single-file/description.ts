import type { JsonSchemaObject } from "@toolrack/core";
import type { DependencyMap } from "../../dependencies/dependency-map.ts";

/** What a single-file tool says about itself, checked. */
export interface Description {
  readonly metadata: DeclaredMetadata;
  readonly parameters: JsonSchemaObject;
  /** What it wants to be told: settings and secrets. */
  readonly environment?: JsonSchemaObject;
  readonly dependencies: DependencyMap;
  readonly businessErrors: readonly DeclaredError[];
  /** Names of the operations that a dry run replaces by mocks. */
  readonly bridges: readonly string[];
  /** Hosts that it wants to reach; undefined when it does not say. */
  readonly hosts?: readonly string[];
  readonly warnings: readonly string[];
}

export interface DeclaredMetadata {
  readonly id: string;
  readonly name?: string;
  readonly description: string;
  readonly version?: string;
  readonly author?: string;
  readonly [key: string]: unknown;
}

/** A failure that the author foresaw. `match` is how it is recognised, as text for people. */
export interface DeclaredError {
  readonly code: string;
  readonly description?: string;
  readonly match?: string;
  readonly solution?: string;
  readonly retryable: boolean;
}

/** What `toolrack show`, the API and the console say about a single-file tool, in its `metadata.singleFile`. */
export interface SingleFileManual {
  readonly environment?: JsonSchemaObject;
  readonly dependencies: DependencyMap;
  readonly businessErrors: readonly DeclaredError[];
  readonly bridges: readonly string[];
  /** Hosts that it may reach: those that it declares and the operator grants. */
  readonly hosts: readonly string[];
  readonly examples: readonly unknown[];
}
