import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import type { ToolInfo } from "@toolrack/core";
import { isHelperTool } from "../../calls/index.ts";
import { problemOfToolPattern, toolMatcher, usualFolders, usualFoldersIn } from "../../config/index.ts";
import type { FileReport, LoadReport } from "../../files/index.ts";
import { whereOf } from "../../helpers/values.ts";
import type { Finding } from "../../lint/index.ts";
import type { App } from "../../rack/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, exitCodes, usageError } from "../cli-error.ts";
import { withAllTools } from "../rack-tools.ts";
import { ServerClient } from "../server-client.ts";
import { amount, formatDuration, oneLine, printable } from "../text.ts";
import {
  configOf,
  describeFailure,
  entryAt,
  failuresIn,
  findWorkspace,
  type WithAppOptions,
  withApp,
  workspaceMark,
} from "../workspace.ts";

type Status = FileReport["status"];

const marks: Record<Status, { text: string; style: "green" | "yellow" | "red" | "dim" }> = {
  loaded: { text: "loaded ", style: "green" },
  adapted: { text: "adapted", style: "yellow" },
  stale: { text: "stale  ", style: "red" },
  failed: { text: "failed ", style: "red" },
  helper: { text: "helper ", style: "dim" },
};

/** `toolrack check`: whether every tool file loads, and if not, why. */
export async function check(
  cli: Cli,
  path: string | undefined,
  { watch = false, lint = false }: { readonly watch?: boolean; readonly lint?: boolean },
): Promise<void> {
  if (watch && lint) throw usageError("--watch does not go with --lint. Run them one after the other.");
  const subject = await subjectOf(cli, path);
  // A check writes nothing into the project.
  return withApp(cli, { ...subject.open, cache: false, isCheck: true }, async (app) => {
    const report = narrowed(app.report, subject);
    const found = lint ? await lintFiles(app, report) : undefined;
    print(cli, report, watch, found);
    if (watch) await follow(cli, app, subject);
    else if (failuresIn(report).length > 0 || found?.items.length) cli.exitCode = exitCodes.failure;
  });
}

/** Lints the tools of the files, beside all others that can be had without a server. */
async function lintFiles(app: App, { files }: LoadReport): Promise<LintResult> {
  const own = new Set(files.map(({ file }) => file));
  return lintTools(app, ({ origin = "" }) => own.has(origin));
}

function narrowed(report: LoadReport, { open, only }: Subject): LoadReport {
  if (only === undefined) return report;
  return {
    ...report,
    files: report.files.filter(({ file }) => isInside(resolve(open.directory, file), only)),
  };
}

function print(cli: Cli, report: LoadReport, isFirstOfMany: boolean, found?: LintResult): void {
  const counts = countsOf(report);
  if (cli.json && isFirstOfMany) {
    cli.printJsonLine({ ...report, counts });
    return;
  }
  cli.answer({ ...report, counts, ...(found && { findings: found.items }) }, () => {
    for (const file of report.files) printFile(cli, file);
    if (report.files.length === 0) cli.talk("There are no tool files here.");
    const summary = Object.entries(counts).flatMap(([status, count]) =>
      count > 0 ? `${count} ${status}` : [],
    );
    const files = [amount(report.files.length, "file"), summary.join(", ")].filter(Boolean).join(": ");
    cli.print(`${files} (${formatDuration(report.duration)})`);
    if (found !== undefined) printFindings(cli, found);
  });
}

function printFile(cli: Cli, { file, status, contract, tools, warnings, failure }: FileReport): void {
  const { text, style } = marks[status];
  const where = failure === undefined ? file : whereOf(failure);
  const what = contract === undefined ? "" : oneLine(`${contract}: ${namesOf(tools)}`);
  cli.print(`${cli.style(style, text)}  ${oneLine(where)}  ${what}`.trimEnd());
  const notes = failure === undefined ? warnings : [...warnings, failure.reason, failure.remedy];
  for (const note of notes) cli.print(`         ${printable(note).replaceAll("\n", "\n         ")}`);
}

function countsOf({ files }: LoadReport): Record<Status, number> {
  const counts: Record<Status, number> = { loaded: 0, adapted: 0, stale: 0, failed: 0, helper: 0 };
  for (const { status } of files) counts[status]++;
  return counts;
}

/** Reports every reload until Ctrl-C, the normal end of a watch. */
async function follow(cli: Cli, app: App, subject: Subject): Promise<void> {
  const interrupted = cli.untilInterrupt();
  app.watch((whole) => {
    const report = narrowed(whole, subject);
    if (cli.json) cli.printJsonLine({ ...report, counts: countsOf(report) });
    else printReload(cli, report);
  });
  cli.talk(`Watching ${relative(cli.cwd, subject.open.directory) || "."}; Ctrl-C ends it.`);
  await interrupted;
}

function printReload(cli: Cli, { compiled, added, changed, removed, duration, files }: LoadReport): void {
  if (compiled.length === 0 && removed.length === 0) return;
  const changes = describeChanges({ added, changed, removed });
  const time = new Date().toLocaleTimeString("en-GB");
  cli.print(`${time}  ${changes || compiled.join(", ")}  (${formatDuration(duration)})`);
  for (const file of files) {
    if (compiled.includes(file.file) && file.failure !== undefined) cli.print(describeFailure(file.failure));
  }
}

/** `added a, b; removed c`; empty without changes. */
export function describeChanges(changes: Pick<LoadReport, "added" | "changed" | "removed">): string {
  return Object.entries(changes)
    .filter(([, names]) => names.length > 0)
    .map(([how, names]) => `${how} ${namesOf(names)}`)
    .join("; ");
}

/** A file may have thousands of tools; `--json` has all their names. */
const MOST_NAMES = 30;

function namesOf(tools: readonly string[]): string {
  const rest = tools.length - MOST_NAMES;
  return rest <= 0 ? tools.join(", ") : `${tools.slice(0, MOST_NAMES).join(", ")} and ${rest} more`;
}

/** What a check opens, and the path whose files it reports. */
interface Subject {
  readonly open: WithAppOptions & { readonly directory: string };
  readonly only?: string;
}

const usualNames = ["tools", "tool", "internal-tools"];

const script = /\.[mc]?[jt]sx?$/;
/** Matches the text of a tool file of any contract, because files are recognised before they are evaluated. */
const toolText =
  /\b(?:inputSchema|handler|getSchema)\b|\bTool\.define\b|@opencode-ai\/plugin|export const schema\b|exports\.schema\b/;

/**
 * Decides which files to check. A check runs the top level of files, so only files that are meant as tools are chosen.
 * A workspace is checked as a whole. A file or folder inside the tool folders of a workspace is checked as a part of
 * it, because its place decides the names of its tools. In any other project the usual tool folders are checked.
 */
async function subjectOf(cli: Cli, given: string | undefined): Promise<Subject> {
  if (given === undefined) return { open: { directory: findWorkspace(cli) } };
  const path = resolve(cli.cwd, given);
  const entry = entryAt(path);
  if (entry === undefined) {
    throw new CliError(`There is nothing at ${path}.`, { code: "no_workspace", details: { path } });
  }
  if (entry.isDirectory() && workspaceMark(path) !== undefined) return { open: { directory: path } };
  const folder = entry.isDirectory() ? path : dirname(path);
  const workspace = workspaceAround(folder);
  if (
    workspace !== undefined &&
    (await toolFolders(cli, workspace)).some((tools) => isInside(folder, tools))
  ) {
    return { open: { directory: workspace }, only: path };
  }
  return foreignSubject(cli, path, folder);
}

/** Whether `path` is `folder` or lies in it. Both are absolute. */
function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder + sep);
}

function foreignSubject(cli: Cli, path: string, folder: string): Subject {
  const around = toolFolderAround(folder);
  if (around !== undefined) return { open: { directory: around, folders: [around] }, only: path };
  // When one file is named, only that file runs.
  if (path !== folder) return { open: { directory: folder, folders: [path] } };
  const inside = usualFoldersIn(folder).map((place) => join(folder, place));
  if (inside.length > 0) return { open: { directory: folder, folders: inside } };
  if (usualNames.includes(basename(folder)) || hasToolFilesOnly(folder)) {
    return { open: { directory: folder, folders: [folder] } };
  }
  throw new CliError(
    `${folder} is no workspace, and there are no tools in it where tools usually are (${usualFolders.join(", ")}). ` +
      `Checking runs the files, so name the folder of the tool files: ${cli.commandLine("check PATH/TO/TOOLS")}`,
    { code: "no_tool_folder", details: { path: folder } },
  );
}

/** The tool folder around the path, from which tool names are built. */
function toolFolderAround(folder: string): string | undefined {
  for (let at = folder; at !== dirname(at) && !isProject(at); at = dirname(at)) {
    if (basename(at) === "internal-tools" || at.endsWith(join(sep, ".opencode", "tool"))) return at;
  }
  return undefined;
}

/**
 * The workspace around the folder. A project that was cloned into a tools folder is not part of the workspace
 * around it.
 */
function workspaceAround(folder: string): string | undefined {
  for (let at = folder; at !== dirname(at); at = dirname(at)) {
    if (workspaceMark(at) !== undefined) return at;
    if (isProject(at)) return undefined;
  }
  return undefined;
}

function isProject(folder: string): boolean {
  return existsSync(join(folder, ".git"));
}

/** The tool folders of a workspace. Reads its config and loads no tool. */
async function toolFolders(cli: Cli, directory: string): Promise<string[]> {
  if (configOf(directory) === undefined) return [join(directory, "tools")];
  return withApp(cli, { directory, folders: [], cache: false, isCheck: true }, async ({ config }) =>
    (config.tools ?? ["tools"]).map((folder) => resolve(directory, folder)),
  );
}

function hasToolFilesOnly(folder: string): boolean {
  const entries = readdirSync(folder, { withFileTypes: true }).filter(({ name }) => !name.startsWith("."));
  const isToolFile = (name: string) =>
    script.test(name) && toolText.test(readFileSync(join(folder, name), "utf8"));
  return entries.length > 0 && entries.every((entry) => entry.isFile() && isToolFile(entry.name));
}

/** What lint found, in how many tools. */
export interface LintResult {
  readonly items: readonly Finding[];
  /** How many findings there are, if these are not all. */
  readonly total?: number;
  /** How many tools were looked at. */
  readonly tools: number;
}

/** `toolrack lint`: what in the definitions of tools misleads models. A running server is asked. */
export async function lint(cli: Cli, pattern = "*"): Promise<void> {
  const problem = problemOfToolPattern(pattern);
  if (problem !== undefined) throw usageError(problem);
  const server = await ServerClient.findIfAny(cli);
  const result =
    server === undefined
      ? await withAllTools(cli, (app) => lintTools(app, toolMatcher([pattern])))
      : await server.ask<LintResult>(`/api/lint?limit=10000&tools=${encodeURIComponent(pattern)}`);
  if (result.tools === 0 && pattern !== "*") {
    const message = `No tool fits "${pattern}". See all of them with: ${cli.commandLine("list")}`;
    throw new CliError(message, { code: "tool_not_found", exitCode: exitCodes.noSuchTool });
  }
  const { items: findings, total = findings.length, tools } = result;
  const isPart = total > findings.length;
  cli.answer({ findings, ...(isPart && { total }), tools }, () => printFindings(cli, result));
  if (result.items.length > 0) cli.exitCode = exitCodes.failure;
}

/** Lints those tools of an opened workspace that fit, beside all others that are enabled. */
export async function lintTools(app: App, fits: (tool: ToolInfo) => boolean): Promise<LintResult> {
  const { Linter, readSwitches } = await import("../../lint/index.ts");
  const { registry, config, workspace } = app;
  const all = registry.list().filter(({ name }) => !isHelperTool(name));
  const chosen = all.filter(fits);
  const linter = await Linter.open(all, config.lint);
  const items = await linter.lint(await readSwitches(workspace.directory, chosen), chosen);
  return { items, tools: chosen.length };
}

/** Prints the findings, one tool after the other. */
export function printFindings(cli: Cli, { items, total = items.length, tools }: LintResult): void {
  for (const [tool, findings] of Map.groupBy(items, (finding) => finding.tool)) {
    cli.print(cli.style("bold", tool));
    for (const { code, reason, remedy } of findings) {
      cli.print(`  ${cli.style("yellow", code)}  ${printable(reason)}`);
      cli.print(cli.style("dim", `    ${printable(remedy)}`));
    }
  }
  const found = total === 0 ? "nothing to mend" : amount(total, "finding");
  cli.print(`${amount(tools, "tool")}: ${found}`);
  if (total > items.length) cli.talk(`Shown are the first ${items.length}. Name a pattern to see others.`);
}
