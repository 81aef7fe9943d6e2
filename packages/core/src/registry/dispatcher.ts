import { isCallContext, overriddenIn } from "../call/context.ts";
import type { CallOptions } from "../call/settings.ts";
import { readClock } from "../call/time.ts";
import type { ToolErrorResponse } from "../error/codes.ts";
import type { AnyInput } from "../schema/types.ts";
import type { ToolResult } from "../tool/result.ts";
import type { ToolContext, ToolInfo } from "../tool/types.ts";
import { ToolRegistry } from "./registry.ts";

/** The outcome of a call in the form that agent loops read. */
export interface Observation {
  readonly toolName: string;
  readonly status: "success" | "error";
  /** The text for the model. */
  readonly content: string;
  readonly result: ToolResult;
  readonly error?: ToolErrorResponse;
  /** Milliseconds. */
  readonly duration: number;
}

/**
 * Calls the tools of a registry by name, for agent loops that expect an observation of every call. All tools
 * are kept in the registry.
 */
export class ToolDispatcher {
  readonly registry: ToolRegistry;

  constructor(registry: ToolRegistry = new ToolRegistry()) {
    this.registry = registry;
  }

  /** Never rejects: a failure is an observation with status `error`. */
  async dispatch(toolName: string, params?: unknown, options?: CallOptions): Promise<Observation> {
    const start = readClock();
    const result = await this.registry.execute(toolName, params, options);
    return {
      toolName: this.registry.get(toolName)?.name ?? toolName,
      status: result.type === "error" ? "error" : "success",
      content: result.content,
      result,
      ...(result.error === undefined ? {} : { error: result.error }),
      duration: readClock() - start,
    };
  }

  registerTool(info: ToolInfo): void {
    this.registry.register(info);
  }

  unregisterTool(name: string): boolean {
    return this.registry.unregister(name);
  }

  getTool(name: string): ToolInfo | undefined {
    return this.registry.get(name);
  }

  listTools(): ToolInfo[] {
    return this.registry.list();
  }

  /**
   * If `context` is that of a running call, or a copy of it, the new call becomes a child of that call, with the
   * members that were changed in the copy, such as `sessionID` or `signal`. Any other context is used as call options.
   */
  executeWithContext(
    toolName: string,
    input: AnyInput,
    context: Partial<ToolContext> & CallOptions,
  ): Promise<ToolResult> {
    if (isCallContext(context))
      return this.registry.executeChild(context, toolName, input, overriddenIn(context));
    return this.registry.execute(toolName, input, context);
  }
}
