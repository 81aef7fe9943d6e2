import { lstat, opendir } from "node:fs/promises";
import { join } from "node:path";

/** A folder with more entries than this is taken for one that never ends. */
const mostEntries = 20_000;

/**
 * What the files of a folder hold together. Counts no further than `most`: whoever fills the folder decides how long
 * the walk would be. A part that is closed to us counts as endless, as it could hide anything.
 */
export async function folderBytes(folder: string, most: number): Promise<number> {
  const waiting = [folder];
  let bytes = 0;
  let entries = 0;
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    try {
      for await (const entry of await opendir(path)) {
        if (++entries > mostEntries || bytes > most) return Number.POSITIVE_INFINITY;
        const inner = join(path, entry.name);
        if (entry.isDirectory()) waiting.push(inner);
        else bytes += await sizeOf(inner);
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") return Number.POSITIVE_INFINITY;
    }
  }
  return bytes;
}

async function sizeOf(path: string): Promise<number> {
  try {
    // What is on the disk: a file with holes may claim any size.
    return (await lstat(path)).blocks * 512;
  } catch {
    return 0; // Removed in between.
  }
}
