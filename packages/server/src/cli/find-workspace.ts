import { readdirSync, type Stats, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { CliError } from "./cli-error.ts";

const configFile = /^toolrack\.config\.(?:ts|mts|js|mjs|cjs)$/;

/**
 * The workspace to open: the one that was named, or else the nearest folder upwards that looks like one, or else
 * the current folder.
 */
export function findWorkspace(named: string | undefined, current = process.cwd()): string {
  if (named !== undefined) return existingFolder(resolve(current, named));
  for (let folder = current; ; folder = dirname(folder)) {
    const mark = workspaceMark(folder);
    if (mark !== undefined) return folder === current ? folder : trusted(folder, mark);
    if (folder === dirname(folder)) return current;
  }
}

/** The config file or the tools folder that makes the folder a workspace. */
export function workspaceMark(folder: string): string | undefined {
  const config = configOf(folder);
  if (config !== undefined) return config;
  const tools = join(folder, "tools");
  return entryAt(tools)?.isDirectory() === true ? tools : undefined;
}

export function configOf(folder: string): string | undefined {
  try {
    const name = readdirSync(folder).find((candidate) => configFile.test(candidate));
    return name === undefined ? undefined : join(folder, name);
  } catch {
    return undefined;
  }
}

export function existingFolder(path: string): string {
  const entry = entryAt(path);
  if (entry?.isDirectory() === true) return path;
  const problem = entry === undefined ? "There is no folder" : "This is not a folder:";
  throw new CliError(`${problem} ${path}. Name the workspace with --dir, or create it first.`, {
    code: "no_workspace",
    details: { path },
  });
}

export function entryAt(path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false });
}

/**
 * Opening a workspace runs its code. One that was merely come upon on the way up, in /tmp for instance, may have
 * been put there by somebody else.
 */
function trusted(folder: string, mark: string): string {
  const owner = entryAt(mark)?.uid;
  if (owner === 0 || process.getuid === undefined || owner === process.getuid()) return folder;
  throw new CliError(
    `${mark} belongs to another user, so its tools are not loaded unasked. Name the workspace: --dir ${folder}`,
    { code: "foreign_workspace", details: { path: mark } },
  );
}
