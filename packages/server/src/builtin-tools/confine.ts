import { lstat, readlink, realpath } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import type { Workspace } from "../config/workspace.ts";
import { describeMissing } from "./file/support/paths.ts";

/** The part of a workspace that says where file tools may go. */
export type Confinement = Pick<Workspace, "directory" | "roots">;

export interface ConfineOptions {
  /** Refuse a path at which there is nothing, and name what is near. */
  readonly mustExist?: boolean;
  /** Take a link at the end of the path for itself, not for what it points to: to delete or move it. */
  readonly keepLink?: boolean;
}

/** Where the server keeps its own files in a workspace. */
const ownFolder = ".toolrack";

/** As many links in a row as Linux follows. */
const MOST_LINKS = 40;

/**
 * The real, absolute path behind what a tool was given; every link in it is resolved, also for a file that does
 * not exist yet. Rejects when it lies outside the workspace's roots. Use the answer, never the path that was
 * asked for: only the answer was checked.
 */
export async function confinePath(
  workspace: Confinement,
  path: string,
  options: ConfineOptions = {},
): Promise<string> {
  checkSpelling(path);
  const asked = resolve(workspace.directory, path);
  const roots = await realRoots(workspace);
  const real = await resolveAsked(asked, path, roots, options.keepLink === true);
  if (!roots.some((root) => isInside(root, real))) throw outside(workspace, path, asked);
  await refuseOwn(workspace, path, real);
  if (options.mustExist === true && !(await exists(real))) {
    const root = roots.find((candidate) => isInside(candidate, real)) ?? real;
    throw new Error(await describeMissing(path, real, root, await showPath(workspace, dirname(real))));
  }
  return real;
}

/** A confined path as people read it: relative to the workspace where it lies in it, with forward slashes. */
export async function showPath(workspace: Confinement, real: string): Promise<string> {
  const home = await realPathOf(workspace.directory);
  const shown = isInside(home, real) ? relative(home, real) || "." : real;
  return shown.split(sep).join("/");
}

/** The roots with every link in them resolved, in the order of the config. */
export function realRoots(workspace: Confinement): Promise<string[]> {
  return Promise.all(workspace.roots.map((root) => realPathOf(root)));
}

/** Where the server keeps its own files, which tools may not touch: the folder, and what it is a link to. */
export async function ownFolders(workspace: Confinement): Promise<string[]> {
  const own = join(await realPathOf(workspace.directory), ownFolder);
  return [own, await realPathOf(own)];
}

/** Whether `path` is `directory` or lies in it. Both must be absolute and real. */
export function isInside(directory: string, path: string): boolean {
  const way = relative(directory, path);
  // A name may begin with two dots: only the segment ".." itself leads out.
  return way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}

function checkSpelling(path: string): void {
  if (path.trim() === "") {
    throw new Error('The path is empty. Name a file or a folder; "." is the workspace itself.');
  }
  if (path.includes("\0")) {
    throw new Error(`The path ${JSON.stringify(path)} holds a NUL byte, which no file name can.`);
  }
}

/** The server's token and database lie in the workspace; a tool that reads them could approve its own calls. */
async function refuseOwn(workspace: Confinement, path: string, real: string): Promise<void> {
  if (!(await ownFolders(workspace)).some((own) => isInside(own, real))) return;
  throw new Error(
    `"${path}" belongs to the server itself: tools may not touch ${ownFolder}. Use another path.`,
  );
}

async function resolveAsked(
  asked: string,
  path: string,
  roots: readonly string[],
  keepLink: boolean,
): Promise<string> {
  try {
    const real = await realPathOf(asked);
    // A root may itself be reached by a link; it still is the root.
    if (!keepLink || roots.includes(real)) return real;
    return join(await realPathOf(dirname(asked)), basename(asked));
  } catch (error) {
    if (keepLink && codeOf(error) === "ELOOP") return join(await realPathOf(dirname(asked)), basename(asked));
    throw new Error(`"${path}" cannot be reached: ${reasonOf(error)}.`, { cause: error });
  }
}

/**
 * Like `realpath`, for paths whose end does not exist yet. A link that points to nothing is followed too, or a
 * new file could be written through it to anywhere.
 */
export async function realPathOf(path: string, links = 0): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    const code = codeOf(error);
    if (code !== "ENOENT" && code !== "ENOTDIR") throw error;
  }
  const parent = await realPathOf(dirname(path), links);
  const here = join(parent, basename(path));
  const target = await readlink(here).catch(() => undefined);
  if (target === undefined) return here;
  if (links >= MOST_LINKS) throw Object.assign(new Error("too many links in a row"), { code: "ELOOP" });
  return realPathOf(resolve(parent, target), links + 1);
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

function outside(workspace: Confinement, path: string, asked: string): Error {
  const isLexicallyInside = workspace.roots.some((root) => isInside(resolve(root), asked));
  const why = isLexicallyInside ? "leads through a link out of" : "lies outside";
  return new Error(
    `"${path}" ${why} the folders that tools may touch. Allowed: ${workspace.roots.join(", ")}. ` +
      "Use a path inside one of them; an operator can allow more in the workspace's config.",
  );
}

function reasonOf(error: unknown): string {
  const code = codeOf(error);
  if (code === "ELOOP") return "its links lead in a circle";
  if (code === "EACCES") return "the system denies access to a folder on the way";
  if (code === "ENAMETOOLONG") return "the name is too long";
  return error instanceof Error ? error.message : String(error);
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException | undefined)?.code;
}
