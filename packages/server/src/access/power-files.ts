import type { Stats } from "node:fs";
import { readdir, readlink, stat } from "node:fs/promises";
import { dirname, extname, join, relative, resolve, sep } from "node:path";
import type { Workspace } from "../config/index.ts";
import { foldPath, isInside, realPathOf, waysTo } from "./real-path.ts";

/**
 * The part of a workspace that says which files give power. Whoever writes a file that gives power decides
 * what the server, or another program on the machine, runs or trusts.
 */
export type PowerPlaces = Pick<
  Workspace,
  "directory" | "roots" | "toolFolders" | "skillFolders" | "mcpFile" | "logFile" | "usedFiles" | "isAdmin"
>;

/**
 * The one list of files that give power by their name, wherever they lie below a root. Names are matched in
 * lower case. `placesOf` below lists the files that give power by their place.
 */
const namedFiles: readonly { readonly name: RegExp; readonly why: string }[] = [
  { name: /^\.toolrack$/, why: "It belongs to the server itself." },
  { name: /^toolrack\.config\./, why: "It is a config of Toolrack, which runs as code." },
  { name: /^\.env/, why: "It sets environment variables." },
  {
    name: /^(node_modules|\.yarn|\.pnp\..*|package(-lock)?\.json|npm-shrinkwrap\.json|pnpm-(lock|workspace)\.ya?ml|yarn\.lock|bun\.lockb?|bunfig\.toml|\.npmrc|\.yarnrc(\.yml)?|\.pnpmfile\.[cm]?js)$/,
    why: "It decides which packages are installed and run.",
  },
  {
    name: /^(\.?venv|site-packages|__pycache__|pyproject\.toml|setup\.(py|cfg)|uv\.(toml|lock)|poetry\.lock|pipfile(\.lock)?|requirements[^/]*\.txt|deno\.(jsonc?|lock))$/,
    why: "It decides which packages are installed and run.",
  },
  { name: /^[jt]sconfig(\..*)?\.json$/, why: "It decides which files the imports of tools mean." },
  { name: /^(\.git|\.gitmodules|\.gitconfig|\.husky)$/, why: "Git runs commands that it names." },
  {
    name: /^(\.?biome\.jsonc?|\.?dprint\.jsonc?|\.prettierrc(\..*)?|prettier\.config\..*)$/,
    why: "It configures a formatter, which runs code that it names.",
  },
  {
    name: /^(\.vscode|\.idea|\.zed|\.cursor|\.windsurf|\.kiro|\.claude|\.gemini|\.codex|\.opencode|opencode\.jsonc?|\.devcontainer|\.mcp\.json)$/,
    why: "Editors and agents run commands that it names.",
  },
  {
    name: /^(\.github|\.gitlab-ci\.yml|\.circleci)$/,
    why: "The project's host runs commands that it names.",
  },
  { name: /\.calls\.ya?ml$/, why: "It holds calls that the operator runs." },
];

/** A file or folder that gives power by its place: the server itself, the config or a tool uses it. */
interface Place {
  /** Absolute paths: every link on the way to the place, and the place where the links end. */
  readonly ways: readonly string[];
  readonly why: string;
  /**
   * Whether files beside the place count too whose names are its name and a further ending, such as
   * `ToolBox.log.1`.
   */
  readonly hasTail?: boolean;
}

export interface PowerOptions {
  /**
   * Whether a folder that holds a file that gives power counts too, because the file is moved or removed with
   * the folder. Default true.
   */
  readonly above?: boolean;
}

/**
 * Returns a function that says, in a sentence for people, why a file or folder at a path gives power;
 * undefined when it gives none. The places are read once, when `powerCheck` is called.
 */
export async function powerCheck(
  workspace: PowerPlaces,
): Promise<(real: string, options?: PowerOptions) => string | undefined> {
  const roots = await realRoots(workspace);
  const places = (await placesOf(workspace)).map(({ ways, ...place }) => ({
    ...place,
    ways: ways.map(foldPath),
  }));
  return (real, { above = true } = {}) => {
    const byName = powerOfName(roots, real);
    if (byName !== undefined) return byName;
    const path = foldPath(real);
    for (const { ways, why, hasTail } of places) {
      for (const way of ways) {
        if (isInside(way, path) || (hasTail === true && path.startsWith(`${way}.`))) return why;
        if (above && isInside(path, way)) return `It holds what gives power. ${why}`;
      }
    }
    return undefined;
  };
}

/**
 * The first file or folder found below `folder` that gives power by its name, as a path relative to `folder`.
 */
export async function namedPowerBelow(
  workspace: PowerPlaces,
  folder: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const roots = await realRoots(workspace);
  const waiting = [folder];
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    signal.throwIfAborted();
    for (const entry of await readdir(at, { withFileTypes: true }).catch(() => [])) {
      const path = join(at, entry.name);
      if (powerOfName(roots, path) !== undefined) return relative(folder, path);
      if (entry.isDirectory()) waiting.push(path);
    }
  }
  return undefined;
}

/** The roots of a workspace with every link in them resolved, in the order of the config. */
export function realRoots({ roots }: Pick<Workspace, "roots">): Promise<string[]> {
  return Promise.all(roots.map((root) => realPathOf(root)));
}

function powerOfName(roots: readonly string[], real: string): string | undefined {
  // Only names below a root are checked, because the caller cannot choose those above. When roots lie inside
  // each other, the innermost one counts.
  const ways = roots.filter((root) => isInside(root, real)).map((root) => foldPath(relative(root, real)));
  const names = ways.sort((one, other) => one.length - other.length)[0]?.split(sep) ?? [];
  return namedFiles.find(({ name }) => names.some((part) => name.test(part)))?.why;
}

async function placesOf(workspace: PowerPlaces): Promise<Place[]> {
  const { directory, toolFolders = [], skillFolders = [], mcpFile, logFile, usedFiles } = workspace;
  const used = (await usedFiles?.()) ?? [];
  const home = await realPathOf(directory);
  const listed: readonly (Omit<Place, "ways"> & { readonly path: string })[] = [
    ...toolFolders.map((path) => ({ path, why: "What lies there runs as a tool." })),
    { path: ".toolrack", why: "It belongs to the server itself." },
    ...(await skillPlaces(skillFolders)).map((path) => ({ path, why: "What lies there becomes a skill." })),
    { path: mcpFile ?? "mcp.json", why: "It names MCP servers, which the server starts." },
    { path: "apis.json", why: "It names APIs, which the server calls with its secrets." },
    { path: "graphql", why: "What lies there becomes a tool." },
    { path: "json/scheduled_tasks.json", why: "It holds schedules, which the server takes over." },
    ...(await linkedPackages(join(home, "node_modules"))).map((path) => ({ path, why: USED })),
    ...(logFile === undefined ? [] : [{ path: logFile, why: LOG, hasTail: true }]),
    ...used
      .flatMap(filesMeantBy)
      .filter((path) => !isInside(path, directory) && !isInside(path, home))
      .map((path) => ({ path, why: USED, hasTail: true })),
  ];
  return Promise.all(
    listed.map(async ({ path, ...place }) => ({ ...place, ways: await waysTo(resolve(directory, path)) })),
  );
}

/** The folders of skills, and the links in them: a linked skill lies elsewhere. */
export async function skillPlaces(folders: readonly string[] = []): Promise<string[]> {
  const places = [...folders];
  for (const folder of folders) {
    const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
    places.push(...entries.filter((entry) => entry.isSymbolicLink()).map(({ name }) => join(folder, name)));
  }
  return places;
}

/** Packages that lie outside `node_modules` and are linked into it, as npm does for the project's own packages. */
async function linkedPackages(modules: string): Promise<string[]> {
  const linked: string[] = [];
  for (const entry of await readdir(modules, { withFileTypes: true }).catch(() => [])) {
    const path = join(modules, entry.name);
    if (entry.isDirectory() && entry.name.startsWith("@")) linked.push(...(await linkedPackages(path)));
    if (!entry.isSymbolicLink()) continue;
    const target = resolve(modules, await readlink(path).catch(() => ""));
    if (!target.split(sep).includes("node_modules")) linked.push(path);
  }
  return linked;
}

const LOG = "It is the log of all calls.";
const USED = "A tool, a skill, an MCP server or the config runs it.";

/**
 * The paths to protect for a file in use. An import of `x.js` or `x/index.js` may find `x.ts`, so any file
 * with the same stem can take the file's place. For an index file, its folder is protected too; `placesOf`
 * leaves that folder out when the workspace lies in it.
 */
function filesMeantBy(path: string): string[] {
  const stem = path.slice(0, path.length - extname(path).length);
  return /[\\/]index$/.test(stem) ? [path, stem, dirname(path)] : [path, stem];
}

/**
 * Returns a function that tells whether a real path is hidden from the caller, even its name. `.toolrack`,
 * which holds the token and the store, is hidden from everybody. The log, and the `.toolrack` folders of
 * other workspaces below this one, are hidden from callers without an admin grant.
 */
export async function privatePaths(workspace: PowerPlaces): Promise<(real: string) => boolean> {
  const { logFile, isAdmin } = workspace;
  const own = (await ownFolders(workspace)).map(foldPath);
  const log = logFile === undefined || isAdmin === true ? [] : (await waysTo(logFile)).map(foldPath);
  const roots = (await realRoots(workspace)).map(foldPath);
  return (real) => {
    const path = foldPath(real);
    if (own.some((folder) => isInside(folder, path))) return true;
    if (log.some((file) => path === file || path.startsWith(`${file}.`))) return true;
    if (isAdmin === true) return false;
    return roots.some(
      (root) => isInside(root, path) && relative(root, path).split(sep).includes(".toolrack"),
    );
  };
}

/** The folder of the server's own files, which tools may not touch, and the place that it links to. */
export async function ownFolders({ directory }: Pick<Workspace, "directory">): Promise<string[]> {
  const own = join(await realPathOf(directory), ".toolrack");
  return [own, ...(await waysTo(own))];
}

/** Whether a file with several hard links is one of the hidden files under another name. */
export async function isLinkToPrivate(workspace: PowerPlaces, { nlink, ino, dev }: Stats): Promise<boolean> {
  if (nlink < 2) return false;
  const isPrivate = await privatePaths(workspace);
  const { directory, logFile } = workspace;
  for (const folder of [join(directory, ".toolrack"), ...(logFile === undefined ? [] : [dirname(logFile)])]) {
    const real = await realPathOf(folder);
    for (const name of await readdir(real).catch(() => [])) {
      if (!isPrivate(join(real, name))) continue;
      const found = await stat(join(real, name)).catch(() => undefined);
      if (found?.ino === ino && found.dev === dev) return true;
    }
  }
  return false;
}
