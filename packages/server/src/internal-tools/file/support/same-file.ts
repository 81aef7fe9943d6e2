import type { Stats } from "node:fs";
import { type FileHandle, lstat, realpath } from "node:fs/promises";

/**
 * Rejects unless the opened file is the one at `real` and that path is still free of links: a folder on the way
 * may have been exchanged for a link between the check of the path and the opening.
 */
export async function checkSameFile(handle: FileHandle, real: string, shown: string): Promise<Stats> {
  const [stats, now, path] = await Promise.all([handle.stat(), lstat(real), realpath(real)]);
  if (path === real && now.dev === stats.dev && now.ino === stats.ino) return stats;
  throw new Error(`${shown} was exchanged for something else while it was being opened. Nothing was done.`);
}
