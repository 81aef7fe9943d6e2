import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join, resolve, sep } from "node:path";
import type { Cli } from "../cli.ts";
import { CliError } from "../cli-error.ts";
import { configOf, entryAt, findWorkspace, workspaceMark } from "../find-workspace.ts";
import { type WithAppOptions, withApp } from "../with-app.ts";

/** What is opened for a check, and the path below which files are of interest. */
export interface CheckSubject {
  readonly open: WithAppOptions & { readonly directory: string };
  readonly only?: string;
}

/** Where projects that never heard of Toolrack have tool files. */
const usualPlaces = [
  "tools",
  "src/tools",
  "internal-tools",
  "src/internal-tools",
  ".opencode/tools",
  ".opencode/tool",
];
const usualNames = ["tools", "tool", "internal-tools"];

const script = /\.[mc]?[jt]sx?$/;
/** What the text of a tool file has, in whatever contract: it has to be known before anything is evaluated. */
const toolText =
  /\b(?:inputSchema|handler|getSchema)\b|\bTool\.define\b|@opencode-ai\/plugin|export const schema\b|exports\.schema\b/;

/**
 * Checking runs the top level of files, so only files that are meant to be tools are chosen. A workspace is checked
 * as one. A file or folder inside the tool folders of a workspace is checked there, because its place decides the
 * names. Of any other project the folders are taken in which tools usually are.
 */
export async function checkSubject(cli: Cli, given: string | undefined): Promise<CheckSubject> {
  if (given === undefined) return { open: { directory: findWorkspace(cli.directory) } };
  const path = resolve(given);
  const entry = entryAt(path);
  if (entry === undefined) {
    throw new CliError(`There is nothing at ${path}.`, { code: "no_workspace", details: { path } });
  }
  const isFolder = entry.isDirectory();
  if (isFolder && workspaceMark(path) !== undefined) return { open: { directory: path } };
  const folder = isFolder ? path : dirname(path);
  const workspace = workspaceAround(folder);
  if (
    workspace !== undefined &&
    (await toolFolders(cli, workspace)).some((tools) => isInside(folder, tools))
  ) {
    return { open: { directory: workspace }, only: path };
  }
  return foreignSubject(cli, path, folder);
}

/** Whether `path` is `folder` or lies in it. Both are absolute. */
export function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder + sep);
}

function foreignSubject(cli: Cli, path: string, folder: string): CheckSubject {
  const around = toolFolderAround(folder);
  if (around !== undefined) return { open: { directory: around, folders: [around] }, only: path };
  // One file that is named is the only one that runs.
  if (path !== folder) return { open: { directory: folder, folders: [path] } };
  const inside = usualPlaces
    .map((place) => join(folder, place))
    .filter((place) => entryAt(place)?.isDirectory() === true);
  if (inside.length > 0) return { open: { directory: folder, folders: inside } };
  if (usualNames.includes(basename(folder)) || hasToolFilesOnly(folder)) {
    return { open: { directory: folder, folders: [folder] } };
  }
  throw new CliError(
    `${folder} is no workspace, and there are no tools in it where tools usually are (${usualPlaces.join(", ")}). ` +
      `Checking runs the files, so name the folder of the tool files: ${cli.commandLine("check PATH/TO/TOOLS")}`,
    { code: "no_tool_folder", details: { path: folder } },
  );
}

/** The folder that tool names begin at, when the path is somewhere below it. */
function toolFolderAround(folder: string): string | undefined {
  for (let at = folder; at !== dirname(at) && !isProject(at); at = dirname(at)) {
    if (basename(at) === "internal-tools" || at.endsWith(join(sep, ".opencode", "tool"))) return at;
  }
  return undefined;
}

/** A project that somebody cloned into a tools folder is no part of the workspace around it. */
function workspaceAround(folder: string): string | undefined {
  for (let at = folder; at !== dirname(at); at = dirname(at)) {
    if (workspaceMark(at) !== undefined) return at;
    if (isProject(at)) return undefined;
  }
  return undefined;
}

function isProject(folder: string): boolean {
  return existsSync(join(folder, ".git"));
}

/** Where a workspace has its tools; its config is read for that, and no tool. */
async function toolFolders(cli: Cli, directory: string): Promise<string[]> {
  if (configOf(directory) === undefined) return [join(directory, "tools")];
  return withApp(cli, { directory, folders: [], cache: false }, async ({ config }) =>
    (config.tools ?? ["tools"]).map((folder) => resolve(directory, folder)),
  );
}

function hasToolFilesOnly(folder: string): boolean {
  const entries = readdirSync(folder, { withFileTypes: true }).filter(({ name }) => !name.startsWith("."));
  return (
    entries.length > 0 &&
    entries.every(
      (entry) =>
        entry.isFile() &&
        script.test(entry.name) &&
        toolText.test(readFileSync(join(folder, entry.name), "utf8")),
    )
  );
}
