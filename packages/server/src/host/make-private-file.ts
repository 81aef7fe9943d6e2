import { chmodSync, closeSync, fstatSync, openSync } from "node:fs";

/** Makes an empty file that only its owner can read, or closes one that is there to others. Keeps what it holds. */
export function makePrivateFile(path: string): void {
  const descriptor = openSync(path, "a", 0o600);
  const { mode } = fstatSync(descriptor);
  closeSync(descriptor);
  // Windows keeps no such mode: there the folder's own rights decide.
  if (process.platform !== "win32" && (mode & 0o077) !== 0) chmodSync(path, 0o600);
}
