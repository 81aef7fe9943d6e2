import type { Stats } from "node:fs";
import { readdir, rename, rmdir, unlink } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { guardWrite, isInside, privatePaths } from "../../access/index.ts";
import type { InternalTool, InternalToolContext } from "../../calls/index.ts";
import { confinePath, showPath } from "../confine.ts";
import {
  type Copied,
  copyEntry,
  countEntries,
  ensureFolder,
  entryAt,
  OWN,
  removeEntry,
  withTemporary,
} from "./support/entries.ts";
import { checkReplaceable, type Destination, findDestination, refuseRoot } from "./support/paths.ts";

interface MoveArguments {
  readonly source: string;
  readonly destination: string;
  readonly overwrite: boolean;
}

export default {
  name: "move",
  description:
    "Moves or renames a file or folder inside the workspace. Into an existing folder it keeps its name; missing " +
    "folders are created. An existing file is only replaced with overwrite: true; a folder that is not empty never is. " +
    "A link is moved itself, never what it points to.",
  inputSchema: {
    type: "object",
    properties: {
      source: {
        type: "string",
        description: "What to move: relative to the workspace, or absolute inside it.",
      },
      destination: { type: "string", description: "The new path, or an existing folder to move into." },
      overwrite: { type: "boolean", default: false, description: "Replace a file that is already there." },
    },
    required: ["source", "destination"],
  },
  outputSchema: {
    type: "object",
    properties: {
      source: { type: "string" },
      destination: { type: "string" },
      replaced: { type: "boolean" },
    },
    required: ["source", "destination", "replaced"],
  },
  async handler(args: MoveArguments, context: InternalToolContext) {
    const { workspace } = context;
    const source = await confinePath(workspace, args.source, { mustExist: true, keepLink: true });
    const shown = await showPath(workspace, source);
    await refuseRoot(workspace, source, shown, "moved");
    const stats = await entryAt(source);
    if (stats === undefined) throw new Error(`${shown} has just disappeared.`);
    const destination = await findDestination(workspace, args.destination, basename(source));
    await checkMove(args, source, shown, stats, destination);
    await guardWrite(context, source, { shown, verb: "Move", existing: stats, isAsked: true });
    await guardWrite(context, destination.real, { shown: destination.shown, existing: destination.existing });

    await ensureFolder(workspace, dirname(destination.real));
    await renameOver(source, stats, destination).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "EXDEV") return moveAcross(source, shown, destination, context);
      throw new Error(`${shown} cannot be moved to ${destination.shown}: ${error.message}.`, {
        cause: error,
      });
    });
    const replaced = destination.existing !== undefined && !isSame(stats, destination.existing);
    const text = `Moved ${shown} to ${destination.shown}${replaced ? ", replacing what was there" : ""}.`;
    return {
      content: [{ type: "text", text }],
      structuredContent: { source: shown, destination: destination.shown, replaced },
    };
  },
  metadata: { category: "file", dangerous: true, confirm: "Move this file or folder?" },
} satisfies InternalTool;

async function checkMove(
  args: MoveArguments,
  source: string,
  shown: string,
  stats: Stats,
  destination: Destination,
): Promise<void> {
  const { existing, real } = destination;
  if (source === real) throw new Error(`${shown} is already there. Name another destination.`);
  if (stats.isDirectory() && isInside(source, real)) {
    throw new Error(`The folder ${shown} cannot be moved into itself (${destination.shown}).`);
  }
  // Where case does not count, a change of case finds the file itself in its way.
  if (existing !== undefined && isSame(stats, existing) && isCaseOnly(source, real)) return;
  checkReplaceable(stats, destination, args.overwrite);
  if (existing?.isDirectory() && (await readdir(real)).length > 0) {
    throw new Error(
      `The folder ${destination.shown} is not empty. Move what is in ${shown} piece by piece, or delete it first.`,
    );
  }
}

/** Two names of one file are one to `rename`, which would leave both. */
async function renameOver(source: string, stats: Stats, { real, existing }: Destination): Promise<void> {
  const isOtherName = existing !== undefined && isSame(stats, existing) && !isCaseOnly(source, real);
  await (isOtherName ? unlink(source) : rename(source, real));
}

/** Between two file systems: a whole copy takes its place first, and only then the source goes. */
async function moveAcross(
  source: string,
  shown: string,
  destination: Destination,
  context: InternalToolContext,
): Promise<void> {
  const { signal, progress, workspace } = context;
  const isPrivate = await privatePaths(workspace);
  const copied: Copied = { files: 0, folders: 0, bytes: 0, skipped: [] };
  await withTemporary(destination.real, async (temporary) => {
    await copyEntry(source, temporary, {
      signal,
      copied,
      overwrite: false,
      preserve: true,
      leaveOut: async (path) => (isPrivate(path) ? OWN : undefined),
      refuseLink: async () => undefined,
      onProgress: () => progress(copied.files, undefined, `${countEntries(copied)} copied`),
    });
    const [left] = copied.skipped;
    if (left !== undefined)
      throw new Error(`${shown} cannot be moved to another disk: ${left.path || shown}: ${left.reason}.`);
    if (destination.existing?.isDirectory()) await rmdir(destination.real);
    await rename(temporary, destination.real);
  });
  // From here on a cancel would leave half of the source; it is finished instead.
  const removed = { files: 0, folders: 0 };
  await removeEntry(source, { signal: new AbortController().signal, removed }).catch((error: Error) => {
    throw new Error(
      `${shown} was copied to ${destination.shown}, but could not be removed wholly: ${error.message}.`,
      { cause: error },
    );
  });
}

function isSame(one: Stats, other: Stats): boolean {
  return one.dev === other.dev && one.ino === other.ino;
}

function isCaseOnly(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}
