import { readdir, rename, rmdir, unlink } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { guardWrite, isInside, privatePaths } from "../../access/index.ts";
import type { InternalToolContext } from "../../calls/index.ts";
import * as s from "../../helpers/schema.ts";
import {
  checkReplaceable,
  type ExistingPlace,
  findDestination,
  locateExisting,
  type Place,
  refuseRoot,
} from "../paths.ts";
import { answer, defineTool } from "../tool-definition.ts";
import {
  copyEntry,
  ensureFolder,
  isSame,
  OWN,
  removeEntry,
  withTemporary,
} from "./support/copy-and-remove.ts";

export default defineTool({
  name: "move",
  description:
    "Moves or renames a file or folder inside the workspace. Into an existing folder it keeps its name; missing " +
    "folders are created. An existing file is only replaced with overwrite: true; a folder that is not empty never is. " +
    "A link is moved itself, never what it points to.",
  input: {
    source: s.text("What to move: relative to the workspace, or absolute inside it."),
    destination: s.text("The new path, or an existing folder to move into."),
    overwrite: s.boolean("Replace a file that is already there.", { default: false }),
  },
  output: { source: s.text(), destination: s.text(), replaced: s.boolean() },
  async handler(args, context) {
    const { workspace } = context;
    const source = await locateExisting(workspace, args.source, { keepLink: true });
    const { shown, stats } = source;
    await refuseRoot(workspace, source, "moved");
    const destination = await findDestination(workspace, args.destination, basename(source.real));
    await checkMove(source, destination, args.overwrite);
    await guardWrite(context, source.real, { shown, verb: "Move", existing: stats, isAsked: true });
    await guardWrite(context, destination.real, { shown: destination.shown, existing: destination.stats });

    await ensureFolder(workspace, dirname(destination.real));
    const isSelf = destination.stats !== undefined && isSame(stats, destination.stats);
    // `rename` does nothing for two hard links of one file, so the source is unlinked.
    const isOtherName = isSelf && !isCaseOnly(source.real, destination.real);
    const moving = isOtherName ? unlink(source.real) : rename(source.real, destination.real);
    await moving.catch((error: NodeJS.ErrnoException) => {
      if (error.code === "EXDEV") return moveAcross(source, destination, context);
      throw new Error(`${shown} cannot be moved to ${destination.shown}: ${error.message}.`, {
        cause: error,
      });
    });
    const replaced = destination.stats !== undefined && !isSelf;
    return answer(`Moved ${shown} to ${destination.shown}${replaced ? ", replacing what was there" : ""}.`, {
      source: shown,
      destination: destination.shown,
      replaced,
    });
  },
  metadata: { category: "file", dangerous: true, confirm: "Move this file or folder?" },
});

async function checkMove(source: ExistingPlace, destination: Place, overwrite: boolean): Promise<void> {
  const { stats: existing, real } = destination;
  if (source.real === real) throw new Error(`${source.shown} is already there. Name another destination.`);
  if (source.stats.isDirectory() && isInside(source.real, real)) {
    throw new Error(`The folder ${source.shown} cannot be moved into itself (${destination.shown}).`);
  }
  // On a file system that ignores case, renaming only the case finds the file itself at the destination.
  if (existing !== undefined && isSame(source.stats, existing) && isCaseOnly(source.real, real)) return;
  checkReplaceable(source.stats, destination, overwrite);
  if (existing?.isDirectory() && (await readdir(real)).length > 0) {
    throw new Error(
      `The folder ${destination.shown} is not empty. Move what is in ${source.shown} piece by piece, or delete it first.`,
    );
  }
}

/** Moves between two file systems: the complete copy is put in place first, then the source is removed. */
async function moveAcross(
  { real, shown }: Place,
  destination: Place,
  { signal, progress, workspace }: InternalToolContext,
): Promise<void> {
  const isPrivate = await privatePaths(workspace);
  await withTemporary(destination.real, async (temporary) => {
    const { skipped } = await copyEntry(real, temporary, {
      signal,
      overwrite: false,
      preserve: true,
      leaveOut: async (path) => (isPrivate(path) ? OWN : undefined),
      onProgress: progress,
    });
    const [left] = skipped;
    if (left !== undefined)
      throw new Error(`${shown} cannot be moved to another disk: ${left.path || shown}: ${left.reason}.`);
    if (destination.stats?.isDirectory()) await rmdir(destination.real);
    await rename(temporary, destination.real);
  });
  // A cancel from here on would leave half of the source, so the removal cannot be cancelled.
  const removed = { files: 0, folders: 0 };
  await removeEntry(real, { signal: new AbortController().signal, removed }).catch((error: Error) => {
    throw new Error(
      `${shown} was copied to ${destination.shown}, but could not be removed wholly: ${error.message}.`,
      { cause: error },
    );
  });
}

function isCaseOnly(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}
