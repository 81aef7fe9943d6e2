import { readdirSync, readFileSync, type Stats, statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { delimiter, dirname, join, resolve } from "node:path";
import { isInside } from "../../../access/index.ts";
import { isRecord } from "../../../helpers/index.ts";
import { packageSpec, type ServerEntry } from "../config/entry.ts";
import { ConfigurationError } from "../failures.ts";

/** Installs npm packages. */
export interface PackageStore {
  /** Resolves to the folder whose `node_modules` holds the packages. */
  install(
    dependencies: Readonly<Record<string, string>>,
    label: string,
    signal?: AbortSignal,
  ): Promise<string>;
}

/**
 * The file of a program in the package `name@version`, for Node to run. Installs the package if it is missing. `program`
 * chooses one when the package has several. Throws a `ConfigurationError` when the entry must be changed.
 */
export async function installedProgram(
  packages: PackageStore,
  spec: string,
  label: string,
  program?: string,
  signal?: AbortSignal,
): Promise<string> {
  const { name, version } = packageSpec(spec);
  const modules = await packages.install({ [name]: version }, label, signal);
  const folder = join(modules, "node_modules", name);
  const description: unknown = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  const bin = isRecord(description) ? description.bin : undefined;
  const last = name.split("/").at(-1) ?? name;
  const programs = typeof bin === "string" ? { [last]: bin } : isRecord(bin) ? bin : {};
  const names = Object.keys(programs);
  const file = programs[program ?? (names.length === 1 ? names[0] : undefined) ?? last];
  if (typeof file === "string") return join(folder, file);
  throw new ConfigurationError(
    names.length === 0
      ? `The package ${name} has no program to run. Is it an MCP server?`
      : `The package ${name} has several programs: ${names.join(", ")}. Say which as "command".`,
  );
}

/** Files with these endings are code, others are data. */
const code = /\.([cm]?[jt]sx?|pyw?|rb|sh|bash|zsh|pl|php|lua|jar|ps1|cmd|bat|wasm)$/i;
/** A folder with one of these files can be started as a program. */
const start = /^(package\.json|index\.[cm]?[jt]s|__main__\.py|pyproject\.toml|deno\.jsonc?)$/i;
/** How many files are searched for imports. */
const MOST_FILES = 300;
const MOST_BYTES = 1024 * 1024;

/**
 * The files that a server's process runs or reads when it starts, as far as its entry and the imports in its files show.
 * For a program in a folder of its own, that is the whole folder. For a program in the workspace's main folder, it is
 * only the files that it imports, because that folder also holds other files.
 */
export function filesOfServer(entry: ServerEntry, directory: string): string[] {
  const expandFolder = (text: string) => text.replaceAll(/\$\{workspaceFolder\}/g, directory);
  const { command, args = [], env = {}, envFile, cwd } = entry;
  const at = resolve(directory, expandFolder(cwd ?? "."));
  const paths = Object.values(env).flatMap((value) => String(value).split(delimiter));
  // Split at `=`, because `--import=./hook.mjs` names a file too.
  const words = [command, envFile, ...args, ...paths]
    .filter((word) => word !== undefined)
    .flatMap((word) => [word, ...word.split(/[=\s]/)])
    .filter((word) => word !== "");
  const used = new Set<string>();
  const addFolder = (folder: string) => {
    if (!isInside(folder, directory)) used.add(folder);
  };
  if (cwd !== undefined) addFolder(at);
  if (entry.api !== undefined) {
    const { spec, documents } = entry.api;
    if (!/^https?:/i.test(spec)) {
      const path = resolve(directory, expandFolder(spec));
      used.add(path);
      // A description may refer to other files of its folder.
      addFolder(dirname(path));
    }
    if (documents !== undefined) addFolder(resolve(directory, expandFolder(documents)));
    return [...used];
  }
  const scripts: string[] = [];
  for (const path of words.map((word) => resolve(at, expandFolder(word)))) {
    const found = statOf(path);
    if (found?.isFile() === true) {
      used.add(path);
      if (!code.test(path) && path !== resolve(at, expandFolder(command ?? ""))) continue;
      scripts.push(path);
      if (isInside(directory, path)) addFolder(dirname(path));
    } else if (found?.isDirectory() === true && namesIn(path).some((name) => start.test(name)))
      addFolder(path);
  }
  // `python -m NAME` looks for the module in the folder that it is started in.
  args.forEach((word, index) => {
    const module = args[index - 1] === "-m" ? word.split(".") : [];
    if (module[0] === undefined || !/^\w+$/.test(module[0])) return;
    used.add(resolve(at, module[0]));
    scripts.push(`${resolve(at, ...module)}.py`);
  });
  followImports(scripts, used);
  return [...used];
}

/**
 * Adds to `used` every path that the scripts import, directly or through other files, whether the path exists or not.
 */
function followImports(scripts: readonly string[], used: Set<string>): void {
  const waiting = scripts.map((path) => ({ path, root: dirname(path) }));
  const read = new Set<string>();
  for (let next = waiting.pop(); next !== undefined && read.size < MOST_FILES; next = waiting.pop()) {
    const { path, root } = next;
    const found = read.has(path) || !code.test(path) ? undefined : statOf(path);
    if (found?.isFile() !== true || found.size > MOST_BYTES) continue;
    read.add(path);
    const text = readFileSync(path, "utf8");
    const imported = path.endsWith(".py") ? pythonImports(text, path, root) : imports(text, path);
    for (const { place, files } of imported) {
      used.add(place);
      waiting.push(...files.map((file) => ({ path: file, root })));
    }
  }
}

interface Import {
  readonly place: string;
  /** The files that the import may mean. */
  readonly files: readonly string[];
}

const endings = ["", ".js", ".mjs", ".cjs", ".ts", "/index.js", "/index.ts"];

function imports(text: string, from: string): Import[] {
  const found = text.matchAll(/\b(?:from|import|require)\s*\(?\s*["'`](\.{1,2}\/[^"'`\n]+)["'`]/g);
  return Array.from(found, ([, name = ""]) => {
    const place = resolve(dirname(from), name);
    return { place, files: [...endings.map((end) => place + end), place.replace(/\.([cm]?)js$/, ".$1ts")] };
  });
}

/** Python looks beside the program first, even for its own modules: a file `json.py` there replaces the built-in one. */
function pythonImports(text: string, from: string, root: string): Import[] {
  const found = text.matchAll(/^[ \t]*(?:from|import)[ \t]+([.\w]+(?:[ \t]*,[ \t]*[.\w]+)*)/gm);
  const names = [...found].flatMap(([, list = ""]) => list.split(/[ \t]*,[ \t]*/));
  return names.flatMap((name) => {
    const [dots = ""] = /^\.*/.exec(name) ?? [];
    const parts = name.slice(dots.length).split(".").filter(Boolean);
    const above = Array<string>(Math.max(0, dots.length - 1)).fill("..");
    const folder = dots === "" ? root : resolve(dirname(from), ...above);
    if (parts[0] === undefined) return [];
    const whole = resolve(folder, ...parts);
    return [{ place: resolve(folder, parts[0]), files: [`${whole}.py`, resolve(whole, "__init__.py")] }];
  });
}

function statOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined; // An argument need not be a path at all.
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
