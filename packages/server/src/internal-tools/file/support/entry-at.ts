import type { Stats } from "node:fs";
import { lstat } from "node:fs/promises";

/** What is at the path, links not followed; `undefined` when there is nothing. */
export async function entryAt(path: string): Promise<Stats | undefined> {
  return lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT" || error.code === "ENOTDIR") return undefined;
    throw error;
  });
}

/** What kind of thing it is, in the words of the tools. */
export function kindOf(stats: Pick<Stats, "isFile" | "isDirectory" | "isSymbolicLink">): EntryKind {
  if (stats.isSymbolicLink()) return "symlink";
  if (stats.isDirectory()) return "directory";
  return stats.isFile() ? "file" : "other";
}

export type EntryKind = "file" | "directory" | "symlink" | "other";
