import { createHash, randomBytes } from "node:crypto";
import { type FileHandle, link, mkdir, open, rename, rm, rmdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { Readable } from "node:stream";

export interface SaveOptions {
  readonly target: string;
  readonly overwrite: boolean;
  readonly maxBytes: number;
  readonly onProgress: (bytes: number) => void;
  /** Of the exchange that the stream comes from. */
  readonly signal: AbortSignal;
}

export interface SavedFile {
  readonly bytes: number;
  /** In hex. */
  readonly sha256: string;
}

/**
 * Writes a stream to a file, all of it or nothing: a temporary file beside the target takes the content, and becomes
 * the target only when it is whole and on disk. On any failure nothing is left behind, not even new directories.
 */
export async function saveStream(source: Readable, options: SaveOptions): Promise<SavedFile> {
  const { target } = options;
  const directory = dirname(target);
  const firstMade = await mkdir(directory, { recursive: true });
  const temporary = join(directory, `.download-${randomBytes(8).toString("hex")}.part`);
  try {
    const saved = await write(source, temporary, options);
    // A body that goes on until the connection closes ends like a whole one when the signal closes it.
    options.signal.throwIfAborted();
    await publish(temporary, target, options.overwrite);
    return saved;
  } catch (error) {
    source.destroy();
    await rm(temporary, { force: true });
    if (firstMade !== undefined) await removeEmpty(directory, firstMade);
    throw error;
  }
}

async function write(
  source: Readable,
  path: string,
  { maxBytes, onProgress }: SaveOptions,
): Promise<SavedFile> {
  const hash = createHash("sha256");
  let bytes = 0;
  const file: FileHandle = await open(path, "wx");
  try {
    for await (const chunk of source as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > maxBytes) throw tooLarge(maxBytes);
      hash.update(chunk);
      await file.writeFile(chunk);
      onProgress(bytes);
    }
    await file.sync();
  } finally {
    await file.close();
  }
  return { bytes, sha256: hash.digest("hex") };
}

export function tooLarge(maxBytes: number): Error {
  return new Error(
    `The content is larger than ${maxBytes.toLocaleString("en-US")} bytes, so nothing was saved. Raise maxBytes if it is wanted.`,
  );
}

export function alreadyThere(target: string): Error {
  return new Error(
    `"${basename(target)}" is already there, so nothing was saved. Set overwrite to true, or give another path.`,
  );
}

async function publish(temporary: string, target: string, overwrite: boolean): Promise<void> {
  if (overwrite || !(await linkOnly(temporary, target))) await rename(temporary, target);
  else await rm(temporary);
  const directory = await open(dirname(target), "r");
  // Not every file system can flush a directory; the file itself is safe already.
  await directory.sync().catch(() => {});
  await directory.close();
}

/**
 * Unlike a rename, a link never replaces a file that has appeared in the meantime. Answers `false` where the file
 * system knows no links; the check made before the download must do there.
 */
async function linkOnly(temporary: string, target: string): Promise<boolean> {
  try {
    await link(temporary, target);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") throw alreadyThere(target);
    if (code === "EPERM" || code === "ENOTSUP" || code === "EOPNOTSUPP") return false;
    throw error;
  }
}

/** Removes the directories that were made for this file, unless someone else has used them since. */
async function removeEmpty(from: string, upTo: string): Promise<void> {
  for (let directory = from; directory.length >= upTo.length; directory = dirname(directory)) {
    const isGone = await rmdir(directory).then(
      () => true,
      () => false,
    );
    if (!isGone) return;
  }
}
