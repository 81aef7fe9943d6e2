import type { InferInput } from "../schema/infer.ts";
import type { ToolContext } from "./context.ts";
import type { ToolMetadata } from "./metadata.ts";
import type { ToolResult } from "./result.ts";

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
  /** Where it came from, for people: a file, a table row, an MCP server. */
  readonly origin?: string;
}
