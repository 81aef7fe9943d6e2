import { isToolError, type ToolRegistry } from "@toolrack/core";
import { CliError } from "./cli-error.ts";
import { exitCodes } from "./exit-codes.ts";

/** The error for a name that is not on the rack, with the nearest ones. */
export function notFound(registry: ToolRegistry, name: string): CliError {
  try {
    // An update of a tool that does not exist changes nothing, and throws the registry's own error.
    registry.update(name, {});
  } catch (thrown) {
    if (!isToolError(thrown)) throw thrown;
    const { code, message, data } = thrown;
    return new CliError(message, { code, exitCode: exitCodes.noSuchTool, details: data });
  }
  return new CliError(`The tool "${name}" has just been added.`, { code: "failure" });
}
