import { lstatSync, readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { extname, join } from "node:path";
import { isCanonicalName } from "@toolrack/core/internal";
import { asRecord, defined, isRecord, parsedJson, reasonOf } from "../helpers/index.ts";
import type { Sandbox } from "../sandbox/index.ts";
import { type NewSkillTool, type StoredSkillTool, skillToolTypes } from "../store/index.ts";
import { residentRefusal, resolveCommand, type ScriptModule } from "./script-command.ts";
import { askForTools, parseModule } from "./script-tool.ts";
import { type LoadedSkill, SkillFolderError, type SkillReason } from "./skill.ts";
import { MissingFunctionError } from "./skill-module.ts";
import type { InstallPackages } from "./skill-packages.ts";
import { fromParameterLines } from "./tool-usage.ts";

const fields = "id name displayName description type usage command endpoint method enabled".split(" ");

/** Reads `tools.json`: `{"tools": [...]}` or the list alone. Throws an error with the wrong place. */
export function readToolsFile(text: string): NewSkillTool[] {
  try {
    return toolsIn(text);
  } catch (thrown) {
    const said = reasonOf(thrown);
    throw new SkillFolderError("tools_file_invalid", said, { said });
  }
}

function toolsIn(text: string): NewSkillTool[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (thrown) {
    throw new Error(`tools.json is not JSON: ${reasonOf(thrown)}`);
  }
  const list = Array.isArray(value) ? value : asRecord(value).tools;
  if (!Array.isArray(list)) throw new Error('tools.json must be a list of tools, or {"tools": [...]}.');
  return list.map((entry, position) => readTool(entry, `tools[${position}]`));
}

export function writeToolsFile(tools: readonly StoredSkillTool[]): string {
  const entries = tools.map((tool) => {
    const { id, name, displayName, description, type, usage, command, endpoint, method, enabled } = tool;
    return {
      ...{ id, name, displayName, description, type },
      usage: usage === "" ? undefined : asWritten(usage),
      ...{ command, endpoint, method, enabled: enabled ? undefined : false },
    };
  });
  return `${JSON.stringify({ tools: entries }, null, 2)}\n`;
}

/** The `usage` for the file: a JSON value if that value gives the same text again, otherwise the text. */
function asWritten(usage: string): unknown {
  const value = parsedJson(usage);
  return typeof value === "object" && JSON.stringify(value) === usage ? value : usage;
}

function readTool(entry: unknown, place: string): NewSkillTool {
  if (!isRecord(entry)) throw new Error(`${place} must be an object.`);
  const unknown = Object.keys(entry).find((key) => !fields.includes(key));
  if (unknown !== undefined)
    throw new Error(`${place} has an unknown field "${unknown}"; there are ${fields.join(", ")}.`);
  const { name, type, id, usage, enabled } = entry;
  const known = skillToolTypes.find((one) => one === type);
  if (typeof name !== "string" || name.trim() === "") throw new Error(`${place}.name must be a text.`);
  if (known === undefined) throw new Error(`${place}.type must be one of ${skillToolTypes.join(", ")}.`);
  if (id !== undefined && (typeof id !== "string" || !isCanonicalName(id))) {
    throw new Error(`${place}.id must be letters, digits, _ and -, at most 64.`);
  }
  const textIn = (field: string): string | undefined => {
    const value = entry[field] ?? undefined;
    if (value === undefined || typeof value === "string") return value;
    throw new Error(`${place}.${field} must be a text.`);
  };
  return {
    name,
    type: known,
    ...defined({
      id,
      displayName: textIn("displayName"),
      description: textIn("description"),
      usage: usage === undefined || typeof usage === "string" ? usage : JSON.stringify(usage),
      command: textIn("command"),
      endpoint: textIn("endpoint"),
      method: textIn("method"),
    }),
    ...(enabled === false && { enabled }),
  };
}

const interpreters: Readonly<Record<string, string>> = {
  ...{ ".js": "node", ".mjs": "node", ".cjs": "node", ".ts": "node", ".py": "python3", ".sh": "sh" },
};

/** A skill in a folder, with the Markdown of its `SKILL.md`. */
type DiscoveryPlace = Pick<LoadedSkill, "name" | "trusted" | "code"> & { directory: string; body: string };

interface DiscoveredTools {
  readonly tools: readonly NewSkillTool[];
  readonly warnings: readonly string[];
  /** Why the skill's module cannot be loaded; undefined when it can. */
  readonly problem?: SkillReason;
}

/**
 * Finds the tools of a skill without a `tools.json`. With an `index.js` or `index.py`: the result of its
 * `getTools()` or, when that fails, the sections below "## Tools" of the `SKILL.md`. Without one: every
 * script in `scripts/`.
 */
export async function discoverTools(
  place: DiscoveryPlace,
  sandbox: () => Promise<Sandbox>,
  install: InstallPackages | undefined,
): Promise<DiscoveredTools> {
  const module = moduleIn(place);
  if (module === undefined) return { tools: await fromScripts(place.directory), warnings: [] };
  const described = fromSections(place.body, module);
  try {
    const limit = AbortSignal.timeout(30_000);
    const answer = await askForTools(place, module, await sandbox(), install, limit);
    return { tools: fromAnswer(answer, module), warnings: [] };
  } catch (thrown) {
    const isMissing = thrown instanceof MissingFunctionError;
    if (isMissing && described.length > 0) return { tools: described, warnings: [] };
    const isResident = isMissing && isResidentSource(sourceOf(place, module));
    const warning = isResident
      ? `${module.file}: ${residentRefusal}`
      : `${module.file} does not say which tools it has: ${reasonOf(thrown)} Export getTools(), or add a tools.json.`;
    const said = reasonOf(thrown);
    const problem = { reason: said, code: "module_fails", details: { file: module.file, said } } as const;
    return { tools: described, warnings: [warning], ...(!isMissing && { problem }) };
  }
}

/** Why a module that these tools run is no program of its language; undefined when all are. Runs nothing of them. */
export async function moduleProblem(
  place: DiscoveryPlace,
  tools: readonly NewSkillTool[],
  sandbox: () => Promise<Sandbox>,
): Promise<SkillReason | undefined> {
  const scripts = tools.filter(({ type }) => type === "script");
  const modules = scripts.flatMap(({ command }) => moduleIn(place, command) ?? []);
  for (const module of new Map(modules.map((one) => [one.file, one])).values()) {
    try {
      await parseModule(place, module, await sandbox(), AbortSignal.timeout(30_000));
    } catch (thrown) {
      const { file } = module;
      const said = reasonOf(thrown);
      return { reason: `${file} cannot be loaded: ${said}`, code: "module_fails", details: { file, said } };
    }
  }
  return undefined;
}

/** Whether it is a process that lives on: it asks for the mode of such, or answers to what it reads by `task_id`. */
function isResidentSource(text: string): boolean {
  return /\bRESIDENT_MODE\b/.test(text) || (/\bstdin\b/.test(text) && /\btask_id\b/.test(text));
}

function sourceOf({ directory }: DiscoveryPlace, { file }: ScriptModule): string {
  return readFileSync(join(directory, file), "utf8");
}

/** The module that a command of the skill runs; without a command, its `index.js` or `index.py`. */
function moduleIn(place: DiscoveryPlace, command?: string): ScriptModule | undefined {
  try {
    return resolveCommand(command, place, place.directory).module;
  } catch {
    return undefined;
  }
}

/** Reads the result of `getTools()`: `[{name, description, parameters}]`, or the same in OpenAI's form. */
function fromAnswer(answer: unknown, { file }: ScriptModule): NewSkillTool[] {
  const list = Array.isArray(answer) ? answer : asRecord(answer).tools;
  if (!Array.isArray(list)) throw new Error("getTools() must answer with a list.");
  return list.map((entry) => {
    const own = asRecord(entry);
    const { name, description, parameters, displayName } = isRecord(own.function) ? own.function : own;
    if (typeof name !== "string" || name.trim() === "")
      throw new Error("getTools() has a tool without a name.");
    return {
      name,
      type: "script",
      command: commandOf(file),
      description: typeof description === "string" ? description : "",
      ...(typeof displayName === "string" && { displayName }),
      ...(isRecord(parameters) && { usage: JSON.stringify({ parameters }) }),
    };
  });
}

/** Reads "## Tools" with "### name" below, and lines such as "- `query` (string, required): what to find". */
function fromSections(body: string, { file }: ScriptModule): NewSkillTool[] {
  const chapter =
    /^##\s+(?:tools|工具|commands|命令)\s*$([\s\S]*?)(?=^##\s|$(?![\s\S]))/im.exec(body)?.[1] ?? "";
  return chapter
    .split(/^###\s+/m)
    .slice(1)
    .flatMap((section) => {
      const [head = "", ...rest] = section.split("\n");
      const name = head.replaceAll("`", "").trim();
      if (!/^[\w-]+$/.test(name)) return [];
      const description = rest.join("\n").trim();
      const usage = JSON.stringify(fromParameterLines(description)) ?? "";
      return [{ name, type: "script" as const, command: commandOf(file), description, usage }];
    });
}

async function fromScripts(directory: string): Promise<NewSkillTool[]> {
  const folder = join(directory, "scripts");
  if (lstatSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) return [];
  const entries = await readdir(folder, { withFileTypes: true });
  const names = entries.flatMap((entry) => (entry.isFile() ? entry.name : []));
  const scripts = names.filter((name) => interpreters[extname(name)] !== undefined).sort();
  return scripts.map((name) => ({
    name: name.slice(0, -extname(name).length).replaceAll(/[^\w-]+/g, "_"),
    type: "script",
    command: commandOf(`scripts/${name}`),
    description: `Runs scripts/${name} of the skill. Its SKILL.md says how.`,
    usage: scriptUsage,
  }));
}

/** The `usage` of a script in the Agent Skills format, which takes command line arguments and prints text. */
const scriptUsage = JSON.stringify({
  parameters: {
    type: "object",
    properties: {
      args: { type: "array", items: { type: "string" }, description: "Arguments of the command line." },
    },
    additionalProperties: true,
  },
  argv: "args",
  output: "text",
});

function commandOf(file: string): string {
  return `${interpreters[extname(file)] ?? "node"} ${/\s/.test(file) ? `'${file}'` : file}`;
}
