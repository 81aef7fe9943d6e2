import { readdir } from "node:fs/promises";
import { guardWrite } from "../../access/index.ts";
import * as s from "../../helpers/schema.ts";
import { locateExisting, type Place, refuseRoot } from "../paths.ts";
import { amount, answer, defineTool } from "../tool-definition.ts";
import { countEntries, type EntryCount, kindOf, removeEntry } from "./support/copy-and-remove.ts";

export default defineTool({
  name: "delete",
  description:
    "Deletes a file, a link or a folder of the workspace for good. A link is deleted itself, never what it points to. " +
    "A folder that is not empty needs recursive: true.",
  input: {
    path: s.text("What to delete: relative to the workspace, or absolute inside it."),
    recursive: s.boolean("Delete a folder with everything in it.", { default: false }),
  },
  output: {
    path: s.text(),
    type: s.choice(["file", "directory", "symlink", "other"]),
    files: s.integer("Files and links deleted."),
    folders: s.integer("Folders deleted."),
  },
  async handler(args, context) {
    const { workspace, signal, progress } = context;
    const place = await locateExisting(workspace, args.path, { keepLink: true });
    const { real, shown, stats } = place;
    await refuseRoot(workspace, place, "deleted");
    const type = kindOf(stats);
    if (type === "directory" && !args.recursive) await refuseFull(place);
    await guardWrite(context, real, { shown, verb: "Delete", existing: stats, isAsked: true });

    const removed: EntryCount = { files: 0, folders: 0 };
    const onProgress = () => progress(removed.files, undefined, `${countEntries(removed)} deleted`);
    await removeEntry(real, { signal, removed, onProgress }).catch((error: Error) => {
      throw new Error(
        `${shown} could not be deleted wholly: ${error.message}. Deleted so far: ${countEntries(removed)}.`,
        { cause: error },
      );
    });
    const contents = { files: removed.files, folders: removed.folders - 1 };
    const isFull = type === "directory" && contents.files + contents.folders > 0;
    const what = { directory: "the folder ", symlink: "the link ", file: "", other: "" }[type];
    return answer(`Deleted ${what}${shown}${isFull ? ` with ${countEntries(contents)} in it` : ""}.`, {
      path: shown,
      type,
      ...removed,
    });
  },
  metadata: { category: "file", dangerous: true, confirm: "Delete this file or folder for good?" },
});

async function refuseFull({ real, shown }: Place): Promise<void> {
  const { length } = await readdir(real);
  if (length === 0) return;
  throw new Error(
    `The folder ${shown} is not empty (${amount(length, "entry", "entries")}). Pass recursive: true to delete it with everything in it.`,
  );
}
