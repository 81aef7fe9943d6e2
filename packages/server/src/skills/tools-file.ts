import { createHash } from "node:crypto";
import { lstatSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { extname, join } from "node:path";
import { canonicalName, isCanonicalName } from "@toolrack/core";
import type { Document } from "yaml";
import { isReservedName } from "../calls/index.ts";
import type { Sandbox } from "../sandbox/index.ts";
import {
  type NewSkillTool,
  type SkillToolType,
  type StoredSkill,
  type StoredSkillTool,
  skillToolTypes,
} from "../store/index.ts";
import { resolveCommand, type ScriptModule } from "./script-command.ts";
import { askForTools } from "./script-tool.ts";
import { fromParameterLines, takesParameterLines } from "./usage.ts";

const fields = [
  "id",
  "name",
  "displayName",
  "description",
  "type",
  "usage",
  "command",
  "endpoint",
  "method",
  "enabled",
];

/** Reads `tools.json`: `{"tools": [...]}` or the list alone. Throws with the place that is wrong. */
export function readToolsFile(text: string): NewSkillTool[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (thrown) {
    throw new Error(`tools.json is not JSON: ${thrown instanceof Error ? thrown.message : thrown}`);
  }
  const list = Array.isArray(value) ? value : (value as { tools?: unknown } | null)?.tools;
  if (!Array.isArray(list)) throw new Error('tools.json must be a list of tools, or {"tools": [...]}.');
  return list.map((entry, position) => readTool(entry, `tools[${position}]`));
}

export function writeToolsFile(tools: readonly StoredSkillTool[]): string {
  const entries = tools.map((tool) => {
    const { id, name, displayName, description, type, command, endpoint, method, enabled } = tool;
    return {
      id,
      name,
      ...(displayName === undefined ? {} : { displayName }),
      description,
      type,
      ...(tool.usage === "" ? {} : { usage: asWritten(tool.usage) }),
      ...(command === undefined ? {} : { command }),
      ...(endpoint === undefined ? {} : { endpoint }),
      ...(method === undefined ? {} : { method }),
      ...(enabled ? {} : { enabled }),
    };
  });
  return `${JSON.stringify({ tools: entries }, null, 2)}\n`;
}

/** JSON as a value, when writing it back gives the very same text; anything else stays the text that it is. */
function asWritten(usage: string): unknown {
  try {
    const value: unknown = JSON.parse(usage);
    return typeof value === "object" && JSON.stringify(value) === usage ? value : usage;
  } catch {
    return usage;
  }
}

function readTool(entry: unknown, place: string): NewSkillTool {
  if (typeof entry !== "object" || entry === null) throw new Error(`${place} must be an object.`);
  const given = entry as Record<string, unknown>;
  const unknown = Object.keys(given).find((key) => !fields.includes(key));
  if (unknown !== undefined)
    throw new Error(`${place} has an unknown field "${unknown}"; there are ${fields.join(", ")}.`);
  const { name, type, id, usage, enabled } = given;
  if (typeof name !== "string" || name.trim() === "") throw new Error(`${place}.name must be a text.`);
  if (!isToolType(type)) throw new Error(`${place}.type must be one of ${skillToolTypes.join(", ")}.`);
  if (id !== undefined && (typeof id !== "string" || !isCanonicalName(id))) {
    throw new Error(`${place}.id must be letters, digits, _ and -, at most 64.`);
  }
  return {
    ...(id === undefined ? {} : { id }),
    name,
    type,
    ...textIn(given, "displayName", place),
    ...textIn(given, "description", place),
    ...(usage === undefined ? {} : { usage: typeof usage === "string" ? usage : JSON.stringify(usage) }),
    ...textIn(given, "command", place),
    ...textIn(given, "endpoint", place),
    ...textIn(given, "method", place),
    ...(enabled === false ? { enabled } : {}),
  };
}

function textIn<Field extends string>(
  given: Record<string, unknown>,
  field: Field,
  place: string,
): { [Key in Field]?: string } {
  const value = given[field];
  if (value === undefined || value === null) return {};
  if (typeof value !== "string") throw new Error(`${place}.${field} must be a text.`);
  // The only key that it has.
  return { [field]: value } as { [Key in Field]?: string };
}

function isToolType(type: unknown): type is SkillToolType {
  return skillToolTypes.some((known) => known === type);
}

type YamlMap = Readonly<Record<string, unknown>>;

/**
 * The YAML of a map with other values. Only what differs is written anew: numbers keep their digits, texts their quotes,
 * and comments stay. Throws for what is no map, and where an alias would lose what it stands for.
 */
export async function rewriteYaml(source: string, wanted: YamlMap): Promise<string> {
  const { parseDocument, stringify } = await import("yaml");
  const known = JSON.parse(JSON.stringify(parseDocument(source).toJS({ maxAliasCount: 20 }))) as unknown;
  if (!isMap(known)) throw new Error("The YAML is no map.");
  // In this schema every scalar is the text that it is, and is written back so.
  const document = parseDocument(source, { schema: "failsafe" });
  const toNode = (value: unknown) =>
    parseDocument(stringify(value, { lineWidth: 0 }), { schema: "failsafe" }).contents;
  if (!edit(document, [], known, wanted, toNode)) return source;
  return document.toString({ lineWidth: 0 });
}

/** Whether anything had to be changed. */
function edit(
  document: Document.Parsed,
  path: readonly string[],
  old: YamlMap,
  wanted: YamlMap,
  toNode: (value: unknown) => unknown,
): boolean {
  let isChanged = false;
  for (const [key, value] of Object.entries(wanted)) {
    const before = old[key];
    if (value === undefined || JSON.stringify(before) === JSON.stringify(value)) continue;
    const own = [...path, key];
    if (isMap(before) && isMap(value)) isChanged = edit(document, own, before, value, toNode) || isChanged;
    else {
      document.setIn(own, toNode(value));
      isChanged = true;
    }
  }
  for (const key of Object.keys(old).filter((name) => wanted[name] === undefined)) {
    document.deleteIn([...path, key]);
    isChanged = true;
  }
  return isChanged;
}

function isMap(value: unknown): value is YamlMap {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const interpreters: Readonly<Record<string, string>> = {
  ".js": "node",
  ".mjs": "node",
  ".cjs": "node",
  ".ts": "node",
  ".py": "python3",
  ".sh": "sh",
};

interface Discovery {
  readonly tools: readonly NewSkillTool[];
  readonly warnings: readonly string[];
}

interface DiscoveryPlace {
  readonly name: string;
  /** Absolute. */
  readonly directory: string;
  readonly trusted: boolean;
  /** The Markdown of its `SKILL.md`. */
  readonly body: string;
}

/**
 * The tools of a skill that has no `tools.json`: what `getTools()` of its `index.js` or `index.py` says, or the
 * sections below "## Tools" of its `SKILL.md`, or else every file in `scripts/`.
 */
export async function discoverTools(
  place: DiscoveryPlace,
  sandbox: () => Promise<Sandbox>,
): Promise<Discovery> {
  const module = indexOf(place);
  if (module === undefined) return { tools: await fromScripts(place.directory), warnings: [] };
  const described = fromSections(place.body, module);
  try {
    const answer = await askForTools(place, module, await sandbox(), AbortSignal.timeout(30_000));
    return { tools: fromAnswer(answer, module), warnings: [] };
  } catch (thrown) {
    const reason = thrown instanceof Error ? thrown.message : String(thrown);
    if (described.length > 0) return { tools: described, warnings: [] };
    return {
      tools: [],
      warnings: [
        `${module.file} does not say which tools it has: ${reason} Export getTools(), or add a tools.json.`,
      ],
    };
  }
}

function indexOf(place: DiscoveryPlace): ScriptModule | undefined {
  try {
    return resolveCommand(undefined, place, place.directory).module;
  } catch {
    return undefined;
  }
}

/** `[{name, description, parameters}]`, or the same as OpenAI writes it. */
function fromAnswer(answer: unknown, { file }: ScriptModule): NewSkillTool[] {
  const list = Array.isArray(answer) ? answer : (answer as { tools?: unknown } | null)?.tools;
  if (!Array.isArray(list)) throw new Error("getTools() must answer with a list.");
  return list.map((entry) => {
    const { name, description, parameters, displayName } = unwrap(entry);
    if (typeof name !== "string" || name.trim() === "")
      throw new Error("getTools() has a tool without a name.");
    return {
      name,
      type: "script",
      command: commandOf(file),
      description: typeof description === "string" ? description : "",
      ...(typeof displayName === "string" ? { displayName } : {}),
      ...(typeof parameters === "object" && parameters !== null
        ? { usage: JSON.stringify({ parameters }) }
        : {}),
    };
  });
}

function unwrap(entry: unknown): Record<string, unknown> {
  const own = (typeof entry === "object" && entry !== null ? entry : {}) as Record<string, unknown>;
  return typeof own.function === "object" && own.function !== null
    ? (own.function as Record<string, unknown>)
    : own;
}

/** "## Tools" with "### name" below it, and lines such as "- `query` (string, required): what to search for". */
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
      const usage = takesParameterLines(description) ? JSON.stringify(fromParameterLines(description)) : "";
      return [{ name, type: "script" as const, command: commandOf(file), description, usage }];
    });
}

async function fromScripts(directory: string): Promise<NewSkillTool[]> {
  const folder = join(directory, "scripts");
  if (lstatSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) return [];
  const entries = await readdir(folder, { withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && interpreters[extname(entry.name)] !== undefined);
  return files
    .map(({ name }) => name)
    .sort()
    .map((name) => ({
      name: name.slice(0, -extname(name).length).replaceAll(/[^\w-]+/g, "_"),
      type: "script",
      command: commandOf(`scripts/${name}`),
      description: `Runs scripts/${name} of the skill. Its SKILL.md says how.`,
      usage: scriptUsage,
    }));
}

/** A script of the Agent Skills format takes arguments on its command line and prints text. */
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

/** What models call tools of skills by. */
export type ToolNames = "id" | "readable";

/** `{skill}__{tool}`: letters and digits that say what it is. */
export function readableName(prefix: string, tool: Pick<StoredSkillTool, "name">): string {
  return canonicalName(`${prefix}__${toolPart(tool.name)}`);
}

/**
 * What readable names of each skill's tools begin with, by the skill's id. Where several skills would have the same one,
 * each gets a hash of its id, so that names depend neither on the order of the skills nor on which was first. One that
 * was chosen as a mark comes before one that the name happens to give.
 */
export function namePrefixes(
  skills: Iterable<Pick<StoredSkill, "id" | "name" | "mark">>,
): Map<string, string> {
  const all = [...skills];
  const marks = countOf(all.flatMap(({ mark }) => (mark === undefined ? [] : unreserved(mark))));
  const unmarked = all.filter(({ mark }) => mark === undefined);
  const slugs = countOf(unmarked.map(({ name }) => unreserved(slugOf(name, "_"))));
  const prefixOf = ({ id, name, mark }: Pick<StoredSkill, "id" | "name" | "mark">): string => {
    const wanted = unreserved(mark ?? slugOf(name, "_"));
    const key = wanted.toLowerCase();
    const rivals = mark === undefined ? (slugs.get(key) ?? 0) + (marks.get(key) ?? 0) : (marks.get(key) ?? 0);
    return rivals > 1 ? `${wanted}_${shortHash(id)}` : wanted;
  };
  return new Map(all.map((skill) => [skill.id, prefixOf(skill)]));
}

/** A skill may be called anything; the names of its tools must not begin like the rack's own. */
function unreserved(prefix: string): string {
  return isReservedName(`${prefix}_`) ? `skill_${prefix}` : prefix;
}

function countOf(texts: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const text of texts) counts.set(text.toLowerCase(), (counts.get(text.toLowerCase()) ?? 0) + 1);
  return counts;
}

/** The form before ids: `{skillId}_{toolName}`. */
export function olderName(skill: Pick<StoredSkill, "id">, tool: Pick<StoredSkillTool, "name">): string {
  return `${skill.id}_${tool.name}`;
}

/** Lower-case letters and digits of the text, joined; a hash where it has none of them, as with Chinese names. */
export function slugOf(text: string, joint: "_" | "-"): string {
  const words = text
    .normalize("NFKD")
    .replace(/\p{M}/gu, "")
    .toLowerCase()
    .match(/[a-z0-9]+/g);
  return words === null ? `skill${joint}${shortHash(text)}` : words.join(joint);
}

/** The same for the same text on every machine. */
export function shortHash(text: string): string {
  return BigInt(`0x${createHash("sha256").update(text).digest("hex").slice(0, 32)}`)
    .toString(36)
    .slice(0, 10);
}

function toolPart(name: string): string {
  return /^[A-Za-z0-9_-]+$/.test(name)
    ? name
    : `${name.match(/[A-Za-z0-9]+/g)?.join("_") ?? "tool"}_${shortHash(name)}`;
}
