import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { ToolContext } from "@toolrack/core";
import { isCanonicalName } from "@toolrack/core/internal";
import type { SandboxGrant } from "../config/index.ts";
import { asRecord, defined, isRecord } from "../helpers/index.ts";
import type { ProgramResult, ProgramSpec, Sandbox } from "../sandbox/index.ts";
import {
  type CheckedTool,
  filledArguments,
  fillValuesWithin,
  hasSecretWithin,
  logPrinted,
  type SkillSurroundings,
  skillResult,
  type ToolRunner,
  valuesFor,
} from "./checked-tool.ts";
import { resolveCommand, type ScriptCommand, type ScriptModule } from "./script-command.ts";
import { type LoadedSkill, shortHash } from "./skill.ts";
import {
  callModule,
  describeBlocked,
  describeEnd,
  MissingFunctionError,
  parseJson,
  tailOf,
} from "./skill-module.ts";
import { type InstallPackages, packagesOf } from "./skill-packages.ts";

export const usualScriptTimeout = 60_000;

/** The folder inside a skill's data folder in which its modules work. */
const workFolder = "work";

/** Returns the runner of a tool that is a sandboxed program. Throws `UsageError` if it has no program. */
export function scriptRunner(ready: CheckedTool, surroundings: SkillSurroundings): ToolRunner {
  const { skill, tool, usage } = ready;
  const script = resolveCommand(tool.command, withCode(skill), surroundings.workspace);
  const { argv, output = "json" } = usage.settings;
  return async (call: ToolContext) => {
    const { signal } = call;
    const sandbox = await surroundings.sandbox();
    const spec = await specOf(ready, surroundings, script, sandbox, call);
    const params = await filledArguments(ready, surroundings, call);
    const context = contextOf(ready, call);
    if (script.module !== undefined) {
      const request = { method: "execute" as const, toolName: tool.name, params, context, work: workFolder };
      return resultOf(await callModule(sandbox, spec, script.module, request, signal, call, skill.directory));
    }
    const words = argv === undefined ? [] : [params[argv] ?? []].flat().map(String);
    const program = { ...spec, args: [...script.args, ...words] };
    const result = await sandbox.run(program, JSON.stringify({ params, context }), signal);
    logPrinted(call, "warn", result.stderr);
    const blocked = describeBlocked(spec, result, sandbox.level, [], describeEnd(result, spec.label));
    if (blocked !== undefined) throw new Error(blocked);
    return resultOf(readCommandAnswer(result, spec.label, output));
  };
}

/** The skill with the folder that its scripts run from as its directory. */
function withCode(skill: LoadedSkill): LoadedSkill {
  return skill.code === undefined ? skill : { ...skill, directory: skill.code };
}

/** Rejects with the reason when a skill's module is no program of its language. Runs nothing of it. */
export async function parseModule(
  skill: ModuleOwner,
  module: ScriptModule,
  sandbox: Sandbox,
  signal: AbortSignal,
): Promise<void> {
  await callModule(sandbox, moduleSpec(skill, module), module, { method: "parse" }, signal);
}

/** Calls `getTools()` of a skill's module in the sandbox. */
export async function askForTools(
  skill: ModuleOwner,
  module: ScriptModule,
  sandbox: Sandbox,
  install: InstallPackages | undefined,
  signal: AbortSignal,
): Promise<unknown> {
  const plain = moduleSpec(skill, module);
  const dependencies = await packagesOf(skill.directory, plain.label, install, signal);
  const spec = { ...plain, ...defined({ dependencies }) };
  try {
    return await callModule(sandbox, spec, module, { method: "getTools" }, signal);
  } catch (thrown) {
    if (module.language !== "python" || !(thrown instanceof MissingFunctionError)) throw thrown;
    // Some Python skills have no such function, and print their tools when they are run with this option.
    const result = await sandbox.run({ ...spec, args: [module.file, "--get-tools"] }, "", signal);
    const printed = result.exitCode === 0 ? lastJson(result.stdout) : undefined;
    if (printed === undefined) throw thrown;
    return printed.value;
  }
}

type ModuleOwner = Pick<LoadedSkill, "name" | "directory" | "code" | "trusted">;

function moduleSpec(skill: ModuleOwner, module: ScriptModule): ProgramSpec {
  return {
    label: `${skill.name}/getTools`,
    command: module.language === "python" ? "python3" : "node",
    args: [],
    directory: skill.code ?? skill.directory!,
    environment: {},
    hosts: [],
    foreign: !skill.trusted,
    limits: { timeoutMs: 10_000 },
  };
}

async function specOf(
  { skill, tool, usage }: CheckedTool,
  { readValue, workspace, grants, openData, openFolders, install }: SkillSurroundings,
  { command, args, directory, module }: ScriptCommand,
  sandbox: Sandbox,
  { caller, env, extra, signal }: ToolContext,
): Promise<ProgramSpec> {
  const granted = grantsOf(skill, tool.id, grants);
  const { timeout = usualScriptTimeout } = usage.settings;
  const variables = skill.trusted ? granted.map((grant) => grant.environment) : [];
  const environment = { ...Object.assign({}, ...variables), ...usage.settings.environment };
  const hosts = [...new Set([...usage.settings.hosts, ...granted.flatMap((grant) => grant.hosts ?? [])])];
  const needsSecrets = hasSecretWithin([usage.settings.environment, usage.settings.arguments]);
  if (!skill.trusted && (needsSecrets || hosts.length > 0)) {
    const wish = needsSecrets ? "secrets" : `the network (${hosts.join(", ")})`;
    throw new Error(
      `The skill "${skill.name}" came from elsewhere, and its tool "${tool.name}" asks for ${wish}. Look at it, then trust it with: toolrack skills trust "${skill.name}"`,
    );
  }
  const written = await fillValuesWithin(environment, valuesFor(skill, readValue, env));
  const own: Record<string, string> = { ...(skill.trusted ? env : {}), ...written };
  const prefixed = Object.entries(own).map(([name, value]) => [`SKILL_${name.toUpperCase()}`, value]);
  const label = `${skill.name}/${tool.name}`;
  const data = await openData(`skill.${isCanonicalName(skill.id) ? skill.id : shortHash(skill.id)}`);
  const place = sandbox.placeOf(data);
  return {
    label,
    command,
    args,
    directory: directory ?? (await emptyDirectory(workspace)),
    data,
    folders: await openFolders(skill.trusted ? granted.flatMap((grant) => grant.folders ?? []) : []),
    environment: {
      SKILL_ID: skill.id,
      SKILL_NAME: skill.name,
      TOOL_NAME: tool.name,
      SKILL_PATH: ".",
      ...(module !== undefined && { SCRIPT_PATH: module.file }),
      DATA_BASE_PATH: place,
      PROJECT_ROOT: place,
      WORKING_DIRECTORY: workFolder,
      USER_ID: caller,
      EXPERT_ID: typeof extra.expertId === "string" ? extra.expertId : "",
      IS_ADMIN: "false",
      IS_SKILL_CREATOR: "false",
      VM_TIMEOUT: String(timeout),
      PYTHON_TIMEOUT: String(timeout),
      SKILL_CONFIG: JSON.stringify(own),
      ...Object.fromEntries(prefixed),
      ...own,
    },
    hosts,
    foreign: !skill.trusted,
    // The call itself ends at `timeout`; this later limit ends a program that did not stop then.
    limits: { timeoutMs: timeout + 5_000 },
    ...defined({ dependencies: await packagesOf(skill.directory, label, install, signal) }),
  };
}

/** What the operator granted the skill, by its name or id, and its tool, by the tool's id. */
function grantsOf(
  { id, name }: LoadedSkill,
  toolId: string,
  grants: SkillSurroundings["grants"],
): SandboxGrant[] {
  return [...new Set([id, name, toolId])].flatMap((key) => (Object.hasOwn(grants, key) ? grants[key]! : []));
}

/** The information about the call that a script receives. It gives the script no rights. */
function contextOf({ skill, tool }: CheckedTool, context: ToolContext): Record<string, unknown> {
  const { expertId } = context.extra;
  return {
    userId: context.caller,
    ...defined({ expertId }),
    callId: context.callId,
    sessionId: context.sessionID,
    skillId: skill.id,
    skillName: skill.name,
    toolId: tool.id,
    toolName: tool.name,
    workingDirectory: workFolder,
    isAdmin: false,
    isSkillCreator: false,
  };
}

async function emptyDirectory(workspace: string): Promise<string> {
  const directory = join(workspace, ".toolrack", "skills", "empty");
  await mkdir(directory, { recursive: true });
  return directory;
}

/** Turns a picture in `dataUrl`, as older skills return it, into an attachment instead of a very long text. */
function resultOf(value: unknown): unknown {
  const isPicture = (one: unknown): one is Record<string, unknown> & { dataUrl: string } =>
    isRecord(one) && typeof one.dataUrl === "string" && /^data:image\/[\w.+-]+;base64,/.test(one.dataUrl);
  const given = asRecord(value);
  const holder = [given, given.data].find(isPicture);
  if (holder === undefined) return skillResult(value);
  const url = holder.dataUrl;
  const shown = { ...holder, dataUrl: "[attached]" };
  const mime = /^data:([^;]+)/.exec(url)![1]!;
  return skillResult(holder === given ? shown : { ...given, data: shown }, [{ type: "file", mime, url }]);
}

/**
 * The JSON that a command printed, without other output around it; for `text`, its whole output. Throws when
 * the command failed or printed no JSON.
 */
function readCommandAnswer(result: ProgramResult, label: string, wants: "json" | "text"): unknown {
  const found = lastJson(result.stdout);
  const failure = describeEnd(result, label, messageIn(found?.value));
  if (failure !== undefined) throw new Error(failure);
  if (wants === "text") return result.stdout.trimEnd();
  if (found !== undefined) return found.value;
  const what = result.stdout.trim() === "" ? "nothing" : "no JSON";
  throw new Error(
    `${label} printed ${what}. It must print its answer as JSON on standard output.${tailOf(result)}`,
  );
}

/** Parses the whole text, or else the last JSON value that begins at the start of a line and ends at the end of one. */
function lastJson(stdout: string): { value: unknown } | undefined {
  const whole = parseJson(stdout);
  if (whole !== undefined) return whole;
  const lines = stdout.trimEnd().split("\n");
  for (let end = lines.length; end > 0 && end > lines.length - SEARCHED_LINES; end--) {
    if (!/[}\]"\w]\s*$/.test(lines[end - 1]!)) continue;
    // A bare number or word counts as the result only on the last line. Above it, only an object, a list or a text
    // does.
    const start = end === lines.length ? /^\s*(?:[[{"]|-?\d|true|false|null)/ : /^\s*[[{"]/;
    const one = start.test(lines[end - 1]!) ? parseJson(lines[end - 1]!) : undefined;
    if (one !== undefined) return one;
    if (!/^\s*[}\]]+\s*$/.test(lines[end - 1]!)) continue;
    const first = lines.findLastIndex((line, at) => at < end && /^[[{]/.test(line));
    const block = first === -1 ? undefined : parseJson(lines.slice(first, end).join("\n"));
    if (block !== undefined) return block;
  }
  return undefined;
}

const SEARCHED_LINES = 200;

function messageIn(value: unknown): string | undefined {
  const { error } = asRecord(value);
  const message = isRecord(error) ? error.message : error;
  return typeof message === "string" ? message : undefined;
}
