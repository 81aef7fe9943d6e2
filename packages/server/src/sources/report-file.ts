import { relative } from "node:path";
import type { FileReport } from "./load-report.ts";
import type { LoadFailure } from "./loader/load-failure.ts";
import type { UnreadableFile } from "./loader/scan-files.ts";
import { namesOf, type ServingFile } from "./serving-file.ts";

/** What became of one file. */
export function reportOf(
  file: string,
  serving: ServingFile | undefined,
  failure: LoadFailure | undefined,
  isHelper: boolean,
): FileReport {
  if (serving !== undefined) {
    const { contract, warnings } = serving.recognised;
    const status = failure !== undefined ? "stale" : warnings.length > 0 ? "adapted" : "loaded";
    const found = { file, status, contract, tools: namesOf(serving), warnings } as const;
    return failure === undefined ? found : { ...found, failure };
  }
  if (isHelper && failure === undefined) return { file, status: "helper", tools: [], warnings: [] };
  return { file, status: "failed", tools: [], warnings: [], failure: failure ?? { file, ...noTool } };
}

export function unreadableReport({ path, reason }: UnreadableFile, workspace: string): FileReport {
  const file = relative(workspace, path);
  const remedy = "Let the user that Toolrack runs as read it.";
  return { file, status: "failed", tools: [], warnings: [], failure: { file, reason, remedy } };
}

const noTool = {
  reason: "It exports no tool, and no tool imports it.",
  remedy:
    "Export an object with a handler, a schema with a default function, or a value made by Tool.define.",
};
