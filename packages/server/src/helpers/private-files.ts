import { randomBytes, randomUUID } from "node:crypto";
import { chmodSync, mkdirSync, type Stats, statSync } from "node:fs";
import { chmod, type FileHandle, link, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

/**
 * Makes `.toolrack`, the folder of a workspace's server, or widens its mode. Sandboxed tools may run as other users and
 * must pass through it to their packages, so others may enter it but not list it. Every private file in it has a
 * private mode of its own. The mode is the same whichever part of the server makes the folder.
 */
export function makeOwnFolder(folder: string): void {
  const isNew = mkdirSync(folder, { recursive: true }) !== undefined;
  // Windows has no such mode: the rights of the parent folder decide.
  if (process.platform === "win32") return;
  const { mode, uid } = statSync(folder);
  const user = process.getuid?.();
  // Only the owner and root may change the mode.
  if (user !== 0 && user !== uid) return;
  const wanted = isNew ? 0o711 : (mode & 0o7777) | 0o011;
  if ((mode & 0o7777) !== wanted) chmodSync(folder, wanted);
}

/** Writes the text elsewhere in the folder and moves it into place, so that the file is never seen in part. */
export async function replaceFile(path: string, text: string, mode?: number): Promise<void> {
  const temporary = join(dirname(path), `.${randomUUID()}`);
  await writeFile(temporary, text, { mode });
  await rename(temporary, path);
}

/** Gives the file the mode and, where the system allows it, the owner of another. */
export async function copyModeAndOwner(handle: FileHandle, like: Stats): Promise<void> {
  const { uid, gid } = await handle.stat();
  // Only an administrator may change the owner; other users keep their own.
  if (uid !== like.uid || gid !== like.gid) await handle.chown(like.uid, like.gid).catch(() => {});
  await handle.chmod(like.mode & 0o7777);
}

/** Writes a file that only its owner can read. An existing file stays, so that two processes agree on one text. */
export async function makeOwnFile(file: string, text: string): Promise<void> {
  makeOwnFolder(dirname(file));
  const draft = `${file}.${randomBytes(6).toString("hex")}`;
  try {
    await writeFile(draft, text, { mode: 0o600, flag: "wx", flush: true });
    // Unlike a rename, a link never replaces a file that another process has just made.
    await link(draft, file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  } finally {
    await rm(draft, { force: true });
  }
}

/**
 * Reads a file that `makeOwnFile` wrote, trimmed; undefined when there is none. Makes the file private if
 * others can read it.
 */
export async function readOwnFile(file: string): Promise<string | undefined> {
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  if (text === undefined) return undefined;
  // Windows has no such mode: the rights of the folder decide.
  if (process.platform !== "win32" && ((await stat(file)).mode & 0o077) !== 0) await chmod(file, 0o600);
  return text.trim();
}

/**
 * What all nodes of a fleet have in common is given to each by a variable, or by a file that the variable with `_FILE`
 * names, as containers mount them. Undefined when neither is set. Throws when the file cannot be read.
 */
export async function readFleetVariable(
  name: "TOOLRACK_KEY" | "TOOLRACK_OPERATOR_TOKEN",
): Promise<string | undefined> {
  const value = process.env[name]?.trim();
  if (value) return value;
  const file = process.env[`${name}_FILE`]?.trim();
  if (!file) return undefined;
  const text = await readFile(file, "utf8").catch((error: Error) => {
    throw new Error(`${name}_FILE names a file that cannot be read: ${error.message}`, { cause: error });
  });
  return text.trim() || undefined;
}
