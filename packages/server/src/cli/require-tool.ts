import { isToolError, type ToolInfo, type ToolRegistry } from "@toolrack/core";
import { CliError } from "./cli-error.ts";
import { exitCodes } from "./exit-codes.ts";

/** The tool of that name. Throws a `CliError` that names the nearest ones when there is none. */
export function requireTool(registry: ToolRegistry, name: string): ToolInfo {
  try {
    return registry.require(name);
  } catch (thrown) {
    if (!isToolError(thrown)) throw thrown;
    const { code, message, data } = thrown;
    throw new CliError(message, { code, exitCode: exitCodes.noSuchTool, details: data });
  }
}
