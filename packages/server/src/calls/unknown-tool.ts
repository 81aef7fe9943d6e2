import type { ToolInfo, ToolRegistry } from "@toolrack/core";
import { isMetaTool } from "../meta-tools/meta-tools.ts";
import { CallRefused } from "./call-refused.ts";

/**
 * The same words for a tool that is not there and one that must not be seen. The nearest names are of those that may be.
 */
export function unknownTool(
  registry: Pick<ToolRegistry, "notFound">,
  name: string,
  mayUse: ((tool: ToolInfo) => boolean) | undefined,
): CallRefused {
  // Where these are listed, something else is said.
  const isListed = (tool: ToolInfo) => !isMetaTool(tool.name) && (mayUse?.(tool) ?? true);
  const { message, data } = registry.notFound(name, isListed);
  return new CallRefused("tool_not_found", message, { toolName: name, ...data });
}
