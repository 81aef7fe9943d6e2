import { type PluginTool, Tool, type ToolBody, type ToolInfo } from "@toolrack/core";
import type { FileVersion } from "../file-version.ts";
import type { FilePlace } from "../internal/adapt-internal.ts";
import type { RecognisedFile } from "../recognised.ts";

/**
 * Contract 3: values made by `Tool.define`, one or many, under any names, in lists too; and opencode-style tools,
 * where the default export is named after the file and every other one `{file}_{export}`.
 */
export async function adaptDefined(
  exports: Record<string, unknown>,
  place: FilePlace,
  version: FileVersion,
): Promise<RecognisedFile | undefined> {
  const tools: ToolInfo[] = [];
  let contract: RecognisedFile["contract"] = "define";
  for (const [key, exported] of Object.entries(exports)) {
    for (const value of (await Promise.resolve(exported).then((settled) => [settled])).flat()) {
      if (isToolInfo(value)) tools.push(watched(value, place, version));
      else if (isPluginTool(value)) {
        contract = "plugin";
        const name = key === "default" ? place.stem : `${place.stem}_${key}`;
        tools.push(watched(Tool.define(name, value), place, version));
      }
    }
  }
  // The same tool is often exported twice: by its name and as the default.
  const distinct = [...new Map(tools.map((info) => [info.name, info])).values()];
  return distinct.length === 0 ? undefined : { contract, tools: distinct, warnings: [] };
}

/** The same tool, with its calls counted and its stack traces mapped by the version of the file. */
function watched(info: ToolInfo, { origin }: FilePlace, version: FileVersion): ToolInfo {
  const run = Tool.implementationOf(info.execute);
  const execute = Tool.withImplementation(info.execute, {
    ...run,
    run: (context) => version.run(context, () => run.run(context)),
  });
  return { ...info, execute, origin };
}

function isToolInfo(value: unknown): value is ToolInfo {
  if (typeof value !== "object" || value === null) return false;
  const { name, parameters, execute } = value as Partial<ToolInfo>;
  return typeof name === "string" && typeof parameters === "object" && typeof execute === "function";
}

function isPluginTool(value: unknown): value is PluginTool {
  if (typeof value !== "object" || value === null) return false;
  const { args, parameters, execute } = value as Partial<PluginTool & ToolBody>;
  return typeof execute === "function" && typeof (args ?? parameters) === "object";
}
