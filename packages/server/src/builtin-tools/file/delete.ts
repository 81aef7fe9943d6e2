import { readdir } from "node:fs/promises";
import { guardWrite } from "../../access/index.ts";
import type { InternalTool, InternalToolContext } from "../../calls/index.ts";
import { confinePath, showPath } from "../confine.ts";
import { amount } from "./support/contents.ts";
import { countEntries, entryAt, kindOf, type Removed, removeEntry } from "./support/entries.ts";
import { refuseRoot } from "./support/paths.ts";

interface DeleteArguments {
  readonly path: string;
  readonly recursive: boolean;
}

export default {
  name: "delete",
  description:
    "Deletes a file, a link or a folder of the workspace for good. A link is deleted itself, never what it points to. " +
    "A folder that is not empty needs recursive: true.",
  inputSchema: {
    type: "object",
    properties: {
      path: {
        type: "string",
        description: "What to delete: relative to the workspace, or absolute inside it.",
      },
      recursive: { type: "boolean", default: false, description: "Delete a folder with everything in it." },
    },
    required: ["path"],
  },
  outputSchema: {
    type: "object",
    properties: {
      path: { type: "string" },
      type: { enum: ["file", "directory", "symlink", "other"] },
      files: { type: "integer", description: "Files and links deleted." },
      folders: { type: "integer", description: "Folders deleted." },
    },
    required: ["path", "type", "files", "folders"],
  },
  async handler(args: DeleteArguments, context: InternalToolContext) {
    const { workspace, signal, progress } = context;
    const real = await confinePath(workspace, args.path, { mustExist: true, keepLink: true });
    const shown = await showPath(workspace, real);
    await refuseRoot(workspace, real, shown, "deleted");
    const entry = await entryAt(real);
    const type = entry === undefined ? "other" : kindOf(entry);
    if (type === "directory" && !args.recursive) await refuseFull(real, shown);
    await guardWrite(context, real, { shown, verb: "Delete", existing: entry, isAsked: true });

    const removed: Removed = { files: 0, folders: 0 };
    const onProgress = () => progress(removed.files, undefined, `${countEntries(removed)} deleted`);
    await removeEntry(real, { signal, removed, onProgress }).catch((error: Error) => {
      throw new Error(
        `${shown} could not be deleted wholly: ${error.message}. Deleted so far: ${countEntries(removed)}.`,
        { cause: error },
      );
    });
    const isFull = removed.files > 0 || removed.folders > 1;
    const contents = { files: removed.files, folders: removed.folders - 1 };
    const what =
      type === "directory" ? `the folder ${shown}` : type === "symlink" ? `the link ${shown}` : shown;
    const text = `Deleted ${what}${type === "directory" && isFull ? ` with ${countEntries(contents)} in it` : ""}.`;
    return { content: [{ type: "text", text }], structuredContent: { path: shown, type, ...removed } };
  },
  metadata: { category: "file", dangerous: true, confirm: "Delete this file or folder for good?" },
} satisfies InternalTool;

async function refuseFull(real: string, shown: string): Promise<void> {
  const { length } = await readdir(real);
  if (length === 0) return;
  throw new Error(
    `The folder ${shown} is not empty (${amount(length, "entry", "entries")}). Pass recursive: true to delete it with everything in it.`,
  );
}
