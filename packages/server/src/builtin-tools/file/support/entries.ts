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

/** What kind of thing it is, in the words of the tools. */
export function kindOf(stats: Pick<Stats, "isFile" | "isDirectory" | "isSymbolicLink">): EntryKind {
  if (stats.isSymbolicLink()) return "symlink";
  if (stats.isDirectory()) return "directory";
  return stats.isFile() ? "file" : "other";
}

/** How many entries were copied or removed so far; also true when the work was cut short. */
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
  /** What was left out, relative to the source, and why. */
  readonly skipped: { readonly path: string; readonly reason: string }[];
}

export interface CopyOptions {
  readonly signal: AbortSignal;
  /** Replace files that are there already; folders are merged. */
  readonly overwrite: boolean;
  /** Keep exact modes, owners and times, as a move must. */
  readonly preserve: boolean;
  /** Why an entry is neither read nor written, by its source and its target; `undefined` when it is copied. */
  readonly leaveOut: (source: string, target: string, stats: Stats) => Promise<string | undefined>;
  readonly onProgress: (files: number, total: undefined, message: string) => void;
}

/** Why files of the server are left out. */
export const OWN = "it belongs to the server itself";

const PIECE = 1024 * 1024;
const PROGRESS_EVERY = 200;
/** A pipe without a writer would block for ever; a link put there after the check must not be followed. */
export const carefulRead = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** Copies a file, a link or a folder with everything in it. No link is ever followed. */
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
  await checkFree(target, options.overwrite);
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

/** Of files of the server only the folder is told, once: not how many there are, nor what they are called. */
function noteLeftOut(path: string, reason: string, { skipped }: Copied): void {
  const told = reason === OWN && basename(path) !== ".toolrack" ? dirname(path) : path;
  if (!skipped.some((known) => known.path === told && known.reason === reason)) {
    skipped.push({ path: told, reason });
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
  // Only now: a write-protected folder could not have been filled.
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
    // The system's own mask is applied to a copy, as to any new file.
    const to = await open(temporary, "wx", stats.mode & 0o777);
    try {
      // In pieces, so that a cancelled copy ends at once and memory stays flat.
      const buffer = Buffer.allocUnsafe(Math.min(PIECE, Math.max(stats.size, 4096)));
      for (;;) {
        signal.throwIfAborted();
        const { bytesRead } = await from.read(buffer, 0, buffer.length);
        if (bytesRead === 0) break;
        await to.writeFile(buffer.subarray(0, bytesRead));
      }
      if (preserve) {
        await takeOver(to, stats);
        await to.utimes(stats.atime, stats.mtime);
      }
    } finally {
      await to.close();
    }
    await rename(temporary, target);
  });
}

async function checkFree(target: string, overwrite: boolean): Promise<void> {
  const existing = await entryAt(target);
  if (existing === undefined) return;
  if (!overwrite) throw new Error(`${target} already exists.`);
  if (existing.isDirectory()) throw new Error(`${target} stands in the way: it is a folder.`);
}

interface RemoveOptions {
  readonly signal: AbortSignal;
  readonly removed: EntryCount;
  /** Called now and then. */
  readonly onProgress?: (removed: EntryCount) => void;
}

const REMOVE_PROGRESS_EVERY = 500;

/** Removes a file, a link itself, or a folder with everything in it. What is already gone is fine. */
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

/** Makes a confined folder and the folders above it where they are missing. Says whether any was made. */
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
 * Rejects unless the opened file is the one at `real` and that path is still free of links: a folder on the way
 * may have been exchanged for a link between the check of the path and the opening.
 */
export async function checkSameFile(handle: FileHandle, real: string, shown: string): Promise<Stats> {
  const [stats, now, path] = await Promise.all([handle.stat(), lstat(real), realpath(real)]);
  if (path === real && now.dev === stats.dev && now.ino === stats.ino) return stats;
  throw new Error(`${shown} was exchanged for something else while it was being opened. Nothing was done.`);
}

/**
 * Lets `make` build something under a passing name beside `target`, so that one rename can put it in place.
 * When `make` fails, nothing of it is left.
 */
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
  /** For people. */
  readonly shown: string;
  /** Whose mode and owner the new file takes over. */
  readonly like: Stats | undefined;
  readonly signal: AbortSignal;
}

/**
 * Puts `content` at `target`, which must be confined: a reader sees the old file or the new one, never a part,
 * also after a power cut. When it fails, the old file is untouched and nothing else is left.
 */
export function replaceFile(target: string, content: Uint8Array, options: ReplaceOptions): Promise<void> {
  return withTemporary(target, async (temporary) => {
    const handle = await open(temporary, "wx", options.like === undefined ? 0o666 : 0o600);
    try {
      await checkSameFile(handle, temporary, options.shown);
      await handle.writeFile(content, { signal: options.signal });
      if (options.like !== undefined) await takeOver(handle, options.like);
      await handle.sync();
    } finally {
      await handle.close();
    }
    options.signal.throwIfAborted();
    await rename(temporary, target);
    // Makes the rename itself durable. Some systems cannot sync a folder; the file's content is safe anyway.
    const folder = await open(dirname(target), "r").catch(() => undefined);
    await folder?.sync().catch(() => {});
    await folder?.close();
  });
}

/** Gives the file the mode, and where the system allows it the owner, of another. */
async function takeOver(handle: FileHandle, like: Stats): Promise<void> {
  const { uid, gid } = await handle.stat();
  // Only the administrator may give files away; everyone else keeps what they write.
  if (uid !== like.uid || gid !== like.gid) await handle.chown(like.uid, like.gid).catch(() => {});
  await handle.chmod(like.mode & 0o7777);
}
