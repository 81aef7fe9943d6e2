import type { Stats } from "node:fs";
import { join } from "node:path";
import { type Confinement, confinePath, showPath } from "../../confine.ts";
import { entryAt } from "./entry-at.ts";

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
