import type { Stats } from "node:fs";
import { lstat, readdir } from "node:fs/promises";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { nearestNames } from "@toolrack/core/internal";
import {
  isInside,
  ownFolders,
  type PowerPlaces,
  privatePaths,
  realPathOf,
  realRoots,
} from "../access/index.ts";
import { amount } from "./tool-definition.ts";

/** The part of a workspace that limits where file tools may go. */
export type Confinement = PowerPlaces;

export interface ConfineOptions {
  /** Refuse a missing path, and suggest similar names. */
  readonly mustExist?: boolean;
  /** Do not follow a link at the end of the path: to delete or move the link itself. */
  readonly keepLink?: boolean;
}

export interface Place {
  /** Absolute and without links. Only this path was checked: never use the original one. */
  readonly real: string;
  /** The path as people see it. */
  readonly shown: string;
  /** The entry at the path, without following links; `undefined` when there is none. */
  readonly stats: Stats | undefined;
}

export type ExistingPlace = Place & { readonly stats: Stats };

/** Resolves and checks a path. Rejects like `confinePath`. */
export async function locate(workspace: Confinement, path: string, options?: ConfineOptions): Promise<Place> {
  return placeAt(workspace, await confinePath(workspace, path, options));
}

async function placeAt(workspace: Confinement, real: string): Promise<Place> {
  return { real, shown: await showPath(workspace, real), stats: await entryAt(real) };
}

/** Like `locate`, but rejects when nothing is there. */
export async function locateExisting(
  workspace: Confinement,
  path: string,
  options?: Pick<ConfineOptions, "keepLink">,
): Promise<ExistingPlace> {
  const { stats, ...place } = await locate(workspace, path, { ...options, mustExist: true });
  if (stats === undefined) throw new Error(`${place.shown} has just disappeared.`);
  return { ...place, stats };
}

/**
 * The real, absolute path of a tool's argument, with every link resolved, also for a file that does not exist yet.
 * Rejects when it lies outside the workspace's roots, or is hidden from the caller.
 */
export async function confinePath(
  workspace: Confinement,
  path: string,
  { mustExist = false, keepLink = false }: ConfineOptions = {},
): Promise<string> {
  if (path.trim() === "")
    throw new Error('The path is empty. Name a file or a folder; "." is the workspace itself.');
  if (path.includes("\0"))
    throw new Error(`The path ${JSON.stringify(path)} holds a NUL byte, which no file name can.`);
  const asked = resolve(workspace.directory, path);
  const roots = await realRoots(workspace);
  const real = await resolveAsked(asked, path, roots, keepLink);
  const root = roots.find((candidate) => isInside(candidate, real));
  if (root === undefined) throw outside(workspace, path, asked);
  const isPrivate = await privatePaths(workspace);
  if (isPrivate(real)) throw belongsToServer(path);
  if (mustExist && (await lstat(real).catch(() => undefined)) === undefined)
    throw new Error(await describeMissing(workspace, path, real, root, isPrivate));
  return real;
}

/** A confined path as people see it: with forward slashes, and relative if it lies in the workspace. */
export async function showPath(workspace: Confinement, real: string): Promise<string> {
  const home = await realPathOf(workspace.directory);
  const shown = isInside(home, real) ? relative(home, real) || "." : real;
  return shown.split(sep).join("/");
}

/** The folder and all folders above it, up to the root. */
export function foldersUpTo(folder: string, root: string): string[] {
  return folder === root || folder === dirname(folder)
    ? [folder]
    : [folder, ...foldersUpTo(dirname(folder), root)];
}

/** The entry at the path, without following links; `undefined` when there is none. */
export async function entryAt(path: string): Promise<Stats | undefined> {
  return lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT" || error.code === "ENOTDIR") return undefined;
    throw error;
  });
}

/**
 * The error for a path of the server's own files. With the token in them a tool could approve its own calls,
 * and the log shows the calls of others.
 */
export function belongsToServer(path: string): Error {
  return new Error(
    `"${path}" belongs to the server itself: tools may not touch .toolrack, and the log is for admins. Use another path.`,
  );
}

async function resolveAsked(
  asked: string,
  path: string,
  roots: readonly string[],
  keepLink: boolean,
): Promise<string> {
  const linkItself = async () => join(await realPathOf(dirname(asked)), basename(asked));
  try {
    const real = await realPathOf(asked);
    // A link to a root counts as the root.
    return keepLink && !roots.includes(real) ? await linkItself() : real;
  } catch (error) {
    const { code, message = String(error) } = error as NodeJS.ErrnoException; // The file system throws these.
    if (keepLink && code === "ELOOP") return linkItself();
    throw new Error(`"${path}" cannot be reached: ${reasons.get(code ?? "") ?? message}.`, { cause: error });
  }
}

const reasons: ReadonlyMap<string, string> = new Map([
  ["ELOOP", "its links lead in a circle"],
  ["EACCES", "the system denies access to a folder on the way"],
  ["ENAMETOOLONG", "the name is too long"],
]);

function outside(workspace: Confinement, path: string, asked: string): Error {
  const isLexicallyInside = workspace.roots.some((root) => isInside(resolve(root), asked));
  const why = isLexicallyInside ? "leads through a link out of" : "lies outside";
  return new Error(
    `"${path}" ${why} the folders that tools may touch. Allowed: ${workspace.roots.join(", ")}. ` +
      "Use a path inside one of them; an operator can allow more in the workspace's config.",
  );
}

/** Describes a missing path: where it stops existing, and which similar names there are. */
async function describeMissing(
  workspace: Confinement,
  path: string,
  real: string,
  root: string,
  isPrivate: (real: string) => boolean,
): Promise<string> {
  let missing = basename(real);
  let folder = real === root ? root : dirname(real);
  while (folder !== root && (await entryAt(folder)) === undefined) {
    missing = basename(folder);
    folder = dirname(folder);
  }
  const place = await showPath(workspace, folder);
  const shown = place === "." ? "the workspace" : `${place}/`;
  if ((await entryAt(folder))?.isDirectory() === false)
    return `There is no "${path}": ${shown} is a file, not a folder.`;
  const all = await readdir(folder).catch((): string[] => []);
  const names = all.filter((name) => !isPrivate(join(folder, name)));
  const near = nearestNames(missing, names, MOST_NAMES);
  const where = missing === basename(real) ? "" : `: no "${missing}" in ${shown}`;
  const absent = `There is no "${path}"${where}.`;
  if (near.length > 0) return `${absent} Nearest in ${shown}: ${near.join(", ")}.`;
  // These words begin a sentence: "the workspace" gets a capital letter there, a path keeps its case.
  const begun = place === "." ? "The workspace" : shown;
  if (names.length === 0) return `${absent} ${begun} is empty.`;
  return `${absent} ${begun} has ${amount(names.length, "entry", "entries")}; internal_file_list shows them.`;
}

const MOST_NAMES = 5;

/**
 * The target of a copy or move. When the destination is a folder or ends with a slash, the target is `name`
 * in that folder.
 */
export async function findDestination(
  workspace: Confinement,
  destination: string,
  name: string,
): Promise<Place> {
  const followed = await confinePath(workspace, destination);
  const isFolder = destination.endsWith("/") || (await entryAt(followed))?.isDirectory() === true;
  // A link that leads to no folder is replaced itself, not its target.
  return isFolder
    ? placeAt(workspace, join(followed, name))
    : locate(workspace, destination, { keepLink: true });
}

/** Throws when the source may not replace the destination. If both are folders, the caller decides. */
export function checkReplaceable(source: Stats, { stats, shown }: Place, overwrite: boolean): void {
  if (stats === undefined) return;
  if (!overwrite) {
    throw new Error(
      `${shown} already exists. Pass overwrite: true to replace it, or name another destination.`,
    );
  }
  if (stats.isDirectory() === source.isDirectory()) return;
  const [there, comes] = stats.isDirectory() ? ["a folder", "a file"] : ["a file", "a folder"];
  throw new Error(
    `${shown} is ${there} and cannot be replaced by ${comes}. Delete it first, or name another destination.`,
  );
}

/** Rejects when removing a place would remove a root of the workspace, or the server's own files. */
export async function refuseRoot(
  workspace: Confinement,
  { real, shown }: Place,
  verb: string,
): Promise<void> {
  const roots = await realRoots(workspace);
  const own = await ownFolders(workspace);
  const reason = roots.includes(real)
    ? "is a root of the workspace"
    : roots.some((root) => isInside(real, root))
      ? "holds a root of the workspace"
      : own.some((folder) => isInside(real, folder))
        ? "holds files of the server itself"
        : undefined;
  if (reason === undefined) return;
  throw new Error(`${shown} ${reason} and cannot be ${verb}. Name the files or folders in it instead.`);
}
