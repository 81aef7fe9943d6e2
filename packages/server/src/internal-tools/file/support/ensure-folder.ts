import { mkdir, realpath } from "node:fs/promises";
import { type Confinement, showPath } from "../../confine.ts";

/** Makes a confined folder and the folders above it where they are missing. Says whether any was made. */
export async function ensureFolder(workspace: Confinement, folder: string): Promise<boolean> {
  try {
    const made = await mkdir(folder, { recursive: true });
    // A folder above may have become a link since the path was checked.
    if ((await realpath(folder)) === folder) return made !== undefined;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const shown = await showPath(workspace, folder);
    if (code === "EEXIST" || code === "ENOTDIR") {
      throw new Error(`The folder ${shown} cannot be made: a file with that name stands in the way.`, {
        cause: error,
      });
    }
    throw new Error(`The folder ${shown} cannot be made: ${message}.`, { cause: error });
  }
  throw new Error(
    `The folder ${await showPath(workspace, folder)} was exchanged for a link. Nothing was written.`,
  );
}
