import { dirname, relative, resolve, sep } from "node:path";
import { guardWrite, isInside, realRoots } from "../../access/index.ts";
import { amount, answer, defineTool, field, flag, list, text } from "../define.ts";
import { type Confinement, type ExistingPlace, locateExisting, showPath } from "../paths.ts";
import {
  type FoundFormatter,
  fileStamps,
  findFormatter,
  type ProgramResult,
  runProgram,
} from "./support/formatters.ts";

const TIMEOUT = 60_000;
const MOST_OUTPUT = 4000;
const MOST_FILES = 200;

export default defineTool({
  name: "format",
  description:
    "Formats a file or folder with the formatter that the project itself uses: Biome, dprint or Prettier, found by its " +
    "config file or package.json. Answers which one ran and which files changed; with check: true nothing is written " +
    "and the files that are not formatted are named. Runs for at most 60 seconds.",
  input: {
    path: text("The file or folder: relative to the workspace, or absolute inside it."),
    check: flag("Only say what would change.", { default: false }),
  },
  output: {
    path: text(),
    formatter: field({ enum: ["biome", "dprint", "prettier"] }),
    checked: flag("Nothing was written."),
    files: list(text(), "Changed, or with check not formatted."),
  },
  async handler(args, context) {
    const { workspace, signal } = context;
    const place = await locateExisting(workspace, args.path);
    const { real, shown, stats } = place;
    // Also for a check: a formatter's message about a broken file shows a part of it.
    await guardWrite(context, real, { shown, existing: stats, verb: "Format", isAsked: true });
    const root = (await realRoots(workspace)).find((candidate) => isInside(candidate, real)) ?? real;
    const found = await findFormatter(stats.isDirectory() ? real : dirname(real), root);
    const files = await (args.check ? check : write)(workspace, place, found, signal);
    return answer(report(shown, found.formatter.label, files, args.check), {
      path: shown,
      formatter: found.formatter.name,
      checked: args.check,
      files,
    });
  },
  metadata: {
    category: "code",
    idempotent: true,
    // It runs a program of the workspace, which other tools may have written.
    dangerous: true,
    confirm: "Run the project's own formatter?",
  },
});

async function check(
  workspace: Confinement,
  { real, shown }: ExistingPlace,
  found: FoundFormatter,
  signal: AbortSignal,
): Promise<string[]> {
  const { formatter, folder } = found;
  const result = await run(found, formatter.check(argument(folder, real)), signal);
  const paths = formatter.unformatted(result);
  if (paths === undefined) throw failed(shown, found, result);
  return Promise.all(paths.map((path) => showPath(workspace, resolve(folder, path))));
}

async function write(
  workspace: Confinement,
  place: ExistingPlace,
  found: FoundFormatter,
  signal: AbortSignal,
): Promise<string[]> {
  const before = await fileStamps(workspace, place, signal);
  const result = await run(found, found.formatter.write(argument(found.folder, place.real)), signal);
  const after = await fileStamps(workspace, place, signal);
  const changed = [...after].filter(([path, stamp]) => before.get(path) !== stamp);
  const files = await Promise.all(changed.map(([path]) => showPath(workspace, path)));
  if (result.code !== 0) throw failed(place.shown, found, result, files);
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

/** Relative, for the patterns of the formatter's config; with `./`, because a name may look like an option. */
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
