import { constants, type Stats } from "node:fs";
import { access, open } from "node:fs/promises";
import { dirname } from "node:path";
import { guardWrite } from "../../access/index.ts";
import type { InternalTool, InternalToolContext } from "../../calls/index.ts";
import { confinePath, showPath } from "../confine.ts";
import { formatSize } from "./support/contents.ts";
import { checkSameFile, ensureFolder, entryAt, replaceFile } from "./support/entries.ts";

interface WriteArguments {
  readonly path: string;
  readonly content: string;
  readonly createDirs: boolean;
  readonly append: boolean;
}

export default {
  name: "write",
  description:
    "Writes a UTF-8 text file of the workspace: creates it, replaces all of it, or appends to it. Replacing is " +
    "atomic and keeps the file's mode. Missing folders are created. Answers with the bytes written and whether the " +
    "file was created, replaced or appended to.",
  inputSchema: {
    type: "object",
    properties: {
      path: { type: "string", description: "The file: relative to the workspace, or absolute inside it." },
      content: {
        type: "string",
        description: "The whole new text, or with append the text to add at the end.",
      },
      createDirs: { type: "boolean", default: true, description: "Create missing folders on the way." },
      append: { type: "boolean", default: false, description: "Add to the end instead of replacing." },
    },
    required: ["path", "content"],
  },
  outputSchema: {
    type: "object",
    properties: {
      path: { type: "string" },
      action: { enum: ["created", "replaced", "appended"] },
      bytes: { type: "integer", description: "Bytes written." },
      size: { type: "integer", description: "Bytes of the file now." },
    },
    required: ["path", "action", "bytes", "size"],
  },
  async handler(args: WriteArguments, context: InternalToolContext) {
    const { workspace, signal } = context;
    if (args.path.endsWith("/")) throw new Error(`"${args.path}" names a folder. Name a file in it.`);
    const real = await confinePath(workspace, args.path);
    const shown = await showPath(workspace, real);
    const before = await entryAt(real);
    await checkTarget(real, shown, before);
    await guardWrite(context, real, { shown, existing: before });
    const folder = dirname(real);
    if (args.createDirs) await ensureFolder(workspace, folder);
    else await checkFolder(folder, shown);

    const content = Buffer.from(args.content, "utf8");
    signal.throwIfAborted();
    const size = args.append
      ? await appendTo(real, shown, content)
      : await replaceFile(real, content, { shown, like: before, signal }).then(() => content.length);
    const action = before === undefined ? "created" : args.append ? "appended" : "replaced";
    return {
      content: [{ type: "text", text: report(shown, action, content.length, size, before) }],
      structuredContent: { path: shown, action, bytes: content.length, size },
    };
  },
  metadata: { category: "file" },
} satisfies InternalTool;

async function checkTarget(real: string, shown: string, before: Stats | undefined): Promise<void> {
  if (before === undefined) return;
  if (before.isDirectory()) throw new Error(`${shown} is a folder; it cannot be written as a file.`);
  if (!before.isFile()) throw new Error(`${shown} is not a regular file; it is left as it is.`);
  // A rename would replace a write-protected file without asking.
  await access(real, constants.W_OK).catch((error) => {
    throw new Error(`${shown} is write-protected. Change its mode or write another file.`, { cause: error });
  });
}

async function checkFolder(folder: string, shown: string): Promise<void> {
  const entry = await entryAt(folder);
  if (entry?.isDirectory()) return;
  const why = entry === undefined ? "does not exist" : "is a file";
  throw new Error(`${shown} cannot be written: its folder ${why}. Pass createDirs: true or make it first.`);
}

async function appendTo(real: string, shown: string, content: Buffer): Promise<number> {
  const { O_APPEND, O_CREAT, O_WRONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants;
  const handle = await open(real, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o666);
  try {
    await checkSameFile(handle, real, shown);
    await handle.writeFile(content);
    await handle.sync();
    return (await handle.stat()).size;
  } finally {
    await handle.close();
  }
}

function report(
  shown: string,
  action: string,
  bytes: number,
  size: number,
  before: Stats | undefined,
): string {
  if (action === "created") return `Created ${shown} (${formatSize(bytes)}).`;
  if (action === "appended") return `Appended ${formatSize(bytes)} to ${shown} (now ${formatSize(size)}).`;
  return `Replaced ${shown} (${formatSize(bytes)}; before: ${formatSize(before?.size ?? 0)}).`;
}
