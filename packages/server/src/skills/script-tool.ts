import { randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { ToolContext } from "@toolrack/core";
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
import type { LoadedSkill } from "./skill.ts";

export const usualScriptTimeout = 60_000;

/** Returns the runner of a tool that is a sandboxed program. Throws `UsageError` if it has no program. */
export function scriptRunner(ready: CheckedTool, surroundings: SkillSurroundings): ToolRunner {
  const { skill, tool, usage } = ready;
  const script = resolveCommand(tool.command, skill, surroundings.workspace);
  const { argv, output = "json" } = usage.settings;
  return async (call: ToolContext) => {
    const { signal } = call;
    const spec = await specOf(ready, surroundings, script, call);
    const params = await filledArguments(ready, surroundings, call);
    const sandbox = await surroundings.sandbox();
    const context = contextOf(ready, call);
    if (script.module !== undefined) {
      const request = { method: "execute", toolName: tool.name, params, context };
      return resultOf(await callModule(sandbox, spec, script.module, request, signal, call));
    }
    const words = argv === undefined ? [] : [params[argv] ?? []].flat().map(String);
    const program = { ...spec, args: [...script.args, ...words] };
    const result = await sandbox.run(program, JSON.stringify({ params, context }), signal);
    logPrinted(call, "warn", result.stderr);
    return resultOf(readCommandAnswer(result, spec.label, output));
  };
}

/** Calls `getTools()` of a skill's module in the sandbox. */
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
  { skill, tool, usage }: CheckedTool,
  { readValue, workspace }: SkillSurroundings,
  { command, args, directory }: ScriptCommand,
  { caller, env }: ToolContext,
): Promise<ProgramSpec> {
  const { environment, hosts, timeout = usualScriptTimeout } = usage.settings;
  const needsSecrets = hasSecretWithin([environment, usage.settings.arguments]);
  if (!skill.trusted && (needsSecrets || hosts.length > 0)) {
    const wish = needsSecrets ? "secrets" : `the network (${hosts.join(", ")})`;
    throw new Error(
      `The skill "${skill.name}" came from elsewhere, and its tool "${tool.name}" asks for ${wish}. Look at it, then trust it with: toolrack skills trust "${skill.name}"`,
    );
  }
  const written = await fillValuesWithin(environment, valuesFor(skill, readValue, env));
  const own = { ...(skill.trusted ? env : {}), ...written };
  const prefixed = Object.entries(own).map(([name, value]) => [`SKILL_${name.toUpperCase()}`, value]);
  return {
    label: `${skill.name}/${tool.name}`,
    command,
    args,
    directory: directory ?? (await emptyDirectory(workspace)),
    environment: {
      SKILL_ID: skill.id,
      SKILL_NAME: skill.name,
      TOOL_NAME: tool.name,
      SKILL_PATH: ".",
      USER_ID: caller,
      SKILL_CONFIG: JSON.stringify(own),
      ...Object.fromEntries(prefixed),
      ...own,
    },
    hosts,
    foreign: !skill.trusted,
    // The call itself ends at `timeout`; this later limit ends a program that did not stop then.
    limits: { timeoutMs: timeout + 5_000 },
  };
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

/** Characters of a script's output that an error shows, from its end. */
const SHOWN_OUTPUT = 2_000;

/**
 * The value that a module's function returned. Throws the error that it threw, or one that says how the
 * script ended without an answer.
 */
function readModuleAnswer(result: ProgramResult, marker: string, label: string): unknown {
  const line = result.stdout.split("\n").findLast((candidate) => candidate.startsWith(marker));
  const answer = line === undefined ? undefined : parse(line.slice(marker.length));
  if (answer === undefined) {
    throw new Error(describeEnd(result, label) ?? `${label} ended before it answered.${tailOf(result)}`);
  }
  const { value, error } = asRecord(answer.value);
  if (error === undefined) return value;
  const { message, stack } = asRecord(error);
  throw Object.assign(new Error(String(message || `${label} failed without a message.`)), { stack });
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

function describeEnd(result: ProgramResult, label: string, message?: string): string | undefined {
  const { exitCode, signal, truncated } = result;
  if (truncated) return `${label} printed more than it may, and was stopped.`;
  if (signal !== null) return `${label} was ended by ${signal}.${tailOf(result)}`;
  if (exitCode === 0) return undefined;
  return message ?? `${label} ended with exit code ${exitCode}.${tailOf(result)}`;
}

function tailOf({ stdout, stderr }: ProgramResult): string {
  const [name, text] = stderr.trim() === "" ? ["printed", stdout.trim()] : ["said", stderr.trim()];
  if (text === "") return "";
  return ` It ${name}: ${text.length > SHOWN_OUTPUT ? `…${text.slice(-SHOWN_OUTPUT)}` : text}`;
}

/** Parses the whole text, or else the last JSON value that begins at the start of a line and ends at the end of one. */
function lastJson(stdout: string): { value: unknown } | undefined {
  const whole = parse(stdout);
  if (whole !== undefined) return whole;
  const lines = stdout.trimEnd().split("\n");
  for (let end = lines.length; end > 0 && end > lines.length - SEARCHED_LINES; end--) {
    if (!/[}\]"\w]\s*$/.test(lines[end - 1]!)) continue;
    // A bare number or word counts only when nothing follows it.
    const start = end === lines.length ? /^\s*(?:[[{"]|-?\d|true|false|null)/ : /^\s*[[{"]/;
    const one = start.test(lines[end - 1]!) ? parse(lines[end - 1]!) : undefined;
    if (one !== undefined) return one;
    if (!/^\s*[}\]]+\s*$/.test(lines[end - 1]!)) continue;
    const first = lines.findLastIndex((line, at) => at < end && /^[[{]/.test(line));
    const block = first === -1 ? undefined : parse(lines.slice(first, end).join("\n"));
    if (block !== undefined) return block;
  }
  return undefined;
}

const SEARCHED_LINES = 200;

function parse(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

function messageIn(value: unknown): string | undefined {
  const { error } = asRecord(value);
  const message = isRecord(error) ? error.message : error;
  return typeof message === "string" ? message : undefined;
}

/**
 * Runs inside the sandbox to call a function of a skill's module. The request comes on standard input as JSON:
 * `{marker, method, file, toolName, params, context}`. The answer is the line that begins with the marker, which the
 * module cannot know, so that other output does not matter.
 */
const nodeProgram = `
const { readFileSync } = require("node:fs");
const Module = require("node:module");
const { dirname, resolve } = require("node:path");
const { pathToFileURL } = require("node:url");
// By what it says itself: a package.json somewhere above the skill must not decide how it is read.
async function load(path) {
  const source = path.endsWith(".js") ? readFileSync(path, "utf8") : "";
  const isCommon = /\\bexports\\b/.test(source) && !/^\\s*(?:import|export)\\b/m.test(source);
  if (!isCommon) return import(pathToFileURL(path).href);
  const module = new Module(path);
  module.filename = path;
  module.paths = Module._nodeModulePaths(dirname(path));
  module._compile(source, path);
  return module.exports;
}
const chunks = [];
process.stdin.on("data", (chunk) => chunks.push(chunk)).on("end", async () => {
  const { marker, method, file, toolName, params, context } = JSON.parse(Buffer.concat(chunks).toString());
  const plain = (_key, value) => (typeof value === "bigint" ? String(value) : value);
  const answer = (message) =>
    process.stdout.write("\\n" + marker + JSON.stringify(message, plain) + "\\n", () => process.exit(0));
  try {
    const loaded = await load(resolve(file));
    const candidates = [loaded, loaded.default, loaded.default?.default];
    const owner = candidates.find((one) => typeof one?.[method] === "function");
    if (owner === undefined) throw new Error(file + " exports no function " + method + ".");
    const value = await (method === "getTools" ? owner.getTools() : owner.execute(toolName, params, context));
    answer({ value: value === undefined ? null : value });
  } catch (error) {
    answer({ error: { message: String(error?.message ?? error), stack: String(error?.stack ?? "") } });
  }
});`;

const pythonProgram = `
import asyncio, importlib.util, inspect, json, math, os, sys, traceback
request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
out = os.fdopen(os.dup(1), "w", encoding="utf-8")
def plain(value):
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    return [plain(member) for member in value] if isinstance(value, (list, tuple)) else value
def answer(message):
    try:
        text = json.dumps(message, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:
        # JavaScript writes null too for what JSON has no word for.
        text = json.dumps(plain(json.loads(json.dumps(message, default=str))), ensure_ascii=False)
    out.write("\\n" + request["marker"] + text + "\\n")
    out.flush()
    os._exit(0)
try:
    path = os.path.abspath(request["file"])
    sys.path.insert(0, os.path.dirname(path))
    sys.dont_write_bytecode = True
    spec = importlib.util.spec_from_file_location("skill", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    snake = {"getTools": "get_tools"}.get(request["method"], request["method"])
    function = getattr(module, request["method"], None) or getattr(module, snake, None)
    if function is None:
        raise Exception(request["file"] + " has no function " + request["method"] + ".")
    if request["method"] == "getTools":
        value = function()
    else:
        value = function(request["toolName"], request["params"], request["context"])
    if inspect.isawaitable(value):
        async def wait(): return await value
        value = asyncio.run(wait())
    answer({"value": value})
except SystemExit:
    error = sys.exc_info()[1]
    message = request["file"] + " ended with sys.exit(" + repr(error.code) + ") instead of returning a value."
    answer({"error": {"message": message, "stack": traceback.format_exc()}})
except BaseException:
    error = sys.exc_info()[1]
    answer({"error": {"message": str(error) or type(error).__name__, "stack": traceback.format_exc()}})
`;
