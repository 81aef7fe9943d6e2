import { readlink, rename } from "node:fs/promises";
import { basename, dirname, resolve } from "node:path";
import { guardWrite, isInside, isLinkToPrivate, powerCheck, privatePaths } from "../../access/index.ts";
import * as s from "../../helpers/schema.ts";
import {
  type Confinement,
  checkReplaceable,
  confinePath,
  findDestination,
  locateExisting,
} from "../paths.ts";
import { answer, defineTool, formatSize } from "../tool-definition.ts";
import {
  type CopyOptions,
  copyEntry,
  countEntries,
  ensureFolder,
  OWN,
  withTemporary,
} from "./support/copy-and-remove.ts";

export default defineTool({
  name: "copy",
  description:
    "Copies a file or a whole folder inside the workspace. Into an existing folder the copy keeps its name; missing " +
    "folders are created. Existing files are only replaced with overwrite: true, and an existing folder of the same " +
    "name is then merged. The server's own files are left out, and files that give power too unless the caller is an admin. Links in a folder are copied as links when they stay inside the workspace, otherwise left " +
    "out and reported.",
  input: {
    source: s.text("What to copy: relative to the workspace, or absolute inside it."),
    destination: s.text("The new path, or an existing folder to copy into."),
    recursive: s.boolean("Copy folders with everything in them.", { default: true }),
    overwrite: s.boolean("Replace files that are already there.", { default: false }),
  },
  output: {
    source: s.text(),
    destination: s.text(),
    files: s.integer(),
    folders: s.integer(),
    bytes: s.integer(),
    skipped: s.list(s.object({ "path?": s.text(), "reason?": s.text() })),
  },
  async handler(args, context) {
    const { workspace, signal } = context;
    const source = await locateExisting(workspace, args.source);
    const isFolder = source.stats.isDirectory();
    // A copy of a link's target gets the link's name, which the caller knows.
    const name = basename(resolve(workspace.directory, args.source));
    const destination = await findDestination(workspace, args.destination, name);
    const { real, shown } = destination;
    if (isFolder && !args.recursive)
      throw new Error(`${source.shown} is a folder. Pass recursive: true to copy it with everything in it.`);
    if (source.real === real)
      throw new Error(`${source.shown} cannot be copied onto itself. Name another destination.`);
    if (isFolder && isInside(source.real, real))
      throw new Error(`The folder ${source.shown} cannot be copied into itself (${shown}).`);
    checkReplaceable(source.stats, destination, args.overwrite);
    await guardWrite(context, real, { shown, verb: "Copy to" });

    await ensureFolder(workspace, dirname(real));
    const options: CopyOptions = {
      signal,
      overwrite: args.overwrite,
      preserve: false,
      leaveOut: await leaveOutRules(workspace),
      onProgress: context.progress,
    };
    // A new folder appears complete or not at all; an existing one is filled piece by piece.
    const copied = await (destination.stats !== undefined
      ? copyEntry(source.real, real, options)
      : withTemporary(real, async (temporary) => {
          const made = await copyEntry(source.real, temporary, options);
          await rename(temporary, real);
          return made;
        }));
    const size = `${isFolder ? `${countEntries(copied)}, ` : ""}${formatSize(copied.bytes)}`;
    const left = copied.skipped.map(({ path, reason }) => `\nLeft out ${path || source.shown}: ${reason}.`);
    return answer(`Copied ${source.shown} to ${shown} (${size}).${left.join("")}`, {
      source: source.shown,
      destination: shown,
      ...copied,
    });
  },
  metadata: { category: "file" },
});

/**
 * Returns a function that decides which entries are left out: the server's own files; for callers without an
 * admin grant, files that give power at the target; and links that lead out of the workspace, from the source
 * or from the target.
 */
async function leaveOutRules(workspace: Confinement): Promise<CopyOptions["leaveOut"]> {
  const [isPrivate, powerAt] = await Promise.all([privatePaths(workspace), powerCheck(workspace)]);
  return async (source, target, stats) => {
    if (isPrivate(source) || isPrivate(target)) return OWN;
    if (stats.isFile() && (await isLinkToPrivate(workspace, stats))) return OWN;
    const power = workspace.isAdmin === true ? undefined : powerAt(target, { above: false });
    if (power !== undefined) return `it gives power, which takes an admin grant: ${power}`;
    if (!stats.isSymbolicLink()) return undefined;
    const link = await readlink(source);
    const ends = [source, target].map((path) => confinePath(workspace, resolve(dirname(path), link)));
    const isInside = await Promise.all(ends).then(
      () => true,
      () => false,
    );
    return isInside ? undefined : "it is a link that leads out of the workspace";
  };
}
