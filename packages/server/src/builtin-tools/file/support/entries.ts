import { randomUUID } from "node:crypto";
import { constants, type Stats } from "node:fs";
import {
  chmod,
  type FileHandle,
  lchown,
  lstat,
  mkdir,
  open,
  readdir,
  readlink,
  realpath,
  rename,
  rm,
  rmdir,
  symlink,
  unlink,
  utimes,
} from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { amount } from "../../define.ts";
import { type Confinement, entryAt, showPath } from "../../paths.ts";

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

export interface Copied extends EntryCount {
  bytes: number;
  /** Entries that were left out, relative to the source, and why. */
  readonly skipped: { readonly path: string; readonly reason: string }[];
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
/** Does not block on a pipe without a writer, and does not follow a link that was put there after the check. */
export const carefulRead = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** Copies a file, a link or a whole folder. Never follows links. */
export async function copyEntry(source: string, target: string, options: CopyOptions): Promise<Copied> {
  const copied: Copied = { files: 0, folders: 0, bytes: 0, skipped: [] };
  await copyInto(source, target, options, copied, "");
  return copied;
}

async function copyInto(
  source: string,
  target: string,
  options: CopyOptions,
  copied: Copied,
  path: string,
): Promise<void> {
  options.signal.throwIfAborted();
  const stats = await lstat(source);
  const isKnown = stats.isSymbolicLink() || stats.isDirectory() || stats.isFile();
  const reason =
    (await options.leaveOut(source, target, stats)) ??
    (isKnown ? undefined : "it is neither a file nor a folder");
  if (reason !== undefined) return noteLeftOut(path, reason, copied);
  if (stats.isDirectory()) {
    await copyFolder(source, target, stats, options, (name) =>
      copyInto(
        join(source, name),
        join(target, name),
        options,
        copied,
        path === "" ? name : `${path}/${name}`,
      ),
    );
    copied.folders += 1;
    return;
  }
  await checkTargetFree(target, options.overwrite);
  if (stats.isSymbolicLink()) {
    const text = await readlink(source);
    await withTemporary(target, async (temporary) => {
      await symlink(text, temporary);
      await rename(temporary, target);
    });
  } else {
    await copyFile(source, target, stats, options);
    copied.bytes += stats.size;
  }
  copied.files += 1;
  if (copied.files % PROGRESS_EVERY === 0)
    options.onProgress(copied.files, undefined, `${countEntries(copied)} copied`);
}

/** For the server's own files only their folder is reported, once: neither their number nor their names. */
function noteLeftOut(path: string, reason: string, { skipped }: Copied): void {
  const shownPath = reason === OWN && basename(path) !== ".toolrack" ? dirname(path) : path;
  if (!skipped.some((known) => known.path === shownPath && known.reason === reason)) {
    skipped.push({ path: shownPath, reason });
  }
}

async function copyFolder(
  source: string,
  target: string,
  stats: Stats,
  { preserve }: CopyOptions,
  copyMember: (name: string) => Promise<void>,
): Promise<void> {
  const existing = await entryAt(target);
  if (existing === undefined) await mkdir(target, 0o700);
  else if (!existing.isDirectory()) throw new Error(`${target} stands in the way: it is not a folder.`);
  for (const name of await readdir(source)) await copyMember(name);
  if (existing !== undefined) return;
  // Only now, because a write-protected folder could not have been filled.
  if (preserve) await lchown(target, stats.uid, stats.gid).catch(() => {});
  await chmod(target, stats.mode & 0o7777);
  if (preserve) await utimes(target, stats.atime, stats.mtime);
}

async function copyFile(
  source: string,
  target: string,
  stats: Stats,
  { signal, preserve }: CopyOptions,
): Promise<void> {
  await using from = await open(source, carefulRead);
  const opened = await from.stat();
  if (opened.dev !== stats.dev || opened.ino !== stats.ino) {
    throw new Error(`${source} was exchanged for something else while it was being copied.`);
  }
  await withTemporary(target, async (temporary) => {
    // The system applies its own mask, as to any new file.
    const to = await open(temporary, "wx", stats.mode & 0o777);
    try {
      // Copied in pieces, so that a cancelled copy ends at once and memory stays flat.
      const buffer = Buffer.allocUnsafe(Math.min(PIECE_BYTES, Math.max(stats.size, 4096)));
      for (;;) {
        signal.throwIfAborted();
        const { bytesRead } = await from.read(buffer, 0, buffer.length);
        if (bytesRead === 0) break;
        await to.writeFile(buffer.subarray(0, bytesRead));
      }
      if (preserve) {
        await copyModeAndOwner(to, stats);
        await to.utimes(stats.atime, stats.mtime);
      }
    } finally {
      await to.close();
    }
    await rename(temporary, target);
  });
}

async function checkTargetFree(target: string, overwrite: boolean): Promise<void> {
  const existing = await entryAt(target);
  if (existing === undefined) return;
  if (!overwrite) throw new Error(`${target} already exists.`);
  if (existing.isDirectory()) throw new Error(`${target} stands in the way: it is a folder.`);
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
  if (!entry.isDirectory()) {
    await unlink(path);
    removed.files += 1;
    if (removed.files % REMOVE_PROGRESS_EVERY === 0) options.onProgress?.(removed);
    return;
  }
  for (const name of await readdir(path)) await removeEntry(join(path, name), options);
  await rmdir(path);
  removed.folders += 1;
}

/** Makes a confined folder and missing folders above it. Returns whether any was made. */
export async function ensureFolder(workspace: Confinement, folder: string): Promise<boolean> {
  const shown = await showPath(workspace, folder);
  const made = await mkdir(folder, { recursive: true }).catch((error: NodeJS.ErrnoException) => {
    const isInTheWay = error.code === "EEXIST" || error.code === "ENOTDIR";
    const why = isInTheWay ? "a file with that name stands in the way" : error.message;
    throw new Error(`The folder ${shown} cannot be made: ${why}.`, { cause: error });
  });
  // A folder above may have become a link since the path was checked.
  if ((await realpath(folder)) === folder) return made !== undefined;
  throw new Error(`The folder ${shown} was exchanged for a link. Nothing was written.`);
}

/**
 * Rejects unless the opened file is the one at `real` and the path has no links: a folder may have been exchanged for a
 * link since the path was checked.
 */
export async function checkSameFile(handle: FileHandle, real: string, shown: string): Promise<Stats> {
  const [stats, now, path] = await Promise.all([handle.stat(), lstat(real), realpath(real)]);
  if (path === real && now.dev === stats.dev && now.ino === stats.ino) return stats;
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
    await rm(temporary, { recursive: true, force: true });
    throw error;
  }
}

interface ReplaceOptions {
  /** The path as people see it. */
  readonly shown: string;
  /** The new file gets the mode and owner of this one. */
  readonly like: Stats | undefined;
  readonly signal: AbortSignal;
}

/**
 * Writes `content` to `target`, which must be confined. Readers see the old or the new file, never a part, even after a
 * power cut. A failure leaves the old file untouched and nothing else behind.
 */
export function replaceFile(target: string, content: Uint8Array, options: ReplaceOptions): Promise<void> {
  return withTemporary(target, async (temporary) => {
    const handle = await open(temporary, "wx", options.like === undefined ? 0o666 : 0o600);
    try {
      await checkSameFile(handle, temporary, options.shown);
      await handle.writeFile(content, { signal: options.signal });
      if (options.like !== undefined) await copyModeAndOwner(handle, options.like);
      await handle.sync();
    } finally {
      await handle.close();
    }
    options.signal.throwIfAborted();
    await rename(temporary, target);
    // Makes the rename durable. Some systems cannot sync a folder.
    const folder = await open(dirname(target), "r").catch(() => undefined);
    await folder?.sync().catch(() => {});
    await folder?.close();
  });
}

/** Gives the file the mode and, where allowed, the owner of another. */
async function copyModeAndOwner(handle: FileHandle, like: Stats): Promise<void> {
  const { uid, gid } = await handle.stat();
  // Only root may change the owner; otherwise it stays.
  if (uid !== like.uid || gid !== like.gid) await handle.chown(like.uid, like.gid).catch(() => {});
  await handle.chmod(like.mode & 0o7777);
}
