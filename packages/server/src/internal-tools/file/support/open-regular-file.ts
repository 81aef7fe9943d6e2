import { constants, type Stats } from "node:fs";
import { type FileHandle, lstat, open } from "node:fs/promises";
import { type Confinement, confinePath, showPath } from "../../confine.ts";
import { checkSameFile } from "./same-file.ts";

/** A file that was checked after it was opened. Close the handle. */
export interface OpenFile {
  readonly handle: FileHandle;
  readonly stats: Stats;
  readonly real: string;
  /** The path for people. */
  readonly shown: string;
}

// A pipe without a writer would block for ever; a link put there after the check must not be followed.
const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/**
 * Opens a file inside the workspace for reading. Rejects for folders, pipes and devices, and when the path was
 * exchanged for another file between the check and the opening.
 */
export async function openRegularFile(workspace: Confinement, path: string): Promise<OpenFile> {
  const real = await confinePath(workspace, path, { mustExist: true });
  const shown = await showPath(workspace, real);
  checkKind(await lstat(real), shown);
  const handle = await open(real, flags).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`${shown} cannot be opened: ${error.message}.`, { cause: error });
  });
  try {
    const stats = await checkSameFile(handle, real, shown);
    checkKind(stats, shown);
    return { handle, stats, real, shown };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

function checkKind(stats: Stats, shown: string): void {
  if (stats.isDirectory()) throw new Error(`${shown} is a folder. internal_file_list shows what is in it.`);
  if (stats.isFile()) return;
  throw new Error(`${shown} is neither a file nor a folder; it cannot be read.`);
}
