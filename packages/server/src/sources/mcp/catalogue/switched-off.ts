import { ToolDisabledError, type ToolInfo } from "@toolrack/core";
import { commandFor } from "../command-for.ts";

/** A tool of a server that is switched off. It refuses by itself too, whatever switches the tool on again. */
export function switchedOff(tool: ToolInfo, key: string): ToolInfo {
  const reason = `The MCP server "${key}" is switched off, and its tools with it. Switch it on: ${commandFor("enable", key)}`;
  return {
    ...tool,
    execute: async () => {
      throw new ToolDisabledError(reason, { toolName: tool.name });
    },
    metadata: { ...tool.metadata, disabledReason: reason },
    disabled: true,
  };
}
