import { chmodSync, mkdirSync, statSync } from "node:fs";

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
