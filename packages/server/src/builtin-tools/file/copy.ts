import type { Stats } from "node:fs";
import { rename } from "node:fs/promises";
import { basename, dirname, resolve } from "node:path";
import { guardWrite, isInside, isPrivateTwin, powerJudge, privatePaths } from "../../access/index.ts";
import type { InternalTool, InternalToolContext } from "../../calls/index.ts";
import { type Confinement, confinePath, showPath } from "../confine.ts";
import { formatSize } from "./support/contents.ts";
import {
  type Copied,
  type CopyOptions,
  copyEntry,
  countEntries,
  ensureFolder,
  entryAt,
  OWN,
  withTemporary,
} from "./support/entries.ts";
import { checkReplaceable, type Destination, findDestination } from "./support/paths.ts";

interface CopyArguments {
  readonly source: string;
  readonly destination: string;
  readonly recursive: boolean;
  readonly overwrite: boolean;
}

export default {
  name: "copy",
  description:
    "Copies a file or a whole folder inside the workspace. Into an existing folder the copy keeps its name; missing " +
    "folders are created. Existing files are only replaced with overwrite: true, and an existing folder of the same " +
    "name is then merged. The server's own files are left out, and files that give power too unless the caller is an admin. Links in a folder are copied as links when they stay inside the workspace, otherwise left " +
    "out and reported.",
  inputSchema: {
    type: "object",
    properties: {
      source: {
        type: "string",
        description: "What to copy: relative to the workspace, or absolute inside it.",
      },
      destination: { type: "string", description: "The new path, or an existing folder to copy into." },
      recursive: { type: "boolean", default: true, description: "Copy folders with everything in them." },
      overwrite: { type: "boolean", default: false, description: "Replace files that are already there." },
    },
    required: ["source", "destination"],
  },
  outputSchema: {
    type: "object",
    properties: {
      source: { type: "string" },
      destination: { type: "string" },
      files: { type: "integer" },
      folders: { type: "integer" },
      bytes: { type: "integer" },
      skipped: {
        type: "array",
        items: { type: "object", properties: { path: { type: "string" }, reason: { type: "string" } } },
      },
    },
    required: ["source", "destination", "files", "folders", "bytes", "skipped"],
  },
  async handler(args: CopyArguments, context: InternalToolContext) {
    const { workspace, signal, progress } = context;
    const source = await confinePath(workspace, args.source, { mustExist: true });
    const shown = await showPath(workspace, source);
    const stats = await entryAt(source);
    if (stats === undefined) throw new Error(`${shown} has just disappeared.`);
    // The copy of a link's target is named like the link, which is the name the caller knows.
    const destination = await findDestination(
      workspace,
      args.destination,
      basename(resolve(workspace.directory, args.source)),
    );
    checkCopy(args, source, shown, stats, destination);
    await guardWrite(context, destination.real, { shown: destination.shown, verb: "Copy to" });

    const copied: Copied = { files: 0, folders: 0, bytes: 0, skipped: [] };
    await ensureFolder(workspace, dirname(destination.real));
    await putCopy(source, destination, {
      signal,
      copied,
      overwrite: args.overwrite,
      preserve: false,
      leaveOut: await leavingOut(workspace),
      refuseLink: (link, target, copy) => refuseLink(workspace, link, target, copy),
      onProgress: () => progress(copied.files, undefined, `${countEntries(copied)} copied`),
    });
    return {
      content: [{ type: "text", text: report(shown, destination.shown, stats, copied) }],
      structuredContent: { source: shown, destination: destination.shown, ...copied },
    };
  },
  metadata: { category: "file" },
} satisfies InternalTool;

function checkCopy(
  args: CopyArguments,
  source: string,
  shown: string,
  stats: Stats,
  destination: Destination,
): void {
  if (stats.isDirectory() && !args.recursive) {
    throw new Error(`${shown} is a folder. Pass recursive: true to copy it with everything in it.`);
  }
  if (source === destination.real)
    throw new Error(`${shown} cannot be copied onto itself. Name another destination.`);
  if (stats.isDirectory() && isInside(source, destination.real)) {
    throw new Error(`The folder ${shown} cannot be copied into itself (${destination.shown}).`);
  }
  checkReplaceable(stats, destination, args.overwrite);
}

/** A new folder appears whole or not at all; only into an existing one is copied piece by piece. */
async function putCopy(source: string, destination: Destination, options: CopyOptions): Promise<void> {
  if (destination.existing !== undefined) return copyEntry(source, destination.real, options);
  await withTemporary(destination.real, async (temporary) => {
    await copyEntry(source, temporary, options);
    await rename(temporary, destination.real);
  });
}

/**
 * What belongs to the server is not copied, and nothing takes its place. What gives power where it is put is left out for
 * whoever has no admin grant.
 */
async function leavingOut(workspace: Confinement): Promise<CopyOptions["leaveOut"]> {
  const [isPrivate, powerAt] = await Promise.all([privatePaths(workspace), powerJudge(workspace)]);
  return async (source, target, stats) => {
    if (isPrivate(source) || isPrivate(target)) return OWN;
    if (stats.isFile() && (await isPrivateTwin(workspace, stats))) return OWN;
    const power = workspace.isAdmin === true ? undefined : powerAt(target, { above: false });
    return power === undefined ? undefined : `it gives power, which takes an admin grant: ${power}`;
  };
}

/** Both the link and its copy must stay inside: the same text may lead elsewhere from another folder. */
async function refuseLink(
  workspace: Confinement,
  link: string,
  target: string,
  copy: string,
): Promise<string | undefined> {
  try {
    await confinePath(workspace, resolve(dirname(link), target));
    await confinePath(workspace, resolve(dirname(copy), target));
    return undefined;
  } catch {
    return "it is a link that leads out of the workspace";
  }
}

function report(source: string, destination: string, stats: Stats, copied: Copied): string {
  const amount = stats.isDirectory()
    ? `${countEntries(copied)}, ${formatSize(copied.bytes)}`
    : formatSize(copied.bytes);
  const left = copied.skipped.map(({ path, reason }) => `\nLeft out ${path || source}: ${reason}.`).join("");
  return `Copied ${source} to ${destination} (${amount}).${left}`;
}
