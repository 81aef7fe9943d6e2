import type { Stats } from "node:fs";
import { lstat, readdir } from "node:fs/promises";
import { basename, dirname, join, relative, sep } from "node:path";
import { isInside, ownFolders, realRoots } from "../../../access/index.ts";
import { type Confinement, confinePath, showPath } from "../../confine.ts";
import { amount } from "./contents.ts";
import { entryAt } from "./entries.ts";

/** Where something is to be put, and what is there now. */
export interface Destination {
  readonly real: string;
  readonly shown: string;
  readonly existing: Stats | undefined;
}

/** Into a folder the entry keeps its name; a path that ends in a slash means a folder, also a new one. */
export async function findDestination(
  workspace: Confinement,
  destination: string,
  name: string,
): Promise<Destination> {
  const followed = await confinePath(workspace, destination);
  const isFolder = destination.endsWith("/") || (await entryAt(followed))?.isDirectory() === true;
  // What is no folder is replaced itself when it is a link, not what it points to.
  const real = isFolder
    ? join(followed, name)
    : await confinePath(workspace, destination, { keepLink: true });
  return { real, shown: await showPath(workspace, real), existing: await entryAt(real) };
}

/** Rejects when what is there may not be replaced by what comes. Two folders are left to the caller. */
export function checkReplaceable(source: Stats, destination: Destination, overwrite: boolean): void {
  const { existing, shown } = destination;
  if (existing === undefined) return;
  if (!overwrite) {
    throw new Error(
      `${shown} already exists. Pass overwrite: true to replace it, or name another destination.`,
    );
  }
  if (existing.isDirectory() === source.isDirectory()) return;
  const [there, comes] = existing.isDirectory() ? ["a folder", "a file"] : ["a file", "a folder"];
  throw new Error(
    `${shown} is ${there} and cannot be replaced by ${comes}. Delete it first, or name another destination.`,
  );
}

const MOST_NAMES = 5;

/**
 * What to say of a path at which there is nothing: where it stops existing, and which names there are near to
 * the one asked for. `shownParent` is how people read the folder of `real`; what is private is not named.
 */
export async function describeMissing(
  path: string,
  real: string,
  root: string,
  shownParent: string,
  isPrivate: (real: string) => boolean,
): Promise<string> {
  const { folder, missing } = await whereItStops(real, root);
  const shown = showFolder(folder, real, shownParent);
  if (await isFile(folder)) return `There is no "${path}": ${shown} is a file, not a folder.`;
  const all = await readdir(folder).catch((): string[] => []);
  const names = all.filter((name) => !isPrivate(join(folder, name)));
  const near = nearestNames(missing, names);
  const absent =
    missing === basename(real)
      ? `There is no "${path}".`
      : `There is no "${path}": no "${missing}" in ${shown}.`;
  if (near.length > 0) return `${absent} Nearest in ${shown}: ${near.join(", ")}.`;
  if (names.length === 0) return `${absent} ${capitalised(shown)} is empty.`;
  const count = amount(names.length, "entry", "entries");
  return `${absent} ${capitalised(shown)} has ${count}; internal_file_list shows them.`;
}

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

async function whereItStops(real: string, root: string): Promise<{ folder: string; missing: string }> {
  let path = real;
  while (path !== root && path !== dirname(path)) {
    const folder = dirname(path);
    if (
      await lstat(folder).then(
        () => true,
        () => false,
      )
    )
      return { folder, missing: basename(path) };
    path = folder;
  }
  return { folder: root, missing: basename(real) };
}

function showFolder(folder: string, real: string, shownParent: string): string {
  // The parent of the missing path is known by its shown name; an ancestor of it by cutting that name.
  const below = relative(folder, dirname(real)).split(sep).join("/");
  const shown = below === "" ? shownParent : shownParent.slice(0, -below.length).replace(/\/$/, "");
  return shown === "" || shown === "." ? "the workspace" : `${shown}/`;
}

/** A path keeps its spelling. */
function capitalised(shown: string): string {
  return shown === "the workspace" ? "The workspace" : shown;
}

async function isFile(path: string): Promise<boolean> {
  return lstat(path).then(
    (stats) => !stats.isDirectory(),
    () => false,
  );
}

/** Edit distance, but a name that merely has more or fewer endings counts as near. */
function distanceTo(wanted: string, name: string): number {
  if (wanted === name) return 0;
  const stem = wanted.replace(/\.[^.]*$/, "");
  if (stem.length > 2 && (name.startsWith(`${stem}.`) || name === stem)) return 1;
  if (wanted.length > 3 && name.includes(wanted)) return 2;
  if (Math.abs(wanted.length - name.length) > Math.max(2, wanted.length / 3)) return Number.POSITIVE_INFINITY;
  return editDistance(wanted, name);
}

function editDistance(from: string, to: string): number {
  let previous = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= to.length; column += 1) {
      const cost = from[row - 1] === to[column - 1] ? 0 : 1;
      current.push(
        Math.min(at(previous, column) + 1, at(current, column - 1) + 1, at(previous, column - 1) + cost),
      );
    }
    previous = current;
  }
  return at(previous, to.length);
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY;
}

/** Rejects when doing away with `real` would do away with a root of the workspace, or with the server's own files. */
export async function refuseRoot(
  workspace: Confinement,
  real: string,
  shown: string,
  verb: string,
): Promise<void> {
  const which = await reasonToRefuse(workspace, real);
  if (which === undefined) return;
  throw new Error(`${shown} ${which} and cannot be ${verb}. Name the files or folders in it instead.`);
}

async function reasonToRefuse(workspace: Confinement, real: string): Promise<string | undefined> {
  const roots = await realRoots(workspace);
  if (roots.includes(real)) return "is a root of the workspace";
  if (roots.some((root) => isInside(real, root))) return "holds a root of the workspace";
  const own = await ownFolders(workspace);
  return own.some((folder) => isInside(real, folder)) ? "holds files of the server itself" : undefined;
}
