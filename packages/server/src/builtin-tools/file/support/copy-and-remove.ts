import { randomUUID } from "node:crypto";
import { constants, type Stats } from "node:fs";
import * as fs from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { copyModeAndOwner } from "../../../helpers/index.ts";
import { type Confinement, entryAt, showPath } from "../../paths.ts";
import { amount } from "../../tool-definition.ts";

export type EntryKind = "file" | "directory" | "symlink" | "other";

export function kindOf(stats: Pick<Stats, "isFile" | "isDirectory" | "isSymbolicLink">): EntryKind {
  if (stats.isSymbolicLink()) return "symlink";
  if (stats.isDirectory()) return "directory";
  return stats.isFile() ? "file" : "other";
}

/** How many entries were copied or removed, also when the work was cut short. */
export interface EntryCount {
  files: number;
  folders: number;
}

/** `3 files and 1 folder`. */
export function countEntries({ files, folders }: Readonly<EntryCount>): string {
  return `${amount(files, "file")} and ${amount(folders, "folder")}`;
}

export interface CopyOptions {
  readonly signal: AbortSignal;
  /** Replace existing files; folders are merged. */
  readonly overwrite: boolean;
  /** Keep exact modes, owners and times, as a move must. */
  readonly preserve: boolean;
  /** Returns why an entry is left out; `undefined` when it is copied. */
  readonly leaveOut: (source: string, target: string, stats: Stats) => Promise<string | undefined>;
  readonly onProgress: (files: number, total: undefined, message: string) => void;
}

export const OWN = "it belongs to the server itself";

const PIECE_BYTES = 1024 * 1024;
const PROGRESS_EVERY = 200;
/**
 * Flags to open a file for reading. They do not block on a pipe without a writer, and do not follow a link
 * that was put there after the check.
 */
export const carefulRead = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** Copies a file, a link or a whole folder. Never follows links. Returns also what was left out, and why. */
export async function copyEntry(source: string, target: string, options: CopyOptions) {
  const { signal, overwrite, leaveOut, onProgress } = options;
  const skipped: { path: string; reason: string }[] = [];
  const copied = { files: 0, folders: 0, bytes: 0, skipped };
  /** Copies one entry with everything in it. `path` is the entry's path relative to the source, for messages. */
  const copyInto = async (from: string, to: string, path: string): Promise<void> => {
    signal.throwIfAborted();
    const stats = await fs.lstat(from);
    const kind = kindOf(stats);
    const left = await leaveOut(from, to, stats);
    const reason = left ?? (kind === "other" ? "it is neither a file nor a folder" : undefined);
    if (reason !== undefined) {
      // For the server's own files only their folder is reported, once: neither their number nor their names.
      const shown = reason === OWN && basename(path) !== ".toolrack" ? dirname(path) : path;
      const isTold = skipped.some((known) => known.path === shown && known.reason === reason);
      if (!isTold) skipped.push({ path: shown, reason });
      return;
    }
    const existing = await entryAt(to);
    if (kind === "directory") {
      if (existing === undefined) await fs.mkdir(to, 0o700);
      else if (!existing.isDirectory()) throw new Error(`${to} stands in the way: it is not a folder.`);
      for (const name of await fs.readdir(from))
        await copyInto(join(from, name), join(to, name), path === "" ? name : `${path}/${name}`);
      if (existing === undefined) await finishFolder(to, stats, options);
      copied.folders += 1;
      return;
    }
    if (existing !== undefined && !overwrite) throw new Error(`${to} already exists.`);
    if (existing?.isDirectory()) throw new Error(`${to} stands in the way: it is a folder.`);
    await withTemporary(to, async (temporary) => {
      if (kind === "symlink") await fs.symlink(await fs.readlink(from), temporary);
      else await copyFile(from, temporary, stats, options);
      await fs.rename(temporary, to);
    });
    if (kind === "file") copied.bytes += stats.size;
    copied.files += 1;
    if (copied.files % PROGRESS_EVERY === 0)
      onProgress(copied.files, undefined, `${countEntries(copied)} copied`);
  };
  await copyInto(source, target, "");
  return copied;
}

/** Must be called after the folder was filled, because a write-protected folder could not be filled. */
async function finishFolder(target: string, stats: Stats, { preserve }: CopyOptions): Promise<void> {
  if (preserve) await fs.lchown(target, stats.uid, stats.gid).catch(() => {});
  await fs.chmod(target, stats.mode & 0o7777);
  if (preserve) await fs.utimes(target, stats.atime, stats.mtime);
}

/** Copies in pieces, so that a cancelled copy ends at once and memory stays flat. */
async function copyFile(
  source: string,
  target: string,
  stats: Stats,
  { signal, preserve }: CopyOptions,
): Promise<void> {
  await using from = await fs.open(source, carefulRead);
  if (!isSame(await from.stat(), stats))
    throw new Error(`${source} was exchanged for something else while it was being copied.`);
  // The system applies its umask, as to any new file.
  await using to = await fs.open(target, "wx", stats.mode & 0o777);
  const buffer = Buffer.allocUnsafe(Math.min(PIECE_BYTES, Math.max(stats.size, 4096)));
  for (;;) {
    signal.throwIfAborted();
    const { bytesRead } = await from.read(buffer, 0, buffer.length);
    if (bytesRead === 0) break;
    await to.writeFile(buffer.subarray(0, bytesRead));
  }
  if (!preserve) return;
  await copyModeAndOwner(to, stats);
  await to.utimes(stats.atime, stats.mtime);
}

/** Whether both are the same file. */
export function isSame(one: Stats, other: Stats): boolean {
  return one.dev === other.dev && one.ino === other.ino;
}

interface RemoveOptions {
  readonly signal: AbortSignal;
  readonly removed: EntryCount;
  readonly onProgress?: (removed: EntryCount) => void;
}

const REMOVE_PROGRESS_EVERY = 500;

/** Removes a file, a link itself, or a whole folder. Ignores what is already gone. */
export async function removeEntry(path: string, options: RemoveOptions): Promise<void> {
  const { removed, signal } = options;
  signal.throwIfAborted();
  const entry = await entryAt(path);
  if (entry === undefined) return;
  if (entry.isDirectory()) {
    for (const name of await fs.readdir(path)) await removeEntry(join(path, name), options);
    await fs.rmdir(path);
    removed.folders += 1;
    return;
  }
  await fs.unlink(path);
  removed.files += 1;
  if (removed.files % REMOVE_PROGRESS_EVERY === 0) options.onProgress?.(removed);
}

/** Makes a confined folder and missing folders above it. Returns whether any was made. */
export async function ensureFolder(workspace: Confinement, folder: string): Promise<boolean> {
  const shown = await showPath(workspace, folder);
  const made = await fs.mkdir(folder, { recursive: true }).catch((error: NodeJS.ErrnoException) => {
    const isInTheWay = error.code === "EEXIST" || error.code === "ENOTDIR";
    const why = isInTheWay ? "a file with that name stands in the way" : error.message;
    throw new Error(`The folder ${shown} cannot be made: ${why}.`, { cause: error });
  });
  // A folder above may have become a link since the path was checked.
  if ((await fs.realpath(folder)) === folder) return made !== undefined;
  throw new Error(`The folder ${shown} was exchanged for a link. Nothing was written.`);
}

/**
 * Rejects unless the opened file is the one at `real` and the path has no links: a folder may have been exchanged for a
 * link since the path was checked.
 */
export async function checkSameFile(handle: fs.FileHandle, real: string, shown: string): Promise<Stats> {
  const [stats, now, path] = await Promise.all([handle.stat(), fs.lstat(real), fs.realpath(real)]);
  if (path === real && isSame(now, stats)) return stats;
  throw new Error(`${shown} was exchanged for something else while it was being opened. Nothing was done.`);
}

/** Lets `make` build something under a temporary name beside `target`. Removes it when `make` fails. */
export async function withTemporary<Value>(
  target: string,
  make: (temporary: string) => Promise<Value>,
): Promise<Value> {
  const temporary = join(dirname(target), `.toolrack-${randomUUID()}.tmp`);
  try {
    return await make(temporary);
  } catch (error) {
    await fs.rm(temporary, { recursive: true, force: true });
    throw error;
  }
}

/**
 * Writes `content` to `target`, a path from `confinePath`. Readers see the old or the new file, never a part,
 * even after a power cut. A failure leaves the old file untouched and nothing else behind. The new file gets
 * the mode and owner of `like`. `shown`: the path as people see it.
 */
export function replaceFile(
  target: string,
  content: Uint8Array,
  { shown, like, signal }: { shown: string; like: Stats | undefined; signal: AbortSignal },
): Promise<void> {
  return withTemporary(target, async (temporary) => {
    {
      await using handle = await fs.open(temporary, "wx", like === undefined ? 0o666 : 0o600);
      await checkSameFile(handle, temporary, shown);
      await handle.writeFile(content, { signal });
      if (like !== undefined) await copyModeAndOwner(handle, like);
      await handle.sync();
    }
    signal.throwIfAborted();
    await fs.rename(temporary, target);
    // Makes the rename durable. Some systems cannot sync a folder.
    const folder = await fs.open(dirname(target), "r").catch(() => undefined);
    await folder?.sync().catch(() => {});
    await folder?.close();
  });
}
