import type { ToolInfo, ToolRegistry } from "@toolrack/core";
import { CallRefused } from "./call-refused.ts";

/**
 * The same words for a tool that is not there and one that must not be seen. The nearest names are of those that may be.
 */
export function unknownTool(
  registry: Pick<ToolRegistry, "notFound">,
  name: string,
  mayUse: ((tool: ToolInfo) => boolean) | undefined,
): CallRefused {
  const { message, data } = registry.notFound(name, mayUse);
  return new CallRefused("tool_not_found", message, { toolName: name, ...data });
}
