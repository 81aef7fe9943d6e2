import { basename } from "node:path";
import {
  type JsonSchemaObject,
  Tool,
  type ToolInfo,
  type ToolMetadata,
  type ToolRegistry,
} from "@toolrack/core";
import { canonicalName, definitionOf, hashValue } from "@toolrack/core/internal";
import { isReservedName, reservedNameReason } from "../calls/index.ts";
import { defined } from "../helpers/index.ts";
import type { StoredSkillTool } from "../store/index.ts";
import {
  type CheckedTool,
  filledArguments,
  type SkillSurroundings,
  type ToolRunner,
} from "./checked-tool.ts";
import { endpointParameters, httpRunner, usualHttpTimeout } from "./http-tool.ts";
import { scriptRunner, usualScriptTimeout } from "./script-tool.ts";
import { type LoadedSkill, olderName, readableName, type SkillToolInfo, type ToolNames } from "./skill.ts";
import { readUsage, type ToolUsage, UsageError, withSettings } from "./tool-usage.ts";

/** Makes a tool from a row of `skill_tools`. Throws `UsageError` that says what is wrong with the row. */
export function adaptSkillTool(
  skill: LoadedSkill,
  tool: StoredSkillTool,
  surroundings: SkillSurroundings,
  { names, prefix }: { readonly names: ToolNames; readonly prefix: string },
): ToolInfo {
  const usage = readUsage(tool.usage, tool.description);
  const ready: CheckedTool = { skill, tool, usage };
  const run = runners[tool.type](ready, surroundings);
  const readable = readableName(prefix, tool);
  const id = canonicalName(tool.id);
  // Anybody may have written the row, and a token's scope such as `internal_*` must not match the row's tool.
  if (isReservedName(id)) throw new UsageError(`The id "${id}" cannot be used. ${reservedNameReason}`, "id");
  const name = names === "readable" ? readable : id;
  const aliases = [id, readable, olderName(skill, tool)].filter(
    (alias) => alias !== name && !isReservedName(alias),
  );
  const logged = `${skill.name}/${tool.name}`;
  const { logger } = surroundings;
  const info = Tool.define({
    name,
    aliases,
    displayName: `${skill.name}/${tool.displayName ?? tool.name}`,
    title: tool.displayName ?? tool.name,
    description: tool.description,
    parameters: parametersOf(tool, usage, surroundings),
    metadata: metadataOf(skill, tool, usage, surroundings),
    execute: (context) => {
      logger.info(`[ToolManager] 执行工具: ${logged}`);
      return run(context);
    },
  });
  return {
    ...info,
    origin: `skill ${logged}`,
    // The name of the folder with the skill's code ends with the hash of its files.
    version: hashValue([skill.code && basename(skill.code).slice(-16), tool.type, tool.command, tool.usage]),
    disabled: !skill.enabled || !tool.enabled,
  };
}

const runners = { http: httpRunner, script: scriptRunner, builtin: builtinRunner };

function parametersOf(
  tool: StoredSkillTool,
  { parameters, settings }: ToolUsage,
  { registry }: SkillSurroundings,
): JsonSchemaObject {
  if (parameters !== undefined) return parameters;
  if (tool.type === "http") {
    const names = [...new Set(endpointParameters(tool.endpoint ?? ""))];
    const properties = Object.fromEntries(names.map((name) => [name, { type: "string" }]));
    return { type: "object", properties, ...(names.length > 0 && { required: names }) };
  }
  if (tool.type !== "builtin") return { type: "object" };
  const target = findTarget(registry, builtinTarget(tool));
  // A target whose schema has no JSON form checks its arguments itself.
  const schema = target && definitionOf(target)?.inputSchema;
  return schema === undefined ? { type: "object" } : withSettings(schema, settings);
}

function metadataOf(
  skill: LoadedSkill,
  tool: StoredSkillTool,
  { settings }: ToolUsage,
  { registry }: SkillSurroundings,
): ToolMetadata {
  const { timeout, dangerous, confirm, readOnly, idempotent, permissions, tags = [] } = settings;
  const isSafe =
    tool.type === "http" && ["", "GET", "HEAD"].includes((tool.method ?? "").trim().toUpperCase());
  const timeouts = { http: usualHttpTimeout, script: usualScriptTimeout, builtin: undefined };
  const skillInfo: SkillToolInfo = {
    skillId: skill.id,
    skillName: skill.name,
    toolId: tool.id,
    toolName: tool.name,
    toolDisplayName: tool.displayName ?? tool.name,
    type: tool.type,
    ...defined({ sourcePath: skill.sourcePath, command: tool.command }),
  };
  return {
    category: skill.name,
    tags: ["skill", ...tags],
    skill: skillInfo,
    ...(tool.type !== "builtin" && { openWorld: tool.type === "http" || settings.hosts.length > 0 }),
    ...((readOnly ?? isSafe) && { readOnly: true }),
    ...defined({ timeout: timeout ?? timeouts[tool.type], idempotent, dangerous, confirm, permissions }),
    // A caller who may use this tool may use its target through it, because the operator can fix the
    // arguments.
    ...(tool.type === "builtin" && skill.trusted && { calls: [targetName(tool, registry)] }),
  };
}

/** The name of a `builtin` tool's target. Throws `UsageError` when it is no name. */
function builtinTarget({ command, name }: { readonly command?: string; readonly name: string }): string {
  const target = command?.trim() || `builtin_${name}`;
  if (/\s/.test(target)) {
    throw new UsageError(
      `The command of a builtin tool is the name of a tool, such as builtin_file_read; "${target}" is none.`,
      "command",
    );
  }
  return target;
}

function targetName(tool: StoredSkillTool, registry: ToolRegistry): string {
  const target = builtinTarget(tool);
  return findTarget(registry, target)?.name ?? target;
}

function findTarget(registry: ToolRegistry, target: string): ToolInfo | undefined {
  return registry.get(target) ?? registry.get(canonicalName(target));
}

/** Returns the runner of a tool that calls another tool, with arguments that the operator may fix. */
function builtinRunner(ready: CheckedTool, surroundings: SkillSurroundings): ToolRunner {
  const { tool } = ready;
  if (builtinTarget(tool) === tool.id)
    throw new UsageError("A builtin tool cannot stand for itself.", "command");
  return async (context) => {
    const name = targetName(tool, surroundings.registry);
    if (name === context.tool.name)
      throw new Error("The tool stands for itself. Name another one as its command.");
    return context.call(name, await filledArguments(ready, surroundings, context));
  };
}
