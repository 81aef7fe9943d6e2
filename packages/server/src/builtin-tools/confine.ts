import { lstat } from "node:fs/promises";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { isInside, type PowerPlaces, privatePaths, realPathOf, realRoots } from "../access/index.ts";
import { describeMissing } from "./file/support/paths.ts";

/** The part of a workspace that says where file tools may go. */
export type Confinement = PowerPlaces;

export interface ConfineOptions {
  /** Refuse a path at which there is nothing, and name what is near. */
  readonly mustExist?: boolean;
  /** Take a link at the end of the path for itself, not for what it points to: to delete or move it. */
  readonly keepLink?: boolean;
}

/**
 * The real, absolute path behind what a tool was given; every link in it is resolved, also for a file that does
 * not exist yet. Rejects when it lies outside the workspace's roots, and when it is out of the caller's reach. Use the answer, never the path that was
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
  const isPrivate = await privatePaths(workspace);
  if (isPrivate(real)) throw belongsToServer(path);
  if (options.mustExist === true && !(await exists(real))) {
    const root = roots.find((candidate) => isInside(candidate, real)) ?? real;
    throw new Error(
      await describeMissing(path, real, root, await showPath(workspace, dirname(real)), isPrivate),
    );
  }
  return real;
}

/** A confined path as people read it: relative to the workspace where it lies in it, with forward slashes. */
export async function showPath(workspace: Confinement, real: string): Promise<string> {
  const home = await realPathOf(workspace.directory);
  const shown = isInside(home, real) ? relative(home, real) || "." : real;
  return shown.split(sep).join("/");
}

function checkSpelling(path: string): void {
  if (path.trim() === "") {
    throw new Error('The path is empty. Name a file or a folder; "." is the workspace itself.');
  }
  if (path.includes("\0")) {
    throw new Error(`The path ${JSON.stringify(path)} holds a NUL byte, which no file name can.`);
  }
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
