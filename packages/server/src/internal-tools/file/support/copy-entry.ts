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
  rename,
  symlink,
  utimes,
} from "node:fs/promises";
import { join } from "node:path";
import { entryAt } from "./entry-at.ts";
import { takeOver } from "./replace-file.ts";
import { withTemporary } from "./temporary.ts";

export interface Copied {
  files: number;
  folders: number;
  bytes: number;
  /** What was left out, relative to the source, and why. */
  readonly skipped: { readonly path: string; readonly reason: string }[];
}

export interface CopyOptions {
  readonly signal: AbortSignal;
  readonly copied: Copied;
  /** Replace files that are there already; folders are merged. */
  readonly overwrite: boolean;
  /** Keep exact modes, owners and times, as a move must. */
  readonly preserve: boolean;
  /** They belong to the server, and are neither read nor written. Absolute and real. */
  readonly ownFolders: readonly string[];
  /** Why a link may not be copied; `undefined` when it may. */
  readonly refuseLink: (link: string, target: string, copy: string) => Promise<string | undefined>;
  readonly onProgress: (copied: Copied) => void;
}

const PIECE = 1024 * 1024;
const PROGRESS_EVERY = 200;
const sourceFlags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** Copies a file, a link or a folder with everything in it. No link is ever followed. */
export async function copyEntry(
  source: string,
  target: string,
  options: CopyOptions,
  path = "",
): Promise<void> {
  options.signal.throwIfAborted();
  if (isOwn(source, options) || isOwn(target, options)) {
    options.copied.skipped.push({ path, reason: "it belongs to the server itself" });
    return;
  }
  const stats = await lstat(source);
  if (stats.isSymbolicLink()) return copyLink(source, target, options, path);
  if (stats.isDirectory()) return copyFolder(source, target, stats, options, path);
  if (stats.isFile()) return copyFile(source, target, stats, options);
  options.copied.skipped.push({ path, reason: "it is neither a file nor a folder" });
}

/** Some file systems do not tell names by their case; no tool needs such a name either. */
function isOwn(path: string, { ownFolders }: CopyOptions): boolean {
  const name = path.toLowerCase();
  return ownFolders.some((own) => own.toLowerCase() === name);
}

async function copyFolder(
  source: string,
  target: string,
  stats: Stats,
  options: CopyOptions,
  path: string,
): Promise<void> {
  const existing = await entryAt(target);
  if (existing === undefined) await mkdir(target, 0o700);
  else if (!existing.isDirectory()) throw new Error(`${target} stands in the way: it is not a folder.`);
  for (const name of await readdir(source)) {
    await copyEntry(join(source, name), join(target, name), options, path === "" ? name : `${path}/${name}`);
  }
  options.copied.folders += 1;
  if (existing !== undefined) return;
  // Only now: a write-protected folder could not have been filled.
  if (options.preserve) await lchown(target, stats.uid, stats.gid).catch(() => {});
  await chmod(target, stats.mode & 0o7777);
  if (options.preserve) await utimes(target, stats.atime, stats.mtime);
}

async function copyLink(source: string, target: string, options: CopyOptions, path: string): Promise<void> {
  const text = await readlink(source);
  const reason = await options.refuseLink(source, text, target);
  if (reason !== undefined) {
    options.copied.skipped.push({ path, reason });
    return;
  }
  await checkFree(target, options);
  await withTemporary(target, async (temporary) => {
    await symlink(text, temporary);
    await rename(temporary, target);
  });
  options.copied.files += 1;
}

async function copyFile(source: string, target: string, stats: Stats, options: CopyOptions): Promise<void> {
  await checkFree(target, options);
  const from = await open(source, sourceFlags);
  try {
    const opened = await from.stat();
    if (opened.dev !== stats.dev || opened.ino !== stats.ino) {
      throw new Error(`${source} was exchanged for something else while it was being copied.`);
    }
    await withTemporary(target, async (temporary) => {
      // The system's own mask is applied to a copy, as to any new file.
      const to = await open(temporary, "wx", stats.mode & 0o777);
      try {
        await copyBytes(from, to, stats.size, options.signal);
        if (options.preserve) {
          await takeOver(to, stats);
          await to.utimes(stats.atime, stats.mtime);
        }
      } finally {
        await to.close();
      }
      await rename(temporary, target);
    });
  } finally {
    await from.close();
  }
  const { copied } = options;
  copied.files += 1;
  copied.bytes += stats.size;
  if (copied.files % PROGRESS_EVERY === 0) options.onProgress(copied);
}

/** In pieces, so that a cancelled copy ends at once and memory stays flat. */
async function copyBytes(from: FileHandle, to: FileHandle, size: number, signal: AbortSignal): Promise<void> {
  const buffer = Buffer.allocUnsafe(Math.min(PIECE, Math.max(size, 4096)));
  for (;;) {
    signal.throwIfAborted();
    const { bytesRead } = await from.read(buffer, 0, buffer.length);
    if (bytesRead === 0) return;
    await to.writeFile(buffer.subarray(0, bytesRead));
  }
}

async function checkFree(target: string, options: CopyOptions): Promise<void> {
  const existing = await entryAt(target);
  if (existing === undefined) return;
  if (!options.overwrite) throw new Error(`${target} already exists.`);
  if (existing.isDirectory()) throw new Error(`${target} stands in the way: it is a folder.`);
}
