import {
  canonicalName,
  type JsonSchemaObject,
  type Logger,
  type LogLevel,
  logLine,
  Tool,
  type ToolContext,
  type ToolInfo,
  type ToolMetadata,
  type ToolRegistry,
  toDefinition,
} from "@toolrack/core";
import { isReservedName, reservedNameReason } from "../calls/index.ts";
import type { Sandbox } from "../sandbox/index.ts";
import type { StoredSkillTool } from "../store/index.ts";
import type { SkillToolInfo } from "./checks.ts";
import type { LoadedSkill } from "./folder.ts";
import { endpointParameters, httpRunner, usualHttpTimeout } from "./http-tool.ts";
import { scriptRunner, usualScriptTimeout } from "./script-tool.ts";
import { olderName, readableName, type ToolNames } from "./tools-file.ts";
import { readUsage, type ToolUsage, UsageError, withSettings } from "./usage.ts";

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
      return builtinRunner(ready, surroundings);
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

/** The name of the tool that a `builtin` tool stands for. Throws `UsageError` when none is said. */
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

/** The tool that is meant, when it is on the rack. */
function findTarget(registry: ToolRegistry, target: string): ToolInfo | undefined {
  return registry.get(target) ?? registry.get(canonicalName(target));
}

/** A tool that is already on the rack, under another name and with arguments of its own. */
function builtinRunner(ready: ReadyTool, surroundings: SkillSurroundings): ToolRunner {
  const { tool } = ready;
  const target = builtinTarget(tool);
  if (target === tool.id) throw new UsageError("A builtin tool cannot stand for itself.", "command");
  return async (context) => {
    const found = findTarget(surroundings.registry, target);
    if (found?.name === context.tool.name)
      throw new Error("The tool stands for itself. Name another one as its command.");
    const input = await filledArguments(ready, surroundings, context.input);
    return context.call(found?.name ?? target, input);
  };
}

/**
 * What a service or script answered, as the result of a tool. It is data: one that happens to look like a tool's own
 * result cannot name files of this machine or pass for something else. Only a failure that it tells of is one. `more` is
 * attached beside what it attaches itself.
 */
export function skillResult(value: unknown, more: readonly Attachment[] = []): unknown {
  if (typeof value === "string") return { type: "text", content: value };
  if (typeof value !== "object" || value === null) return value;
  const given = value as Record<string, unknown>;
  const own = attachmentsOf(given);
  const attachments = [...own, ...more];
  const structured = own.length === 0 ? value : withoutAttached(given);
  const content = JSON.stringify(structured);
  return {
    ...(isFailure(given)
      ? { type: "error", content: reasonIn(given) ?? content }
      : { type: "json", content }),
    structured,
    ...(attachments.length === 0 ? {} : { attachments }),
  };
}

function isFailure({ success, isError, type }: Record<string, unknown>): boolean {
  return success === false || isError === true || type === "error";
}

function reasonIn({ error, message, output, content }: Record<string, unknown>): string | undefined {
  const nested =
    typeof error === "object" && error !== null ? (error as { message?: unknown }).message : error;
  return [nested, message, output, content].find(
    (part): part is string => typeof part === "string" && part !== "",
  );
}

interface Attachment {
  readonly type: "file";
  readonly mime: string;
  readonly url: string;
  readonly filename?: string;
}

/** Those that carry their content with them; any other address is only text. */
function attachmentsOf({ attachments }: Record<string, unknown>): Attachment[] {
  if (!Array.isArray(attachments)) return [];
  return attachments.flatMap((one: { mime?: unknown; url?: unknown; filename?: unknown } | null) => {
    if (!isCarried(one)) return [];
    const { mime, url, filename } = one;
    return [{ type: "file" as const, mime, url, ...(typeof filename === "string" ? { filename } : {}) }];
  });
}

function withoutAttached(given: Record<string, unknown>): Record<string, unknown> {
  const shown = (given.attachments as unknown[]).map((one) =>
    isCarried(one) ? { ...one, url: "[attached]" } : one,
  );
  return { ...given, attachments: shown };
}

function isCarried(value: unknown): value is { mime: string; url: string; filename?: unknown } {
  const { mime, url } = (value ?? {}) as { mime?: unknown; url?: unknown };
  return typeof mime === "string" && typeof url === "string" && /^data:/i.test(url);
}

/** What a program printed beside its answer, as lines of the call's log. */
export function logPrinted(context: unknown, level: LogLevel, text: string): void {
  for (const line of text.split("\n")) logLine(context, level, line.trimEnd());
}

/** What tools of skills run with. */
export interface SkillSurroundings {
  readonly registry: ToolRegistry;
  /** Absolute. */
  readonly workspace: string;
  /** Hosts and ranges that may be reached although they are private. */
  readonly allowPrivate: readonly string[];
  readonly readSecret: ReadSecret;
  /** Opened when the first script runs. */
  readonly sandbox: () => Promise<Sandbox>;
  readonly logger: Logger;
}

/** A tool of a skill whose row was read and found usable. */
export interface ReadyTool {
  readonly skill: LoadedSkill;
  readonly tool: StoredSkillTool;
  readonly usage: ToolUsage;
}

/** Runs a tool of one type. */
export type ToolRunner = (context: ToolContext) => Promise<unknown>;

/** Finds the value of a secret by its name; undefined when there is none. */
export type ReadSecret = (name: string) => Promise<string | undefined>;

const reference = /\{\{\s*secret:([A-Za-z_][A-Za-z0-9_.-]*)\s*\}\}/g;

/**
 * What a skill's tool of any type runs with: what the caller said, and what the operator wrote as `arguments` and
 * `defaults`. Only the `arguments` may refer to secrets, and only those of a trusted skill.
 */
export async function filledArguments(
  { skill, usage }: ReadyTool,
  { readSecret }: Pick<SkillSurroundings, "readSecret">,
  input: Readonly<Record<string, unknown>>,
): Promise<Record<string, unknown>> {
  const { arguments: fixed, defaults } = usage.settings;
  return { ...defaults, ...input, ...(await fillSecretsWithin(fixed, secretsFor(skill, readSecret))) };
}

/** Where a skill's tools read secrets: nowhere, when it came from elsewhere. */
export function secretsFor({ name, trusted }: ReadyTool["skill"], read: ReadSecret): ReadSecret {
  if (trusted) return read;
  return () =>
    Promise.reject(
      new Error(
        `The skill "${name}" came from elsewhere and is given no secrets until the operator trusts it. Trust it with: toolrack skills trust "${name}"`,
      ),
    );
}

export function hasSecretReference(text: string): boolean {
  return text.search(reference) !== -1;
}

/** The text with every `{{secret:NAME}}` replaced by what `toValue` makes of the secret. Throws when one is not set. */
export async function fillSecrets(
  text: string,
  read: ReadSecret,
  toValue: (secret: string) => string = (secret) => secret,
): Promise<string> {
  const values = new Map<string, string>();
  for (const [, name = ""] of text.matchAll(reference)) {
    if (values.has(name)) continue;
    const value = await read(name);
    if (value === undefined) {
      throw new Error(
        `The tool needs the secret ${name}, which is not set. Set it with: toolrack secrets set ${name}`,
      );
    }
    values.set(name, toValue(value));
  }
  return text.replace(reference, (_whole, name: string) => values.get(name) ?? "");
}

/** The same for every value of a map. */
export async function fillSecretValues(
  texts: Readonly<Record<string, string>>,
  read: ReadSecret,
): Promise<Record<string, string>> {
  const filled: Record<string, string> = {};
  for (const [name, text] of Object.entries(texts)) filled[name] = await fillSecrets(text, read);
  return filled;
}

/** The same for every text in a value, however deep. */
async function fillSecretsWithin<Value>(value: Value, read: ReadSecret): Promise<Value>;
async function fillSecretsWithin(value: unknown, read: ReadSecret): Promise<unknown> {
  if (typeof value === "string") return fillSecrets(value, read);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return Promise.all(value.map((member) => fillSecretsWithin(member, read)));
  const entries = Object.entries(value).map(
    async ([name, member]) => [name, await fillSecretsWithin(member, read)] as const,
  );
  return Object.fromEntries(await Promise.all(entries));
}

/** Whether any text in a value refers to a secret. */
export function hasSecretWithin(value: unknown): boolean {
  if (typeof value === "string") return hasSecretReference(value);
  return typeof value === "object" && value !== null && Object.values(value).some(hasSecretWithin);
}
