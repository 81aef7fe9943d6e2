import { readdirSync, type Stats, statSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { format } from "node:util";
import type { Logger } from "@toolrack/core";
import type { FileReport, LoadReport } from "../files/index.ts";
import { isRecord, whereOf } from "../helpers/values.ts";
import type { App, OpenOptions } from "../rack/index.ts";
import type { Store } from "../store/index.ts";
import type { Cli } from "./cli.ts";
import { CliError } from "./cli-error.ts";
import { amount, printable } from "./text.ts";

const configFile = /^toolrack\.config\.(?:ts|mts|js|mjs|cjs)$/;

/**
 * The workspace to open: the one of `--dir`, or else the nearest folder upwards that looks like a workspace, or else
 * the current folder.
 */
export function findWorkspace({ directory, cwd }: Pick<Cli, "directory" | "cwd">): string {
  if (directory !== undefined) return existingFolder(resolve(cwd, directory));
  for (let folder = cwd; ; folder = dirname(folder)) {
    const mark = workspaceMark(folder);
    if (mark !== undefined) return folder === cwd ? folder : trusted(folder, mark);
    if (folder === dirname(folder)) return cwd;
  }
}

/** The config file or the tools folder that makes the folder a workspace. */
export function workspaceMark(folder: string): string | undefined {
  const config = configOf(folder);
  if (config !== undefined) return config;
  const tools = join(folder, "tools");
  return entryAt(tools)?.isDirectory() === true ? tools : undefined;
}

export function configOf(folder: string): string | undefined {
  try {
    const name = readdirSync(folder).find((candidate) => configFile.test(candidate));
    return name === undefined ? undefined : join(folder, name);
  } catch {
    return undefined;
  }
}

function existingFolder(path: string): string {
  const entry = entryAt(path);
  if (entry?.isDirectory() === true) return path;
  const problem = entry === undefined ? "There is no folder" : "This is not a folder:";
  throw new CliError(`${problem} ${path}. Name the workspace with --dir, or create it first.`, {
    code: "no_workspace",
    details: { path },
  });
}

export function entryAt(path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false });
}

/**
 * Opening a workspace runs its code. A folder found on the way up, in /tmp for instance, is refused when another user
 * put it there.
 */
function trusted(folder: string, mark: string): string {
  const owner = entryAt(mark)?.uid;
  if (owner === 0 || process.getuid === undefined || owner === process.getuid()) return folder;
  throw new CliError(
    `${mark} belongs to another user, so its tools are not loaded unasked. Name the workspace: --dir ${folder}`,
    { code: "foreign_workspace", details: { path: mark } },
  );
}

export interface WithAppOptions extends Partial<OpenOptions> {
  /** Absolute. Default: the workspace that `findWorkspace` finds. */
  readonly directory?: string;
}

/** Opens the workspace, uses it, and closes it whatever happens. */
export async function withApp<Result>(
  cli: Cli,
  { directory = findWorkspace(cli), ...options }: WithAppOptions,
  use: (app: App) => Promise<Result>,
): Promise<Result> {
  // Imported late, so that help and usage errors do not wait for the whole program.
  const { openWorkspace } = await import("../rack/index.ts");
  const tellMade = watchMade(cli, directory);
  const app = await opening(cli, directory, () =>
    openWorkspace(directory, { logger: talkingLogger(cli), ...options }),
  );
  try {
    return await use(app);
  } finally {
    await Promise.race([app.close(), wait(cli.patience)]);
    tellMade();
  }
}

/** What Toolrack makes in a workspace by itself, and what each is for. */
const made = {
  ".toolrack": "the records of calls, caches and the token of this workspace. Keep it out of version control",
  "log/ToolBox.log": "the log of this workspace, one line for each call",
};

/** Returns a function that explains what of this was made since. */
export function watchMade(cli: Cli, directory: string): () => void {
  const missing = Object.entries(made).filter(([name]) => entryAt(join(directory, name)) === undefined);
  return () => {
    for (const [name, purpose] of missing)
      if (!cli.json && entryAt(join(directory, name)) !== undefined) cli.talk(`Made ${name}: ${purpose}.`);
  };
}

/**
 * Opens a workspace. It becomes the working directory, so that a tool file's `process.cwd()` and relative paths mean the
 * same whoever starts the program, and from where. Turns an error in its config into a `CliError`.
 */
export async function opening<Opened>(
  { surroundings }: Pick<Cli, "surroundings">,
  root: string,
  open: () => Promise<Opened>,
): Promise<Opened> {
  try {
    surroundings.chdir?.(root);
    return await open();
  } catch (thrown) {
    // Recognised by its shape, because importing the class would load the whole tool loader.
    const { name, message, remedy, line, path } = isRecord(thrown) ? thrown : {};
    if (name !== "LoadError" || remedy === undefined) throw thrown;
    const file = typeof path === "string" ? relative(root, path) : "the config";
    const where = line === undefined ? file : `${file}:${line}`;
    const details = { file, ...(line === undefined ? {} : { line }), reason: message, remedy };
    throw new CliError(`${where}: ${message} ${remedy}`, { code: "config_invalid", details });
  }
}

/** Opens the store of the workspace without its tools, uses it, and closes it whatever happens. */
export async function withStore<Result>(
  cli: Cli,
  use: (store: Store, directory: string) => Promise<Result>,
): Promise<Result> {
  const workspace = findWorkspace(cli);
  const directory = join(workspace, ".toolrack");
  // Loads `.env` as the server does, because it may name the database.
  const { loadEnvironment } = await import("../config/index.ts");
  const logger = warningLogger(cli);
  const forget = await loadEnvironment(workspace, logger);
  // Imported late, so that help and usage errors do not wait for the database.
  const { openStore } = await import("../store/index.ts");
  try {
    const store = await openStore({ directory, logger, url: process.env.DATABASE_URL ?? "" });
    try {
      return await use(store, directory);
    } finally {
      await store.close();
    }
  } finally {
    forget();
  }
}

/** Prints warnings and errors to standard error, and nothing else. */
export function warningLogger(cli: Cli): Logger {
  const warn = (text: unknown) => cli.talk(String(text));
  return { debug() {}, info() {}, warn, error: warn };
}

/**
 * Prints log messages of tools to standard error. Messages of the loader are left out unless `isTold` wants them,
 * because most commands report them in their own form.
 */
export function talkingLogger(
  cli: Cli,
  isTold: (line: string, isWarning: boolean) => boolean = () => false,
): Logger {
  const { TOOLRACK_DEBUG, LC_ALL, LC_MESSAGES, LANG } = cli.surroundings.env;
  const isVerbose = TOOLRACK_DEBUG !== undefined;
  const isChinese = (LC_ALL || LC_MESSAGES || LANG || "").startsWith("zh");
  const say =
    (prefix: string) =>
    (...values: unknown[]) => {
      const line = String(values[0]);
      if (!isVerbose && line.startsWith("[loader] ") && !isTold(line, prefix !== "")) return;
      // The line that the skills' contract asks for is Chinese.
      if (!isVerbose && !isChinese && line.startsWith("[ToolManager] ")) return;
      cli.talk(prefix + printable(format(...values)));
    };
  return {
    debug: isVerbose ? say("debug: ") : () => {},
    info: say(""),
    warn: say("warning: "),
    error: say("error: "),
  };
}

type Failure = NonNullable<FileReport["failure"]>;

/** The failures of files that could not be loaded, or whose newest version could not. */
export function failuresIn(report: Pick<LoadReport, "files">): Failure[] {
  return report.files.flatMap(({ failure }) => (failure === undefined ? [] : [failure]));
}

/** What failed and what would fix it, in two or more lines. */
export function describeFailure(failure: Failure): string {
  return printable(`${whereOf(failure)}: ${failure.reason}\n  ${failure.remedy}`);
}

export function talkFailures(cli: Cli, report: Pick<LoadReport, "files">): void {
  const failed = report.files.filter(({ failure }) => failure !== undefined);
  if (failed.length === 0) return;
  cli.talk(cli.styleTalk("red", `${amount(failed.length, "file")} failed to load:`));
  for (const { status, tools, failure } of failed) {
    cli.talk(describeFailure(failure!)); // Files without one are filtered out above.
    if (status === "stale") cli.talk(`  The last good version goes on serving: ${tools.join(", ")}`);
  }
}
