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
 * The file that Node runs for the program of `name@version`, which is installed first where it is not there yet.
 * `program` names one of the package's programs where it has several. Throws a `ConfigurationError` that says what to do
 * where only another entry can help.
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

/** Files that a program is started with are its code when they are called so; others are data. */
const code = /\.([cm]?[jt]sx?|pyw?|rb|sh|bash|zsh|pl|php|lua|jar|ps1|cmd|bat|wasm)$/i;
/** A folder with one of these can be started as a whole. */
const start = /^(package\.json|index\.[cm]?[jt]s|__main__\.py|pyproject\.toml|deno\.jsonc?)$/i;
/** No server has more files of its own that are worth reading. */
const MOST_FILES = 300;
const MOST_BYTES = 1024 * 1024;

/**
 * What the process of a server runs or reads when it is started, as far as its entry and the imports in its files tell.
 * A program in a folder of its own has the whole folder. One that lies in the workspace's own folder has only the
 * files that it imports by name, because the folder holds everybody's files.
 */
export function filesOfServer(entry: ServerEntry, directory: string): string[] {
  const place = (text: string) => text.replaceAll(/\$\{workspaceFolder\}/g, directory);
  const { command, args = [], env = {}, envFile, cwd } = entry;
  const at = resolve(directory, place(cwd ?? "."));
  const paths = Object.values(env).flatMap((value) => String(value).split(delimiter));
  // `--import=./hook.mjs` names a file as well.
  const words = [command, envFile, ...args, ...paths]
    .filter((word) => word !== undefined)
    .flatMap((word) => [word, ...word.split(/[=\s]/)])
    .filter((word) => word !== "");
  const used = new Set<string>();
  const addFolder = (folder: string) => {
    if (!isInside(folder, directory)) used.add(folder);
  };
  if (cwd !== undefined) addFolder(at);
  const scripts: string[] = [];
  for (const path of words.map((word) => resolve(at, place(word)))) {
    const found = statOf(path);
    if (found?.isFile() === true) {
      used.add(path);
      if (!code.test(path) && path !== resolve(at, place(command ?? ""))) continue;
      scripts.push(path);
      if (isInside(directory, path)) addFolder(dirname(path));
    } else if (found?.isDirectory() === true && namesIn(path).some((name) => start.test(name)))
      addFolder(path);
  }
  // `python -m NAME` finds the module in the folder that it is started in.
  args.forEach((word, index) => {
    const module = args[index - 1] === "-m" ? word.split(".") : [];
    if (module[0] === undefined || !/^\w+$/.test(module[0])) return;
    used.add(resolve(at, module[0]));
    scripts.push(`${resolve(at, ...module)}.py`);
  });
  followImports(scripts, used);
  return [...used];
}

/** Adds every place that the files import, whether something is there or not. */
function followImports(scripts: readonly string[], used: Set<string>): void {
  const waiting = scripts.map((path) => ({ path, root: dirname(path) }));
  const read = new Set<string>();
  for (let next = waiting.pop(); next !== undefined && read.size < MOST_FILES; next = waiting.pop()) {
    const { path, root } = next;
    if (read.has(path) || !code.test(path)) continue;
    const found = statOf(path);
    if (found?.isFile() !== true || found.size > MOST_BYTES) continue;
    read.add(path);
    const text = readFileSync(path, "utf8");
    for (const { place, files } of path.endsWith(".py")
      ? pythonImports(text, path, root)
      : imports(text, path)) {
      used.add(place);
      waiting.push(...files.map((file) => ({ path: file, root })));
    }
  }
}

interface Import {
  readonly place: string;
  /** What it may mean. */
  readonly files: readonly string[];
}

function imports(text: string, from: string): Import[] {
  return [...text.matchAll(/\b(?:from|import|require)\s*\(?\s*["'`](\.{1,2}\/[^"'`\n]+)["'`]/g)].map(
    ([, name = ""]) => {
      const place = resolve(dirname(from), name);
      const ends = ["", ".js", ".mjs", ".cjs", ".ts", "/index.js", "/index.ts"];
      return { place, files: [...ends.map((end) => place + end), place.replace(/\.([cm]?)js$/, ".$1ts")] };
    },
  );
}

/** Python looks beside the program first, also for what it has itself: a file `json.py` there takes the place of its own. */
function pythonImports(text: string, from: string, root: string): Import[] {
  return [...text.matchAll(/^[ \t]*(?:from|import)[ \t]+([.\w]+(?:[ \t]*,[ \t]*[.\w]+)*)/gm)]
    .flatMap(([, names = ""]) => names.split(/[ \t]*,[ \t]*/))
    .flatMap((name) => {
      const dots = /^\.*/.exec(name)![0].length;
      const parts = name.slice(dots).split(".").filter(Boolean);
      const folder = dots === 0 ? root : resolve(dirname(from), ...Array<string>(dots - 1).fill(".."));
      const [first] = parts;
      if (first === undefined) return [];
      const whole = resolve(folder, ...parts);
      return [{ place: resolve(folder, first), files: [`${whole}.py`, resolve(whole, "__init__.py")] }];
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
