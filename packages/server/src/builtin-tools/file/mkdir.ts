import { mkdir } from "node:fs/promises";
import { guardWrite } from "../../access/index.ts";
import * as s from "../../helpers/schema.ts";
import { locate, type Place } from "../paths.ts";
import { answer, defineTool } from "../tool-definition.ts";
import { ensureFolder } from "./support/copy-and-remove.ts";

export default defineTool({
  name: "mkdir",
  description:
    "Creates a folder in the workspace, with the folders above it where they are missing. A folder that is already " +
    "there is fine and stays as it is.",
  input: {
    path: s.text("The folder: relative to the workspace, or absolute inside it."),
    recursive: s.boolean(
      "Create missing folders above it. With false, a missing parent or an existing folder is an error.",
      { default: true },
    ),
  },
  output: { path: s.text(), created: s.boolean() },
  async handler(args, context) {
    const place = await locate(context.workspace, args.path);
    const { real, shown, stats } = place;
    if (stats === undefined) await guardWrite(context, real, { shown, verb: "Make", above: false });
    const created = args.recursive ? await ensureFolder(context.workspace, real) : await makeOne(place);
    return answer(created ? `Created the folder ${shown}.` : `The folder ${shown} was already there.`, {
      path: shown,
      created,
    });
  },
  metadata: { category: "file", idempotent: true },
});

async function makeOne({ real, shown, stats }: Place): Promise<true> {
  if (stats !== undefined)
    throw new Error(`${shown} already exists${stats.isDirectory() ? "" : " and is a file"}.`);
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
