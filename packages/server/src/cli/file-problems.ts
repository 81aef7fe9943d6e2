import type { FileReport, LoadReport } from "../index.ts";
import type { Cli } from "./cli.ts";
import { printable } from "./text/printable.ts";

type Failure = NonNullable<FileReport["failure"]>;

/** Files that could not be loaded, in whole or in their newest version. */
export function failuresIn(report: LoadReport): Failure[] {
  return report.files.flatMap(({ failure }) => (failure === undefined ? [] : [failure]));
}

/** `tools/a.ts:12` */
export function whereOf({ file, line }: Failure): string {
  return line === undefined ? file : `${file}:${line}`;
}

/** What failed and what would fix it, in two or more lines. */
export function describeFailure(failure: Failure): string {
  return printable(`${whereOf(failure)}: ${failure.reason}\n  ${failure.remedy}`);
}

/** Tells of every file that failed. */
export function talkFailures(cli: Cli, report: LoadReport): void {
  const failed = failuresIn(report);
  if (failed.length === 0) return;
  cli.talk(
    cli.styleTalk("red", `${failed.length} ${failed.length === 1 ? "file" : "files"} failed to load:`),
  );
  for (const failure of failed) cli.talk(describeFailure(failure));
}
