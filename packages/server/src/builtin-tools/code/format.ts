import type { Stats } from "node:fs";
import { dirname, relative, resolve, sep } from "node:path";
import { guardWrite, isInside, privatePaths, realRoots } from "../../access/index.ts";
import type { InternalTool, InternalToolContext } from "../../calls/index.ts";
import { type Confinement, confinePath, showPath } from "../confine.ts";
import { amount } from "../file/support/contents.ts";
import { entryAt } from "../file/support/entries.ts";
import { changedFiles, type FoundFormatter, fileStamps, findFormatter } from "./support/formatters.ts";

import { type ProgramResult, runProgram } from "./support/programs.ts";

interface FormatArguments {
  readonly path: string;
  readonly check: boolean;
}

/** What is formatted, and where. */
interface Target {
  readonly real: string;
  readonly shown: string;
  readonly root: string;
  readonly isFolder: boolean;
  readonly existing: Stats | undefined;
}

const TIMEOUT = 60_000;
const MOST_OUTPUT = 4000;
const MOST_FILES = 200;

export default {
  name: "format",
  description:
    "Formats a file or folder with the formatter that the project itself uses: Biome, dprint or Prettier, found by its " +
    "config file or package.json. Answers which one ran and which files changed; with check: true nothing is written " +
    "and the files that are not formatted are named. Runs for at most 60 seconds.",
  inputSchema: {
    type: "object",
    properties: {
      path: {
        type: "string",
        description: "The file or folder: relative to the workspace, or absolute inside it.",
      },
      check: { type: "boolean", default: false, description: "Only say what would change." },
    },
    required: ["path"],
  },
  outputSchema: {
    type: "object",
    properties: {
      path: { type: "string" },
      formatter: { enum: ["biome", "dprint", "prettier"] },
      checked: { type: "boolean", description: "Nothing was written." },
      files: {
        type: "array",
        items: { type: "string" },
        description: "Changed, or with check not formatted.",
      },
    },
    required: ["path", "formatter", "checked", "files"],
  },
  async handler(args: FormatArguments, context: InternalToolContext) {
    const { workspace, signal } = context;
    const target = await findTarget(workspace, args.path);
    // Also to check: what a formatter says of a broken file shows a part of it.
    const { shown, existing } = target;
    await guardWrite(context, target.real, { shown, existing, verb: "Format", isAsked: true });
    const found = await findFormatter(target.isFolder ? target.real : dirname(target.real), target.root);
    const files = args.check
      ? await check(workspace, target, found, signal)
      : await write(workspace, target, found, signal);
    const text = report(target.shown, found.formatter.label, files, args.check);
    return {
      content: [{ type: "text", text }],
      structuredContent: { path: target.shown, formatter: found.formatter.name, checked: args.check, files },
    };
  },
  metadata: {
    category: "code",
    idempotent: true,
    // It runs a program that lies in the workspace, where other tools may have written it.
    dangerous: true,
    confirm: "Run the project's own formatter?",
  },
} satisfies InternalTool;

async function findTarget(workspace: Confinement, path: string): Promise<Target> {
  const real = await confinePath(workspace, path, { mustExist: true });
  const roots = await realRoots(workspace);
  const entry = await entryAt(real);
  const root = roots.find((candidate) => isInside(candidate, real)) ?? real;
  const shown = await showPath(workspace, real);
  return { real, shown, root, isFolder: entry?.isDirectory() === true, existing: entry };
}

async function check(
  workspace: Confinement,
  target: Target,
  found: FoundFormatter,
  signal: AbortSignal,
): Promise<string[]> {
  const { formatter, folder } = found;
  const result = await run(found, formatter.check(argument(folder, target.real)), signal);
  const paths = formatter.unformatted(result);
  if (paths === undefined) throw failed(target.shown, found, result);
  return Promise.all(paths.map((path) => showPath(workspace, resolve(folder, path))));
}

async function write(
  workspace: Confinement,
  target: Target,
  found: FoundFormatter,
  signal: AbortSignal,
): Promise<string[]> {
  const isPrivate = await privatePaths(workspace);
  const stamps = () => fileStamps(target.real, target.root, target.isFolder, isPrivate, signal);
  const before = await stamps();
  const result = await run(found, found.formatter.write(argument(found.folder, target.real)), signal);
  const changed = changedFiles(before, await stamps());
  const files = await Promise.all(changed.map((path) => showPath(workspace, path)));
  if (result.code !== 0) throw failed(target.shown, found, result, files);
  return files;
}

function run(
  { program, folder }: FoundFormatter,
  args: readonly string[],
  signal: AbortSignal,
): Promise<ProgramResult> {
  return runProgram(program, args, { folder, signal, timeout: TIMEOUT }).catch((error: Error) => {
    signal.throwIfAborted();
    throw new Error(`The formatter could not be run: ${error.message}`, { cause: error });
  });
}

/** Relative, because formatters match their config's patterns so; marked as a path, because a name may look like an option. */
function argument(folder: string, real: string): string {
  return `./${relative(folder, real).split(sep).join("/")}`;
}

function report(shown: string, label: string, files: readonly string[], isCheck: boolean): string {
  if (files.length === 0)
    return isCheck ? `${label}: ${shown} is formatted.` : `${label} found nothing to change in ${shown}.`;
  const listed = files
    .slice(0, MOST_FILES)
    .map((file) => `\n${file}`)
    .join("");
  const more = files.length > MOST_FILES ? `\n[And ${files.length - MOST_FILES} more.]` : "";
  const what = isCheck ? `${label} would change` : `${label} changed`;
  return `${what} ${amount(files.length, "file")}:${listed}${more}`;
}

function failed(
  shown: string,
  found: FoundFormatter,
  result: ProgramResult,
  changed: readonly string[] = [],
): Error {
  const output = `${result.stderr}\n${result.stdout}`.trim();
  const said = output.length > MOST_OUTPUT ? `${output.slice(0, MOST_OUTPUT)}…` : output;
  const done = changed.length === 0 ? "" : `\nChanged before that: ${changed.join(", ")}.`;
  return new Error(
    `${found.formatter.label} could not format ${shown} (exit code ${result.code}):\n${said}${done}`,
  );
}
