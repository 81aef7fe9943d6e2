import { constants } from "node:fs";
import { access, open } from "node:fs/promises";
import { dirname } from "node:path";
import { guardWrite } from "../../access/index.ts";
import * as s from "../../helpers/schema.ts";
import { entryAt, locate, type Place } from "../paths.ts";
import { answer, defineTool, formatSize } from "../tool-definition.ts";
import { checkSameFile, ensureFolder, replaceFile } from "./support/copy-and-remove.ts";

export default defineTool({
  name: "write",
  description:
    "Writes a UTF-8 text file of the workspace: creates it, replaces all of it, or appends to it. Replacing is " +
    "atomic and keeps the file's mode. Missing folders are created. Answers with the bytes written and whether the " +
    "file was created, replaced or appended to.",
  input: {
    path: s.text("The file: relative to the workspace, or absolute inside it."),
    content: s.text("The whole new text, or with append the text to add at the end."),
    createDirs: s.boolean("Create missing folders on the way.", { default: true }),
    append: s.boolean("Add to the end instead of replacing.", { default: false }),
  },
  output: {
    path: s.text(),
    action: s.choice(["created", "replaced", "appended"]),
    bytes: s.integer("Bytes written."),
    size: s.integer("Bytes of the file now."),
  },
  async handler(args, context) {
    const { workspace, signal } = context;
    if (args.path.endsWith("/")) throw new Error(`"${args.path}" names a folder. Name a file in it.`);
    const place = await locate(workspace, args.path);
    const { real, shown, stats: before } = place;
    await checkTarget(place);
    await guardWrite(context, real, { shown, existing: before });
    if (args.createDirs) await ensureFolder(workspace, dirname(real));
    else await checkFolder(place);

    const content = Buffer.from(args.content, "utf8");
    const bytes = content.length;
    signal.throwIfAborted();
    const size = args.append
      ? await appendTo(place, content)
      : await replaceFile(real, content, { shown, like: before, signal }).then(() => bytes);
    const action = before === undefined ? "created" : args.append ? "appended" : "replaced";
    const said = {
      created: `Created ${shown} (${formatSize(bytes)}).`,
      appended: `Appended ${formatSize(bytes)} to ${shown} (now ${formatSize(size)}).`,
      replaced: `Replaced ${shown} (${formatSize(bytes)}; before: ${formatSize(before?.size ?? 0)}).`,
    };
    return answer(said[action], { path: shown, action, bytes, size });
  },
  metadata: { category: "file" },
});

async function checkTarget({ real, shown, stats }: Place): Promise<void> {
  if (stats === undefined) return;
  if (stats.isDirectory()) throw new Error(`${shown} is a folder; it cannot be written as a file.`);
  if (!stats.isFile()) throw new Error(`${shown} is not a regular file; it is left as it is.`);
  // Replacing a file by a rename would succeed even for a write-protected file.
  await access(real, constants.W_OK).catch((error) => {
    throw new Error(`${shown} is write-protected. Change its mode or write another file.`, { cause: error });
  });
}

async function checkFolder({ real, shown }: Place): Promise<void> {
  const entry = await entryAt(dirname(real));
  if (entry?.isDirectory()) return;
  const why = entry === undefined ? "does not exist" : "is a file";
  throw new Error(`${shown} cannot be written: its folder ${why}. Pass createDirs: true or make it first.`);
}

async function appendTo({ real, shown }: Place, content: Buffer): Promise<number> {
  const { O_APPEND, O_CREAT, O_WRONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants;
  await using handle = await open(real, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o666);
  await checkSameFile(handle, real, shown);
  await handle.writeFile(content);
  await handle.sync();
  return (await handle.stat()).size;
}
