import {
  canonicalName,
  type JsonSchemaObject,
  Tool,
  type ToolInfo,
  type ToolMetadata,
  toDefinition,
} from "@toolrack/core";
import type { SkillToolInfo } from "../../skills/skill-tool-info.ts";
import type { StoredSkillTool } from "../../store/skills/skill-store.ts";
import { endpointParameters } from "./http-request.ts";
import type { LoadedSkill } from "./loaded-skill.ts";
import { isReservedName, reservedNameReason } from "./reserved-names.ts";
import { builtinRunner, builtinTarget, findTarget } from "./run-builtin.ts";
import type { ReadyTool, SkillSurroundings, ToolRunner } from "./run-environment.ts";
import { httpRunner, usualHttpTimeout } from "./run-http.ts";
import { scriptRunner, usualScriptTimeout } from "./run-script.ts";
import { olderName, readableName, type ToolNames } from "./tool-names.ts";
import { readUsage, type ToolUsage, withSettings } from "./usage.ts";
import { UsageError } from "./usage-error.ts";

/** A row of `skill_tools` as a tool of the rack; `prefix` is what readable names of its skill begin with. Throws `UsageError` that says what is wrong with the row. */
export function adaptSkillTool(
  skill: LoadedSkill,
  tool: StoredSkillTool,
  surroundings: SkillSurroundings,
  { names, prefix }: { readonly names: ToolNames; readonly prefix: string },
): ToolInfo {
  const usage = readUsage(tool.usage, tool.description);
  const ready: ReadyTool = { skill, tool, usage };
  const run = runnerOf(ready, surroundings);
  const readable = readableName(prefix, tool);
  const id = canonicalName(tool.id);
  // The row may have been written by anybody: a scope such as `internal_*` must not come to mean its tool.
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
    disabled: !skill.enabled || !tool.enabled,
  };
}

function runnerOf(ready: ReadyTool, surroundings: SkillSurroundings): ToolRunner {
  switch (ready.tool.type) {
    case "http":
      return httpRunner(ready, surroundings);
    case "script":
      return scriptRunner(ready, surroundings);
    case "builtin":
      return builtinRunner(ready, surroundings.registry);
  }
}

function parametersOf(
  tool: StoredSkillTool,
  { parameters, settings }: ToolUsage,
  { registry }: SkillSurroundings,
): JsonSchemaObject {
  if (parameters !== undefined) return parameters;
  if (tool.type === "http") return fromEndpoint(tool.endpoint ?? "");
  if (tool.type !== "builtin") return { type: "object" };
  const target = findTarget(registry, builtinTarget(tool));
  return target === undefined ? { type: "object" } : withSettings(schemaOf(target), settings);
}

/** An endpoint that names its parameters needs no further words. */
function fromEndpoint(endpoint: string): JsonSchemaObject {
  const names = [...new Set(endpointParameters(endpoint))];
  const properties = Object.fromEntries(names.map((name) => [name, { type: "string" }]));
  return { type: "object", properties, ...(names.length === 0 ? {} : { required: names }) };
}

function schemaOf(target: ToolInfo): JsonSchemaObject {
  try {
    return toDefinition(target).inputSchema;
  } catch {
    // Some schemas of libraries have no JSON form; the target checks its arguments itself.
    return { type: "object" };
  }
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
  const usual = { http: usualHttpTimeout, script: usualScriptTimeout, builtin: undefined }[tool.type];
  const limit = timeout ?? usual;
  const skillInfo: SkillToolInfo = {
    skillId: skill.id,
    skillName: skill.name,
    toolId: tool.id,
    toolName: tool.name,
    toolDisplayName: tool.displayName ?? tool.name,
    type: tool.type,
    ...(skill.sourcePath === undefined ? {} : { sourcePath: skill.sourcePath }),
    ...(tool.command === undefined ? {} : { command: tool.command }),
  };
  return {
    category: skill.name,
    tags: ["skill", ...tags],
    skill: skillInfo,
    ...(limit === undefined ? {} : { timeout: limit }),
    ...(tool.type === "builtin" ? {} : { openWorld: tool.type === "http" || settings.hosts.length > 0 }),
    ...((readOnly ?? isSafe) ? { readOnly: true } : {}),
    ...(idempotent === undefined ? {} : { idempotent }),
    ...(dangerous === undefined ? {} : { dangerous }),
    ...(confirm === undefined ? {} : { confirm }),
    ...(permissions === undefined ? {} : { permissions }),
    ...(tool.type === "builtin" && skill.trusted ? { calls: callsOf(tool, registry) } : {}),
  };
}

/** Whoever may use this tool may use the one behind it through it: its arguments are for the operator to fix. */
function callsOf(tool: StoredSkillTool, registry: SkillSurroundings["registry"]): string[] {
  const target = builtinTarget(tool);
  return [findTarget(registry, target)?.name ?? target];
}
