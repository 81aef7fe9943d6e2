import type { JsonSchemaObject, Logger, ToolContext, ToolMetadata } from "@toolrack/core";
import type { Models, Services, Workspace } from "../config/index.ts";

/**
 * The context of a tool of contract 1: that of every tool, with the logger, services and models of the host
 * application.
 */
export interface InternalToolContext extends ToolContext {
  readonly logger: Logger;
  /** From `services` in the workspace's config. */
  readonly service: Services & Readonly<Record<string, unknown>>;
  /** From `models` in the workspace's config. */
  readonly model: Models & Readonly<Record<string, unknown>>;
  readonly workspace: Workspace;
}

/** A tool in the shape of contract 1: the default export of `{group}/{action}.ts`. */
export interface InternalTool {
  /** The action only; the folder gives the group. */
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonSchemaObject;
  readonly outputSchema?: JsonSchemaObject;
  /** May return an MCP result, a text or any JSON value; may throw. */
  // Method syntax, so that a handler may declare the type of the arguments that its schema promises.
  handler(args: never, ctx: InternalToolContext): unknown;
  readonly metadata?: ToolMetadata;
}
