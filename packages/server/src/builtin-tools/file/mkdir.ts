import { mkdir } from "node:fs/promises";
import { guardWrite } from "../../access/index.ts";
import type { InternalTool, InternalToolContext } from "../../calls/index.ts";
import { confinePath, showPath } from "../confine.ts";
import { ensureFolder, entryAt } from "./support/entries.ts";

interface MkdirArguments {
  readonly path: string;
  readonly recursive: boolean;
}

export default {
  name: "mkdir",
  description:
    "Creates a folder in the workspace, with the folders above it where they are missing. A folder that is already " +
    "there is fine and stays as it is.",
  inputSchema: {
    type: "object",
    properties: {
      path: { type: "string", description: "The folder: relative to the workspace, or absolute inside it." },
      recursive: {
        type: "boolean",
        default: true,
        description:
          "Create missing folders above it. With false, a missing parent or an existing folder is an error.",
      },
    },
    required: ["path"],
  },
  outputSchema: {
    type: "object",
    properties: { path: { type: "string" }, created: { type: "boolean" } },
    required: ["path", "created"],
  },
  async handler(args: MkdirArguments, context: InternalToolContext) {
    const { workspace } = context;
    const real = await confinePath(workspace, args.path);
    const shown = await showPath(workspace, real);
    // A folder that is there already stays as it is.
    if ((await entryAt(real)) === undefined)
      await guardWrite(context, real, { shown, verb: "Make", above: false });
    const created = args.recursive ? await ensureFolder(workspace, real) : await makeOne(real, shown);
    const text = created ? `Created the folder ${shown}.` : `The folder ${shown} was already there.`;
    return { content: [{ type: "text", text }], structuredContent: { path: shown, created } };
  },
  metadata: { category: "file", idempotent: true },
} satisfies InternalTool;

async function makeOne(real: string, shown: string): Promise<true> {
  const entry = await entryAt(real);
  if (entry !== undefined)
    throw new Error(`${shown} already exists${entry.isDirectory() ? "" : " and is a file"}.`);
  await mkdir(real).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT" && error.code !== "ENOTDIR") throw error;
    const why =
      error.code === "ENOENT"
        ? "the folder above it does not exist"
        : "a file stands where its folder should be";
    throw new Error(`${shown} cannot be made: ${why}. With recursive: true missing folders are made too.`, {
      cause: error,
    });
  });
  return true;
}
