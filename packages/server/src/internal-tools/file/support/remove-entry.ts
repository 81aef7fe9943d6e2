import { readdir, rmdir, unlink } from "node:fs/promises";
import { join } from "node:path";
import { amount } from "./amount.ts";
import { entryAt } from "./entry-at.ts";

/** What has been removed so far; also true when the work was cut short. */
export interface Removed {
  files: number;
  folders: number;
}

export interface RemoveOptions {
  readonly signal: AbortSignal;
  readonly removed: Removed;
  /** Called now and then. */
  readonly onProgress?: (removed: Removed) => void;
}

const PROGRESS_EVERY = 500;

/** Removes a file, a link itself, or a folder with everything in it. What is already gone is fine. */
export async function removeEntry(path: string, options: RemoveOptions): Promise<void> {
  const { removed, signal } = options;
  signal.throwIfAborted();
  const entry = await entryAt(path);
  if (entry === undefined) return;
  if (!entry.isDirectory()) {
    await unlink(path);
    removed.files += 1;
    if (removed.files % PROGRESS_EVERY === 0) options.onProgress?.(removed);
    return;
  }
  for (const name of await readdir(path)) await removeEntry(join(path, name), options);
  await rmdir(path);
  removed.folders += 1;
}

/** `3 files and 1 folder`. */
export function countEntries({ files, folders }: Readonly<Removed>): string {
  return `${amount(files, "file")} and ${amount(folders, "folder")}`;
}
