import { basename, dirname, join } from "node:path";
import { privatePaths } from "../../access/index.ts";
import * as s from "../../helpers/schema.ts";
import { locateExisting, showPath } from "../paths.ts";
import { answer, defineTool } from "../tool-definition.ts";
import { clipLine, type RipgrepLine, runRipgrep } from "./support/ripgrep.ts";

const input = {
  query: s.text("The regular expression, in ripgrep's syntax; with literal the exact text.", {
    minLength: 1,
  }),
  path: s.text("The folder or file to search; by default the workspace.", { default: "." }),
  literal: s.boolean("Take the query as plain text.", { default: false }),
  ignoreCase: s.boolean("Let upper and lower case match each other.", { default: false }),
  glob: s.list(
    s.text({ minLength: 1 }),
    'Only files that fit one of these, such as "*.ts" or "src/**"; "!*.test.ts" leaves files out.',
    { default: [] },
  ),
  context: s.integer("Lines to show around a match.", { minimum: 0, maximum: 20, default: 0 }),
  limit: s.integer("The most matches, or files.", { minimum: 1, maximum: 5000, default: 100 }),
  filesOnly: s.boolean("Only name the files that match.", { default: false }),
};

type SearchArguments = s.Values<typeof input>;

const lines = s.list(s.text());

const match = s.object({
  path: s.text(),
  line: s.integer(),
  column: s.integer("Where the match begins in the line, from 1."),
  text: s.text("The line; a long one is cut to the part around the match."),
  "before?": lines,
  "after?": lines,
});

export default defineTool({
  name: "search",
  description:
    "Searches the text of the workspace's files with a regular expression (ripgrep). Answers with path, line number and " +
    "line of every match, in order of path, at most 100 by default. Leaves out what .gitignore leaves out, .git, " +
    "node_modules, binary files and files over 32 MB. Finding nothing is a normal answer.",
  input,
  output: {
    "matches?": s.list(match, "Absent with filesOnly."),
    files: s.list(s.text()),
    truncated: s.boolean("There are more matches than the limit."),
  },
  async handler(args, { workspace, signal }) {
    const { real, stats } = await locateExisting(workspace, args.path);
    const isFolder = stats.isDirectory();
    // Searching a pipe without a writer would never end.
    if (!isFolder && !stats.isFile()) throw new Error(`"${args.path}" is neither a file nor a folder.`);
    const folder = isFolder ? real : dirname(real);
    const isPrivate = await privatePaths(workspace);
    const isHidden = (path: string) => isPrivate(join(folder, path));
    const shownFolder = await showPath(workspace, folder);
    const show = (path: string) => (shownFolder === "." ? path : `${shownFolder}/${path}`);
    const options = toOptions(args, isFolder ? "./" : `./${basename(real)}`);
    /** All lines to print, with context, in order. */
    const lines: RipgrepLine[] = [];
    let matches = 0;
    let truncated = false;
    const said = await runRipgrep(options, folder, signal, (line) => {
      if (isHidden(line.path)) return true;
      if (line.match !== undefined) truncated = ++matches > args.limit;
      if (!truncated) lines.push({ ...line, path: show(line.path) });
      return !truncated;
    }).catch((error: Error) => {
      signal.throwIfAborted();
      throw new Error(`ripgrep cannot search for this: ${error.message}`, { cause: error });
    });
    // Messages about files that could not be searched.
    const complaints = said
      .split("\n")
      .filter((line) => !isHidden(/^(?:rg: )?(?:\.\/)?(.*?): /.exec(line)?.[1] ?? "."))
      .join("\n");
    const files = [...new Set(lines.filter(({ match }) => match !== undefined).map(({ path }) => path))];
    const cut = `\n\n[Stopped at ${args.limit} ${args.filesOnly ? "files" : "matches"}; there are more. Narrow the query, path or glob, or raise limit.]`;
    const failures = complaints === "" ? "" : `\n\n[Not everything could be searched: ${complaints}]`;
    const found = args.filesOnly ? files.join("\n") : renderLines(lines);
    const body = files.length === 0 ? nothingFound(args) : found;
    return answer(`${body}${truncated ? cut : ""}${failures}`, {
      ...(!args.filesOnly && { matches: toMatches(lines, args.context) }),
      files,
      truncated,
    });
  },
  metadata: { category: "code", readOnly: true, idempotent: true, tags: ["search", "grep"] },
});

function toOptions(args: SearchArguments, target: string): string[] {
  return [
    "--hidden",
    // The rules of `.gitignore` apply also outside git repositories, and are the same on every machine.
    "--no-require-git",
    "--no-ignore-global",
    // Without an order, it would be random which matches come before the limit.
    "--sort=path",
    "--max-filesize=32M",
    ...(args.literal ? ["--fixed-strings"] : []),
    ...(args.ignoreCase ? ["--ignore-case"] : []),
    ...(args.filesOnly ? ["--max-count=1"] : [`--context=${args.context}`]),
    ...args.glob.map((glob) => `--glob=${glob.replace(/^\.\//, "")}`),
    // These come last because ripgrep obeys the last pattern that fits: the caller cannot undo them.
    "--glob=!.git",
    "--glob=!node_modules",
    "--glob=!.toolrack",
    `--regexp=${args.query}`,
    "--",
    target,
  ];
}

function toMatches(lines: readonly RipgrepLine[], context: number) {
  return lines.flatMap((line, index) => {
    if (line.match === undefined) return [];
    return {
      path: line.path,
      line: line.line,
      column: line.match.start + 1,
      text: clipLine(line.text, line.match),
      ...(context > 0 && {
        before: nearby(lines, index, -1, context).reverse(),
        after: nearby(lines, index, 1, context),
      }),
    };
  });
}

/** The adjacent lines on one side of a match, nearest first. */
function nearby(lines: readonly RipgrepLine[], index: number, step: 1 | -1, most: number): string[] {
  const texts: string[] = [];
  const from = lines[index];
  for (let away = 1; away <= most; away += 1) {
    const line = lines[index + step * away];
    if (line === undefined || line.path !== from?.path || line.line !== from.line + step * away) break;
    texts.push(clipLine(line.text, line.match));
  }
  return texts;
}

function nothingFound({ query, literal, path, glob }: SearchArguments): string {
  const what = literal ? `"${query}"` : `/${query}/`;
  const globs = glob.length === 0 ? "" : `, in files that fit ${glob.join(" ")}`;
  return `Nothing in ${path === "." ? "the workspace" : path} matches ${what}${globs}.`;
}

/** Grouped by file, as grep prints it: `12:` a match, `13-` a line of context, `--` a gap. */
function renderLines(lines: readonly RipgrepLine[]): string {
  const hasContext = lines.some(({ match }) => match === undefined);
  const out: string[] = [];
  let previous: RipgrepLine | undefined;
  for (const line of lines) {
    if (line.path !== previous?.path) out.push(...(previous === undefined ? [] : [""]), line.path);
    else if (hasContext && line.line > previous.line + 1) out.push("--");
    out.push(`${line.line}${line.match === undefined ? "-" : ":"} ${clipLine(line.text, line.match)}`);
    previous = line;
  }
  return out.join("\n");
}
