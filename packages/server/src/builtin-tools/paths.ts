import type { Stats } from "node:fs";
import { lstat, readdir } from "node:fs/promises";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import {
  isInside,
  ownFolders,
  type PowerPlaces,
  privatePaths,
  realPathOf,
  realRoots,
} from "../access/index.ts";
import { amount } from "./define.ts";

/** The part of a workspace that says where file tools may go. */
export type Confinement = PowerPlaces;

export interface ConfineOptions {
  /** Refuse a path at which there is nothing, and name what is near. */
  readonly mustExist?: boolean;
  /** Take a link at the end of the path for itself, not for what it points to: to delete or move it. */
  readonly keepLink?: boolean;
}

/** A path that a tool was given, checked. */
export interface Place {
  /** Absolute and without links. Only this was checked: use it, never the path that was asked for. */
  readonly real: string;
  /** As people read it. */
  readonly shown: string;
  /** What is there now, links not followed. */
  readonly stats: Stats | undefined;
}

export interface ExistingPlace extends Place {
  readonly stats: Stats;
}

/** Where a path of a tool leads. Rejects like `confinePath`. */
export async function locate(workspace: Confinement, path: string, options?: ConfineOptions): Promise<Place> {
  const real = await confinePath(workspace, path, options);
  return { real, shown: await showPath(workspace, real), stats: await entryAt(real) };
}

/** The same for something that must be there. */
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
 * The real, absolute path behind what a tool was given; every link in it is resolved, also for a file that does
 * not exist yet. Rejects when it lies outside the workspace's roots, and when it is out of the caller's reach.
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

/** A confined path as people read it: relative to the workspace where it lies in it, with forward slashes. */
export async function showPath(workspace: Confinement, real: string): Promise<string> {
  const home = await realPathOf(workspace.directory);
  const shown = isInside(home, real) ? relative(home, real) || "." : real;
  return shown.split(sep).join("/");
}

/** What is at the path, links not followed; `undefined` when there is nothing. */
export async function entryAt(path: string): Promise<Stats | undefined> {
  return lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT" || error.code === "ENOTDIR") return undefined;
    throw error;
  });
}

/** A tool that reads the server's token could approve its own calls, and the log holds what others called. */
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
  const itself = async () => join(await realPathOf(dirname(asked)), basename(asked));
  try {
    const real = await realPathOf(asked);
    // A root may itself be reached by a link; it still is the root.
    return keepLink && !roots.includes(real) ? await itself() : real;
  } catch (error) {
    const { code, message = String(error) } = error as NodeJS.ErrnoException; // What the file system says.
    if (keepLink && code === "ELOOP") return itself();
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

/** What to say of a path at which there is nothing: where it stops existing, and which names there are near to the one asked for. */
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
  const near = nearestNames(missing, names);
  const where = missing === basename(real) ? "" : `: no "${missing}" in ${shown}`;
  const absent = `There is no "${path}"${where}.`;
  if (near.length > 0) return `${absent} Nearest in ${shown}: ${near.join(", ")}.`;
  // A path keeps its spelling.
  const begun = place === "." ? "The workspace" : shown;
  if (names.length === 0) return `${absent} ${begun} is empty.`;
  return `${absent} ${begun} has ${amount(names.length, "entry", "entries")}; internal_file_list shows them.`;
}

const MOST_NAMES = 5;

/** The names most like `wanted`, best first; none when nothing is near. */
function nearestNames(wanted: string, names: readonly string[]): string[] {
  const target = wanted.toLowerCase();
  return names
    .map((name) => ({ name, distance: distanceTo(target, name.toLowerCase()) }))
    .filter(({ distance }) => distance <= Math.max(2, target.length / 3))
    .sort((a, b) => a.distance - b.distance || (a.name < b.name ? -1 : 1))
    .slice(0, MOST_NAMES)
    .map(({ name }) => name);
}

/** Edit distance, but a name that merely has more or fewer endings counts as near. */
function distanceTo(wanted: string, name: string): number {
  if (wanted === name) return 0;
  const stem = wanted.replace(/\.[^.]*$/, "");
  if (stem.length > 2 && (name.startsWith(`${stem}.`) || name === stem)) return 1;
  if (wanted.length > 3 && name.includes(wanted)) return 2;
  if (Math.abs(wanted.length - name.length) > Math.max(2, wanted.length / 3)) return Number.POSITIVE_INFINITY;
  // Each row holds the distances of one more letter of `wanted` to every beginning of `name`.
  let row = Array.from({ length: name.length + 1 }, (_, length) => length);
  for (const [index, letter] of [...wanted].entries()) {
    const next = [index + 1];
    for (const [at, other] of [...name].entries())
      next.push(Math.min(row[at + 1]! + 1, next[at]! + 1, row[at]! + (letter === other ? 0 : 1)));
    row = next;
  }
  return row.at(-1)!;
}

/** Into a folder the entry keeps its name; a path that ends in a slash means a folder, also a new one. */
export async function findDestination(
  workspace: Confinement,
  destination: string,
  name: string,
): Promise<Place> {
  const followed = await confinePath(workspace, destination);
  const isFolder = destination.endsWith("/") || (await entryAt(followed))?.isDirectory() === true;
  // What is no folder is replaced itself when it is a link, not what it points to.
  const real = isFolder
    ? join(followed, name)
    : await confinePath(workspace, destination, { keepLink: true });
  return { real, shown: await showPath(workspace, real), stats: await entryAt(real) };
}

/** Rejects when what is there may not be replaced by what comes. Two folders are left to the caller. */
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

/** Rejects when doing away with a place would do away with a root of the workspace, or with the server's own files. */
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
