import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, extname, join, relative, resolve, sep } from "node:path";
import { defined } from "../helpers/index.ts";
import type { LoadedSkill } from "./skill.ts";
import { UsageError } from "./tool-usage.ts";

export interface ScriptCommand {
  readonly command: string;
  readonly args: readonly string[];
  /** The absolute working directory of the script. */
  readonly directory: string | undefined;
  /** Set when the command runs a file with `execute(toolName, params, context)`, which is called instead. */
  readonly module?: ScriptModule;
}

export interface ScriptModule {
  readonly language: "node" | "python";
  /** The path of the file, relative to the command's directory. */
  readonly file: string;
}

/** Tells people about a tool that is a process of its own, which is started once and then answers many calls. */
export const residentRefusal =
  "It is a resident tool: a process that lives on between calls, which Toolrack does not run for skills. Export execute(toolName, params, context) from it, and keep what must last in the data folder; or serve it as an MCP server and name it in mcp.json.";

const indexFiles = ["index.js", "index.mjs", "index.cjs", "index.ts", "index.py"];
const LARGEST_SOURCE = 10 * 1024 * 1024;

/**
 * Finds the command of a script tool. Default: the skill's `index.js` or `index.py`. A file in the command is looked
 * for in the skill's folder and, for a trusted skill, in the workspace. Throws `UsageError`.
 */
export function resolveCommand(
  command: string | undefined,
  skill: Pick<LoadedSkill, "name" | "directory" | "trusted">,
  workspace: string,
): ScriptCommand {
  const { directory, trusted } = skill;
  if (command === undefined || command.trim() === "") return indexModule(skill);
  if (command.startsWith("resident://")) throw new UsageError(residentRefusal, "command");
  if (isShellText(command)) return { command: "sh", args: ["-c", command], directory };
  const [program = "", ...args] = splitCommand(command);
  const name = program === "python" ? "python3" : program;
  const at = name.includes("/") ? -1 : args.findIndex((argument) => extname(argument) !== "");
  const file = name.includes("/") ? name : args[at];
  const place = file === undefined ? undefined : findFile(file, directory, trusted ? workspace : undefined);
  if (place === undefined) return { command: name, args, directory };
  if (at === -1) return { command: `./${place.file}`, args, directory: place.directory };
  const placed = args.with(at, place.file);
  const module = args.length === 1 ? moduleOf(name, place) : undefined;
  return { command: name, args: placed, directory: place.directory, ...defined({ module }) };
}

/** The folders inside the workspace with files that a command names. */
export function foldersNamedIn(command: string | undefined, workspace: string): string[] {
  const words = (command ?? "").split(/[\s'"]+/).filter((word) => word.includes("/"));
  const folders = words.map((word) => dirname(resolve(workspace, word)));
  return folders.filter((folder) => folder !== workspace && !leaves(workspace, folder));
}

/** The words of a command line, with quotes and backslashes as a shell reads them. Throws for a quote left open. */
export function splitCommand(text: string): string[] {
  const words: string[] = [];
  let word: string | undefined;
  let quote = "";
  for (let at = 0; at < text.length; at++) {
    const sign = text[at]!;
    if (quote !== "") {
      if (sign === quote) quote = "";
      else if (sign === "\\" && quote === '"' && /["\\$`]/.test(text[at + 1] ?? "")) word += text[++at]!;
      else word += sign;
    } else if (sign === "'" || sign === '"') {
      quote = sign;
      word ??= "";
    } else if (sign === "\\" && at + 1 < text.length) word = (word ?? "") + text[++at]!;
    else if (/\s/.test(sign)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else word = (word ?? "") + sign;
  }
  if (quote !== "") throw new UsageError(`The command has a quote ${quote} that is not closed.`, "command");
  return word === undefined ? words : [...words, word];
}

/** Whether the command has a shell operator outside quotes. */
function isShellText(command: string): boolean {
  const bare = command
    .replace(/'[^']*'/g, "")
    .replace(/"(?:\\.|[^"\\])*"/g, (quoted) => (/[$`]/.test(quoted) ? "$" : ""));
  return /[|&;<>$`*?()~]/.test(bare);
}

function indexModule({ name, directory = "" }: Pick<LoadedSkill, "name" | "directory">): ScriptCommand {
  const file = indexFiles.find((one) => directory !== "" && existsSync(join(directory, one)));
  if (file === undefined) {
    throw new UsageError(
      `A script tool needs a command, or an index.js or index.py beside the SKILL.md of "${name}".`,
      "command",
    );
  }
  const language = file.endsWith(".py") ? "python" : "node";
  const command = language === "python" ? "python3" : "node";
  return { command, args: [file], directory, module: { language, file } };
}

interface FilePlace {
  readonly file: string;
  readonly directory: string;
}

function findFile(
  file: string,
  directory: string | undefined,
  workspace: string | undefined,
): FilePlace | undefined {
  if (directory !== undefined) {
    const own = resolve(directory, file);
    if (isFile(own) && !leaves(directory, own)) return { file: relative(directory, own), directory };
  }
  if (workspace === undefined) return undefined;
  const shared = resolve(workspace, file);
  const inside = relative(workspace, shared);
  // A script at the top of the workspace would see all of it, including tokens and settings.
  const isTooHigh = !inside.includes(sep) || inside.startsWith(`.toolrack${sep}`);
  if (!isFile(shared) || leaves(workspace, shared) || isTooHigh) return undefined;
  return { file: relative(dirname(shared), shared), directory: dirname(shared) };
}

/** The file as a module if it exports `execute`. The file's text is searched for that, never evaluated. */
function moduleOf(program: string, { file, directory }: FilePlace): ScriptModule | undefined {
  const isNode = program === "node" && /\.[cm]?[jt]s$/.test(file);
  const isPython = /^python3?(?:\.\d+)?$/.test(program) && file.endsWith(".py");
  const path = join(directory, file);
  if (!(isNode || isPython) || statSync(path).size > LARGEST_SOURCE) return undefined;
  const pattern = isNode ? exportsExecute : /^(?:async\s+)?def\s+execute\s*\(/m;
  return pattern.test(readFileSync(path, "utf8"))
    ? { language: isNode ? "node" : "python", file }
    : undefined;
}

const exportsExecute =
  /\bexports\.execute\b|\bmodule\.exports\s*=\s*\{[\s\S]*?\bexecute\b|\bexport\s+(?:async\s+)?function\s+execute\b|\bexport\s+(?:const|let|var)\s+execute\b|\bexport\s*\{[^}]*\bexecute\b|\bexport\s+default\s*\{[\s\S]*?\bexecute\b/;

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

function leaves(directory: string, path: string): boolean {
  return relative(directory, path).startsWith("..");
}
