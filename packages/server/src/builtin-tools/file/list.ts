import { readlink } from "node:fs/promises";
import { compileGlob } from "../../helpers/index.ts";
import {
  amount,
  answer,
  defineTool,
  field,
  flag,
  formatSize,
  list,
  object,
  optional,
  text,
  type Values,
  whole,
} from "../define.ts";
import { type Confinement, entryAt, locateExisting } from "../paths.ts";
import type { EntryKind } from "./support/entries.ts";
import { renderTree, type WalkEntry, walk } from "./support/walk.ts";

const input = {
  path: text("The folder; by default the workspace itself.", { default: "." }),
  recursive: flag("Go into the folders below.", { default: false }),
  depth: optional(whole("With recursive, how many levels deep; by default all of them.", { minimum: 1 })),
  pattern: optional(
    text(
      "Only entries that fit this glob: *.ts and *.{ts,tsx} look at the name, a pattern with a slash such as src/**/*.test.ts at the path below the folder. A slash implies recursive.",
      { minLength: 1 },
    ),
  ),
  ignore: list(text(), "More to leave out, in the language of .gitignore.", { default: [] }),
  all: flag("Show also what is left out by default.", { default: false }),
  limit: whole("The most entries.", { minimum: 1, maximum: 20_000, default: 1000 }),
};

type ListArguments = Values<typeof input>;

interface ListedEntry {
  readonly name: string;
  readonly relative: string;
  readonly path: string;
  readonly type: EntryKind;
  readonly size?: number;
  readonly modified: string;
  readonly target?: string;
}

interface Listing {
  readonly entries: ListedEntry[];
  readonly isCut: boolean;
  readonly unreadable: readonly string[];
}

export default defineTool({
  name: "list",
  description:
    "Lists a folder of the workspace, or with recursive: true the whole tree under it: name, path, type, size and time " +
    "of change, folders first. Leaves out what .gitignore leaves out, .git and node_modules, unless all: true. Stops " +
    "at 1,000 entries by default and says so.",
  input,
  output: {
    path: text(),
    entries: list(
      object({
        name: text(),
        path: text("As the file tools take it."),
        type: field({ enum: ["file", "directory", "symlink", "other"] }),
        size: optional(whole("Bytes; of files only.")),
        modified: text("Time of the last change, ISO 8601."),
        target: optional(text("Where a link points, as it is written.")),
      }),
    ),
    truncated: flag("There are more entries than the limit."),
    unreadable: optional(list(text(), "Folders that could not be read.")),
  },
  async handler(args, { workspace, signal }) {
    const { real, shown, stats } = await locateExisting(workspace, args.path);
    if (!stats.isDirectory())
      throw new Error(`${shown} is not a folder. internal_file_read shows what is in a file.`);
    const listing = await collect(workspace, real, shown, args, signal);
    const { entries, isCut, unreadable } = listing;
    return answer(render(shown, listing, args), {
      path: shown,
      entries: entries.map(({ relative: _, ...entry }) => entry),
      truncated: isCut,
      ...(unreadable.length > 0 && { unreadable }),
    });
  },
  metadata: { category: "file", readOnly: true, idempotent: true },
});

async function collect(
  workspace: Confinement,
  folder: string,
  shown: string,
  args: ListArguments,
  signal: AbortSignal,
): Promise<Listing> {
  const entries: ListedEntry[] = [];
  const unreadable: string[] = [];
  const fits = await matcher(args.pattern);
  const isRecursive = args.recursive || args.pattern?.includes("/") === true;
  const found = walk(workspace, folder, {
    depth: isRecursive ? args.depth : 1,
    ignore: args.all ? "nothing" : args.ignore,
    signal,
    onUnreadable: (relative, reason) => unreadable.push(`${pathIn(shown, relative)} (${reason})`),
  });
  for await (const entry of found) {
    if (!fits(entry)) continue;
    if (entries.length === args.limit) return { entries, isCut: true, unreadable };
    const listed = await describe(entry, shown);
    if (listed !== undefined) entries.push(listed);
  }
  return { entries, isCut: false, unreadable };
}

async function matcher(pattern: string | undefined): Promise<(entry: WalkEntry) => boolean> {
  if (pattern === undefined) return () => true;
  const glob = await compileGlob(pattern.replace(/^\.?\//, ""));
  return pattern.includes("/") ? (entry) => glob.test(entry.relative) : (entry) => glob.test(entry.name);
}

/** `undefined` when the entry is gone by now. */
async function describe(entry: WalkEntry, folder: string): Promise<ListedEntry | undefined> {
  const stats = await entryAt(entry.path);
  if (stats === undefined) return undefined;
  const { name, relative, type } = entry;
  const target = type === "symlink" ? await readlink(entry.path).catch(() => undefined) : undefined;
  return {
    name,
    relative,
    path: pathIn(folder, relative),
    type,
    ...(type === "file" && { size: stats.size }),
    modified: stats.mtime.toISOString(),
    ...(target !== undefined && { target }),
  };
}

function pathIn(folder: string, relative: string): string {
  if (folder === "." || relative === "") return relative || folder;
  return `${folder}/${relative}`;
}

function render(shown: string, { entries, isCut, unreadable }: Listing, args: ListArguments): string {
  const heading = shown === "." ? "The workspace" : `${shown}/`;
  if (entries.length === 0) return `${emptiness(shown, heading, args)}${failures(unreadable)}`;
  const number = amount(entries.length, "entry", "entries");
  const what = args.pattern === undefined ? number : `${number} that fit ${args.pattern}`;
  const cut = isCut
    ? `\n\n[Stopped at ${number}; there are more. List a folder below, narrow it with pattern, depth or ignore, or raise limit.]`
    : "";
  return `${heading}: ${what}\n${body(entries, args)}${cut}${failures(unreadable)}`;
}

function body(entries: readonly ListedEntry[], args: ListArguments): string {
  // Matches of a pattern are not adjacent: a tree would need folders that do not match.
  if (args.pattern !== undefined) return entries.map((entry) => `${entry.relative}${note(entry)}`).join("\n");
  return renderTree(entries, (entry) =>
    args.recursive ? note(entry) : `${note(entry)}  ${minutes(entry.modified)}`,
  );
}

function note(entry: ListedEntry): string {
  if (entry.type === "symlink") return ` -> ${entry.target ?? "?"}`;
  return entry.size === undefined ? "" : `  ${formatSize(entry.size)}`;
}

function minutes(time: string): string {
  return time.slice(0, 16).replace("T", " ");
}

function emptiness(shown: string, heading: string, args: ListArguments): string {
  if (args.pattern !== undefined)
    return `Nothing in ${shown === "." ? "the workspace" : heading} fits ${args.pattern}.`;
  return args.all
    ? `${heading} is empty.`
    : `${heading} has nothing to show; all: true shows also what is ignored.`;
}

function failures(unreadable: readonly string[]): string {
  return unreadable.length === 0 ? "" : `\n\n[Could not be read: ${unreadable.join(", ")}.]`;
}
