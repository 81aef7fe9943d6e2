import { relative, resolve } from "node:path";
import type { App, FileReport, LoadReport } from "../../index.ts";
import { type CheckSubject, checkSubject, isInside } from "../check/check-subject.ts";
import type { Cli } from "../cli.ts";
import { exitCodes } from "../exit-codes.ts";
import { describeFailure, whereOf } from "../file-problems.ts";
import { formatDuration } from "../text/duration.ts";
import { oneLine, printable } from "../text/printable.ts";
import { withApp } from "../with-app.ts";

export interface CheckOptions {
  readonly watch?: boolean;
}

type Status = FileReport["status"];

const marks: Record<Status, { text: string; style: "green" | "yellow" | "red" | "dim" }> = {
  loaded: { text: "loaded ", style: "green" },
  adapted: { text: "adapted", style: "yellow" },
  stale: { text: "stale  ", style: "red" },
  failed: { text: "failed ", style: "red" },
  helper: { text: "helper ", style: "dim" },
};

/** `toolrack check`: what became of every tool file, and why. */
export async function check(
  cli: Cli,
  path: string | undefined,
  { watch = false }: CheckOptions,
): Promise<number> {
  const subject = await checkSubject(cli, path);
  // Looking at somebody's project leaves nothing behind in it.
  return withApp(cli, { ...subject.open, cache: false }, async (app) => {
    const report = narrowed(app.report, subject);
    print(cli, report, watch);
    if (watch) return follow(cli, app, subject);
    return hasFailed(report) ? exitCodes.failure : exitCodes.ok;
  });
}

function narrowed(report: LoadReport, { open, only }: CheckSubject): LoadReport {
  if (only === undefined) return report;
  return {
    ...report,
    files: report.files.filter(({ file }) => isInside(resolve(open.directory, file), only)),
  };
}

function print(cli: Cli, report: LoadReport, isFirstOfMany: boolean): void {
  const counts = countsOf(report);
  if (cli.json) {
    if (isFirstOfMany) cli.printJsonLine({ ...report, counts });
    else cli.printJson({ ...report, counts });
    return;
  }
  for (const file of report.files) printFile(cli, file);
  if (report.files.length === 0) cli.talk("There are no tool files here.");
  const summary = Object.entries(counts).map(([status, count]) => `${count} ${status}`);
  cli.print(`${report.files.length} files: ${summary.join(", ")} (${formatDuration(report.duration)})`);
}

function printFile(cli: Cli, { file, status, contract, tools, warnings, failure }: FileReport): void {
  const { text, style } = marks[status];
  const where = failure === undefined ? file : whereOf(failure);
  const what = contract === undefined ? "" : oneLine(`${contract}: ${tools.join(", ")}`);
  cli.print(`${cli.style(style, text)}  ${oneLine(where)}  ${what}`.trimEnd());
  for (const warning of warnings) cli.print(`         ${printable(warning)}`);
  if (failure !== undefined) {
    cli.print(`         ${printable(failure.reason).replaceAll("\n", "\n         ")}`);
    cli.print(`         ${printable(failure.remedy)}`);
  }
}

function countsOf({ files }: LoadReport): Record<Status, number> {
  const counts: Record<Status, number> = { loaded: 0, adapted: 0, stale: 0, failed: 0, helper: 0 };
  for (const { status } of files) counts[status]++;
  return counts;
}

function hasFailed(report: LoadReport): boolean {
  return report.files.some(({ failure }) => failure !== undefined);
}

/** Tells of every reload until Ctrl-C, which is how a watch ends and no failure. */
function follow(cli: Cli, app: App, subject: CheckSubject): Promise<number> {
  return new Promise((resolve) => {
    cli.onInterrupt(() => resolve(exitCodes.ok));
    app.watch((whole) => {
      const report = narrowed(whole, subject);
      if (cli.json) cli.printJsonLine({ ...report, counts: countsOf(report) });
      else printReload(cli, report);
    });
    cli.talk(`Watching ${relative(process.cwd(), subject.open.directory) || "."}; Ctrl-C ends it.`);
  });
}

function printReload(cli: Cli, { compiled, added, changed, removed, duration, files }: LoadReport): void {
  if (compiled.length === 0 && removed.length === 0) return;
  const parts = [named("added", added), named("changed", changed), named("removed", removed)].filter(Boolean);
  const time = new Date().toLocaleTimeString("en-GB");
  cli.print(`${time}  ${parts.join("; ") || compiled.join(", ")}  (${formatDuration(duration)})`);
  for (const file of files) {
    if (compiled.includes(file.file) && file.failure !== undefined) cli.print(describeFailure(file.failure));
  }
}

function named(what: string, names: readonly string[]): string {
  return names.length === 0 ? "" : `${what} ${names.join(", ")}`;
}
