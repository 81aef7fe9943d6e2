import { randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { ToolContext } from "@toolrack/core";
import type { ProgramSpec, Sandbox } from "../../runners/sandbox/types.ts";
import type { LoadedSkill } from "./loaded-skill.ts";
import { logPrinted } from "./log-printed.ts";
import type { ReadyTool, SkillSurroundings, ToolRunner } from "./run-environment.ts";
import { resolveCommand, type ScriptCommand, type ScriptModule } from "./script-command.ts";
import { readCommandAnswer, readModuleAnswer } from "./script-output.ts";
import { nodeProgram, pythonProgram } from "./script-programs.ts";
import { fillSecretsWithin, fillSecretValues, hasSecretWithin } from "./secret-references.ts";
import { skillResult } from "./skill-result.ts";

export const usualScriptTimeout = 60_000;

/** A tool that is a program, run in the sandbox. Throws `UsageError` when there is nothing to run. */
export function scriptRunner(ready: ReadyTool, surroundings: SkillSurroundings): ToolRunner {
  const { skill, tool, usage } = ready;
  const script = resolveCommand(tool.command, skill, surroundings.workspace);
  const { argv, output = "json", timeout = usualScriptTimeout } = usage.settings;
  const label = `${skill.name}/${tool.name}`;
  return async (context: ToolContext) => {
    const spec = await specOf(ready, surroundings, script, context, timeout);
    const { arguments: fixed, defaults } = usage.settings;
    // Only what the operator wrote may refer to secrets.
    const own = await fillSecretsWithin(fixed, surroundings.readSecret);
    const params: Record<string, unknown> = { ...defaults, ...context.input, ...own };
    const sandbox = await surroundings.sandbox();
    const told = contextOf(ready, context);
    if (script.module !== undefined) {
      const request = { method: "execute", toolName: tool.name, params, context: told };
      return resultOf(await callModule(sandbox, spec, script.module, request, context.signal, context));
    }
    const words = argv === undefined ? [] : wordsOf(params[argv]);
    const program = { ...spec, args: [...script.args, ...words] };
    const result = await sandbox.run(program, JSON.stringify({ params, context: told }), context.signal);
    logPrinted(context, "warn", result.stderr);
    return resultOf(readCommandAnswer(result, label, output));
  };
}

/** What `getTools()` of a skill's module answers. It runs nowhere but in the sandbox. */
export async function askForTools(
  skill: Pick<LoadedSkill, "name" | "directory" | "trusted">,
  module: ScriptModule,
  sandbox: Sandbox,
  signal: AbortSignal,
): Promise<unknown> {
  const spec: ProgramSpec = {
    label: `${skill.name}/getTools`,
    command: module.language === "python" ? "python3" : "node",
    args: [],
    directory: skill.directory!,
    environment: {},
    hosts: [],
    foreign: !skill.trusted,
    limits: { timeoutMs: 10_000 },
  };
  return callModule(sandbox, spec, module, { method: "getTools" }, signal);
}

async function callModule(
  sandbox: Sandbox,
  spec: ProgramSpec,
  { language, file }: ScriptModule,
  request: object,
  signal: AbortSignal,
  context?: ToolContext,
): Promise<unknown> {
  const marker = `toolrack:${randomUUID()} `;
  const args = language === "python" ? ["-c", pythonProgram] : ["-e", nodeProgram];
  const input = JSON.stringify({ ...request, marker, file });
  const result = await sandbox.run({ ...spec, args }, input, signal);
  const printed = result.stdout.split("\n").filter((line) => !line.startsWith(marker));
  logPrinted(context, "info", printed.join("\n"));
  logPrinted(context, "warn", result.stderr);
  return readModuleAnswer(result, marker, spec.label);
}

async function specOf(
  { skill, tool, usage }: ReadyTool,
  { readSecret, workspace }: SkillSurroundings,
  script: ScriptCommand,
  context: ToolContext,
  timeout: number,
): Promise<ProgramSpec> {
  const { environment, hosts } = usage.settings;
  const needsSecrets = hasSecretWithin([environment, usage.settings.arguments]);
  if (!skill.trusted && (needsSecrets || hosts.length > 0)) {
    throw new Error(
      `The skill "${skill.name}" came from elsewhere, and its tool "${tool.name}" asks for ${needsSecrets ? "secrets" : `the network (${hosts.join(", ")})`}. Look at it, then trust it with: toolrack skills trust "${skill.name}"`,
    );
  }
  const own = await fillSecretValues(environment, readSecret);
  return {
    label: `${skill.name}/${tool.name}`,
    command: script.command,
    args: script.args,
    directory: script.directory ?? (await emptyDirectory(workspace)),
    environment: {
      SKILL_ID: skill.id,
      SKILL_NAME: skill.name,
      TOOL_NAME: tool.name,
      SKILL_PATH: ".",
      USER_ID: context.caller,
      SKILL_CONFIG: JSON.stringify(own),
      ...Object.fromEntries(
        Object.entries(own).map(([name, value]) => [`SKILL_${name.toUpperCase()}`, value]),
      ),
      ...own,
    },
    hosts,
    foreign: !skill.trusted,
    // The call's own limit comes first; this one is for what would not heed it.
    limits: { timeoutMs: timeout + 5_000 },
  };
}

/** What a script is told about the call. Nothing in it opens a door. */
function contextOf({ skill, tool }: ReadyTool, context: ToolContext): Record<string, unknown> {
  const { expertId } = context.extra as { readonly expertId?: string };
  return {
    userId: context.caller,
    ...(expertId === undefined ? {} : { expertId }),
    callId: context.callId,
    sessionId: context.sessionID,
    skillId: skill.id,
    skillName: skill.name,
    toolId: tool.id,
    toolName: tool.name,
    workingDirectory: ".",
    isAdmin: false,
    isSkillCreator: false,
  };
}

async function emptyDirectory(workspace: string): Promise<string> {
  const directory = join(workspace, ".toolrack", "skills", "empty");
  await mkdir(directory, { recursive: true });
  return directory;
}

function wordsOf(value: unknown): string[] {
  if (value === undefined || value === null) return [];
  return (Array.isArray(value) ? value : [value]).map(String);
}

/** A picture as `dataUrl`, the way older skills return it, becomes an attachment instead of a very long text. */
function resultOf(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return skillResult(value);
  const holder = [value, (value as { data?: unknown }).data].find(
    (one): one is { dataUrl: string } =>
      typeof one === "object" &&
      one !== null &&
      /^data:image\/[\w.+-]+;base64,/.test(String((one as { dataUrl?: unknown }).dataUrl)),
  );
  if (holder === undefined) return skillResult(value);
  const mime = /^data:([^;]+)/.exec(holder.dataUrl)![1]!;
  return skillResult(replaceIn(value, holder), [{ type: "file", mime, url: holder.dataUrl }]);
}

function replaceIn(value: object, holder: { dataUrl: string }): object {
  const { dataUrl: _, ...rest } = holder;
  const shown = { ...rest, dataUrl: "[attached]" };
  return value === holder ? shown : { ...value, data: shown };
}
