import { dirname, relative, resolve, sep } from "node:path";
import { guardWrite, isInside, realRoots } from "../../access/index.ts";
import * as s from "../../helpers/schema.ts";
import { locateExisting, showPath } from "../paths.ts";
import { amount, answer, defineTool } from "../tool-definition.ts";
import { fileStamps, findFormatter, type ProgramResult, runProgram } from "./support/formatters.ts";

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
    path: s.text("The file or folder: relative to the workspace, or absolute inside it."),
    check: s.boolean("Only say what would change.", { default: false }),
  },
  output: {
    path: s.text(),
    formatter: s.choice(["biome", "dprint", "prettier"]),
    checked: s.boolean("Nothing was written."),
    files: s.list(s.text(), "Changed, or with check not formatted."),
  },
  async handler(args, context) {
    const { workspace, signal } = context;
    const place = await locateExisting(workspace, args.path);
    const { real, shown, stats } = place;
    // Also guarded for a mere check: a formatter's message about a broken file shows a part of that file.
    await guardWrite(context, real, { shown, existing: stats, verb: "Format", isAsked: true });
    const root = (await realRoots(workspace)).find((candidate) => isInside(candidate, real)) ?? real;
    const found = await findFormatter(stats.isDirectory() ? real : dirname(real), root);
    const { formatter, folder } = found;
    // The path is relative, for the patterns of the formatter's config. It begins with `./`, because a file's
    // name may look like an option.
    const path = `./${relative(folder, real).split(sep).join("/")}`;
    const before = args.check ? new Map() : await fileStamps(workspace, place, signal);
    const words = args.check ? formatter.check(path) : formatter.write(path);
    const options = { folder, signal, timeout: TIMEOUT };
    const result = await runProgram(found.program, words, options).catch((error: Error) => {
      signal.throwIfAborted();
      throw new Error(`The formatter could not be run: ${error.message}`, { cause: error });
    });
    const after = args.check ? new Map() : await fileStamps(workspace, place, signal);
    const changed = [...after].filter(([file, stamp]) => before.get(file) !== stamp).map(([file]) => file);
    const unformatted = args.check ? formatter.unformatted(result) : undefined;
    const touched = unformatted?.map((file) => resolve(folder, file)) ?? changed;
    const files = await Promise.all(touched.map((file) => showPath(workspace, file)));
    if (args.check ? unformatted === undefined : result.code !== 0)
      throw failed(shown, formatter.label, result, files);
    return answer(report(shown, formatter.label, files, args.check), {
      path: shown,
      formatter: formatter.name,
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

function failed(shown: string, label: string, result: ProgramResult, changed: readonly string[]): Error {
  const output = `${result.stderr}\n${result.stdout}`.trim();
  const said = output.length > MOST_OUTPUT ? `${output.slice(0, MOST_OUTPUT)}…` : output;
  const done = changed.length === 0 ? "" : `\nChanged before that: ${changed.join(", ")}.`;
  return new Error(`${label} could not format ${shown} (exit code ${result.code}):\n${said}${done}`);
}
