import { failures, type LoadReport, whereOf } from "./load-report.ts";

/** What a load found, loaded and refused, line by line, for the log. */
export function describeLoad(report: LoadReport): { readonly info: string[]; readonly warn: string[] } {
  const { files, added, changed, removed, duration } = report;
  const refused = failures(report);
  const tools = files.flatMap((file) => file.tools);
  return {
    info: [
      `[loader] found ${files.length} tool files`,
      ...added.map((name) => `[loader] loaded tool: ${name}`),
      ...changed.map((name) => `[loader] loaded again: ${name}`),
      ...removed.map((name) => `[loader] removed tool: ${name}`),
      `[loader] ${tools.length} tools of ${files.length - refused.length} files serve, ${refused.length} files refused (${Math.round(duration)} ms)`,
    ],
    warn: [
      ...files.flatMap(({ file, warnings }) => warnings.map((warning) => `[loader] ${file}: ${warning}`)),
      ...refused.map(
        (failure) => `[loader] refused ${whereOf(failure)}: ${failure.reason} ${failure.remedy}`,
      ),
    ],
  };
}
