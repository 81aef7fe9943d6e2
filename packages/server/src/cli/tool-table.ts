import type { ToolInfo } from "@toolrack/core";
import type { Cli } from "./cli.ts";
import { oneLine } from "./text/printable.ts";
import { renderTable } from "./text/render-table.ts";

/** Tools as people read them: one a line, clipped to the terminal. */
export function printTools(cli: Cli, tools: readonly ToolInfo[]): void {
  const rows = tools.map((info) => [info.name, aboutOf(info), oneLine(info.origin ?? "")]);
  const lines = renderTable(rows, {
    head: ["NAME", "DESCRIPTION", "FROM"],
    columns: cli.columns,
    flexible: 1,
    styleHead: (text) => cli.style("dim", text),
  });
  for (const line of lines) cli.print(line);
}

function aboutOf({ name, title, displayName, description = "", disabled }: ToolInfo): string {
  const label = displayName ?? title;
  const text = label === undefined || label === name ? description : `${label}: ${description}`;
  return oneLine(disabled ? `(disabled) ${text}` : text);
}
