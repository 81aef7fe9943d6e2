import { randomBytes } from "node:crypto";
import { chmodSync, mkdirSync, statSync } from "node:fs";
import { chmod, link, readFile, rm, stat, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

/**
 * Makes `.toolrack`, the folder of what belongs to a workspace's server, or opens it as far as it has to be. Sandboxed
 * tools may run as users of their own and must be able to pass through it to the packages they use, so that others may
 * walk in, and not look around. Hence everything private in it is closed by itself. The mode is the same whichever part
 * of the server is the first to come.
 */
export function makeOwnFolder(folder: string): void {
  const isNew = mkdirSync(folder, { recursive: true }) !== undefined;
  // Windows keeps no such mode: there the rights of the folder above decide.
  if (process.platform === "win32") return;
  const { mode, uid } = statSync(folder);
  const user = process.getuid?.();
  // What another user made is that user's to open.
  if (user !== 0 && user !== uid) return;
  const wanted = isNew ? 0o711 : (mode & 0o7777) | 0o011;
  if ((mode & 0o7777) !== wanted) chmodSync(folder, wanted);
}

/** Writes a file that only its owner can read. Where there is one already, it stays: two processes agree on one text. */
export async function makeOwnFile(file: string, text: string): Promise<void> {
  makeOwnFolder(dirname(file));
  const draft = `${file}.${randomBytes(6).toString("hex")}`;
  try {
    await writeFile(draft, text, { mode: 0o600, flag: "wx", flush: true });
    // Unlike a rename, a link never replaces what another process has just made.
    await link(draft, file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  } finally {
    await rm(draft, { force: true });
  }
}

/** The trimmed text of such a file, which is closed to others if it is open. Undefined when there is none. */
export async function readOwnFile(file: string): Promise<string | undefined> {
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  if (text === undefined) return undefined;
  // Windows keeps no such mode: there the folder's own rights decide.
  if (process.platform !== "win32" && ((await stat(file)).mode & 0o077) !== 0) await chmod(file, 0o600);
  return text.trim();
}
