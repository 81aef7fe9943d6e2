import { readlink } from "node:fs/promises";
import { compileGlob, defined } from "../../helpers/index.ts";
import * as s from "../../helpers/schema.ts";
import { entryAt, locateExisting } from "../paths.ts";
import { amount, answer, defineTool, formatSize } from "../tool-definition.ts";
import { renderTree, type WalkEntry, walk } from "./support/walk.ts";

const input = {
  path: s.text("The folder; by default the workspace itself.", { default: "." }),
  recursive: s.boolean("Go into the folders below.", { default: false }),
  "depth?": s.integer("With recursive, how many levels deep; by default all of them.", { minimum: 1 }),
  "pattern?": s.text(
    "Only entries that fit this glob: *.ts and *.{ts,tsx} look at the name, a pattern with a slash such as src/**/*.test.ts at the path below the folder. A slash implies recursive.",
    { minLength: 1 },
  ),
  ignore: s.list(s.text(), "More to leave out, in the language of .gitignore.", { default: [] }),
  all: s.boolean("Show also what is left out by default.", { default: false }),
  limit: s.integer("The most entries.", { minimum: 1, maximum: 20_000, default: 1000 }),
};

type ListArguments = s.Values<typeof input>;

export default defineTool({
  name: "list",
  description:
    "Lists a folder of the workspace, or with recursive: true the whole tree under it: name, path, type, size and time " +
    "of change, folders first. Leaves out what .gitignore leaves out, .git and node_modules, unless all: true. Stops " +
    "at 1,000 entries by default and says so.",
  input,
  output: {
    path: s.text(),
    entries: s.list(
      s.object({
        name: s.text(),
        path: s.text("As the file tools take it."),
        type: s.choice(["file", "directory", "symlink", "other"]),
        "size?": s.integer("Bytes; of files only."),
        modified: s.text("Time of the last change, ISO 8601."),
        "target?": s.text("Where a link points, as it is written."),
      }),
    ),
    truncated: s.boolean("There are more entries than the limit."),
    "unreadable?": s.list(s.text(), "Folders that could not be read."),
  },
  async handler(args, { workspace, signal }) {
    const { real, shown, stats } = await locateExisting(workspace, args.path);
    if (!stats.isDirectory())
      throw new Error(`${shown} is not a folder. internal_file_read shows what is in a file.`);
    const fits = await matcher(args.pattern);
    const isRecursive = args.recursive || args.pattern?.includes("/") === true;
    const entries: ListedEntry[] = [];
    const unreadable: string[] = [];
    const found = walk(workspace, real, {
      depth: isRecursive ? args.depth : 1,
      ignore: args.all ? "nothing" : args.ignore,
      signal,
      onUnreadable: (relative, reason) => unreadable.push(`${pathIn(shown, relative)} (${reason})`),
    });
    let truncated = false;
    for await (const entry of found) {
      if (!fits(entry)) continue;
      truncated = entries.length === args.limit;
      if (truncated) break;
      entries.push(...(await describe(entry, shown)));
    }
    const cut = truncated
      ? `\n\n[Stopped at ${amount(entries.length, "entry", "entries")}; there are more. List a folder below, narrow it with pattern, depth or ignore, or raise limit.]`
      : "";
    const failures = unreadable.length === 0 ? "" : `\n\n[Could not be read: ${unreadable.join(", ")}.]`;
    return answer(`${render(shown, entries, args)}${cut}${failures}`, {
      path: shown,
      entries: entries.map(({ relative: _, ...entry }) => entry),
      truncated,
      ...(unreadable.length > 0 && { unreadable }),
    });
  },
  metadata: { category: "file", readOnly: true, idempotent: true },
});

async function matcher(pattern: string | undefined): Promise<(entry: WalkEntry) => boolean> {
  if (pattern === undefined) return () => true;
  const glob = await compileGlob(pattern.replace(/^\.?\//, ""));
  return pattern.includes("/") ? (entry) => glob.test(entry.relative) : (entry) => glob.test(entry.name);
}

type ListedEntry = Awaited<ReturnType<typeof describe>>[number];

/** A list with the entry's description; empty when the entry is gone by now. */
async function describe({ name, relative, path, type }: WalkEntry, folder: string) {
  const stats = await entryAt(path);
  if (stats === undefined) return [];
  const target = type === "symlink" ? await readlink(path).catch(() => undefined) : undefined;
  const size = type === "file" ? stats.size : undefined;
  const modified = stats.mtime.toISOString();
  return [
    {
      name,
      relative,
      path: pathIn(folder, relative),
      type,
      ...defined({ size }),
      modified,
      ...defined({ target }),
    },
  ];
}

function pathIn(folder: string, relative: string): string {
  if (folder === "." || relative === "") return relative || folder;
  return `${folder}/${relative}`;
}

function render(shown: string, entries: readonly ListedEntry[], args: ListArguments): string {
  const { pattern } = args;
  const heading = shown === "." ? "The workspace" : `${shown}/`;
  if (entries.length === 0 && pattern !== undefined)
    return `Nothing in ${shown === "." ? "the workspace" : heading} fits ${pattern}.`;
  if (entries.length === 0 && args.all) return `${heading} is empty.`;
  if (entries.length === 0) return `${heading} has nothing to show; all: true shows also what is ignored.`;
  const number = amount(entries.length, "entry", "entries");
  // Matches of a pattern are not adjacent: a tree would need folders that do not match.
  if (pattern !== undefined) {
    const lines = entries.map((entry) => `${entry.relative}${note(entry)}`);
    return [`${heading}: ${number} that fit ${pattern}`, ...lines].join("\n");
  }
  const minutes = (time: string) => time.slice(0, 16).replace("T", " ");
  const tree = renderTree(entries, (entry) =>
    args.recursive ? note(entry) : `${note(entry)}  ${minutes(entry.modified)}`,
  );
  return `${heading}: ${number}\n${tree}`;
}

function note({ type, target, size }: ListedEntry): string {
  if (type === "symlink") return ` -> ${target ?? "?"}`;
  return size === undefined ? "" : `  ${formatSize(size)}`;
}
