import {
  isToolError,
  OutcomeUnknownError,
  PermissionDeniedError,
  ToolError,
  ToolExecutionError,
  ToolNotFoundError,
  type ToolResult,
} from "@toolrack/core";
import { asRecord, reasonOf } from "../helpers/index.ts";
import type { ToolPaths } from "./tool-paths.ts";

/** The error of a call that ran when its process ended, and that is not made again. */
export function outcomeUnknown(toolName: string, line: number): ToolError {
  return new OutcomeUnknownError(
    `The server ended while "${toolName}" ran for line ${line}, so that it is not known what it did. It was not called again. Look before calling it again.`,
    { toolName },
  );
}

export function unknownPath(
  parts: readonly string[],
  paths: ToolPaths,
  isSeen: (toolName: string) => boolean,
): ToolNotFoundError {
  const suggestions = paths.nearest(parts, isSeen);
  const near =
    suggestions.length === 0
      ? "search(words) finds those that there are."
      : `Did you mean ${suggestions.join(" or ")}?`;
  const path = `tools.${parts.join(".")}`.slice(0, 200);
  return new ToolNotFoundError(`There is no tool ${path}. ${near}`, {
    toolName: path,
    data: { suggestions },
  });
}

export function notForCode(toolName: string): PermissionDeniedError {
  return new PermissionDeniedError(
    `"${toolName}" cannot be called by code, because its author or the rack wants it called directly. It did not run. Call it as a tool.`,
    { toolName },
  );
}

/** The error of a call that has ended, from its record. */
export function ofResponse({
  code,
  message,
  recoverable,
  details,
}: NonNullable<ToolResult["error"]>): ToolError {
  return new ToolError(code, message, { recoverable, toolName: details?.toolName ?? "" });
}

/** The error of a run whose code threw in this line (0: not known), with what the code had printed. */
export function ofCode(thrown: Error, line: number, printed: string): ToolError {
  const { name, message } = thrown;
  const { code, data } = asRecord({ ...thrown });
  const isTool = name === "ToolError";
  const what = isTool ? `a tool failed (${String(code)}): ${message}` : `${name}: ${message}`;
  const head = line > 0 ? `Line ${line}: ` : "";
  const consoleLines = linesOf(printed);
  const tail = consoleLines === 0 ? "" : `\n\nconsole:\n${printed.trimEnd()}`;
  return new ToolExecutionError(`${head}${what}${tail}`, {
    recoverable: isTool ? asRecord(data).recoverable !== false : true,
    data: { line, ...(isTool && { causeCode: code }), ...(consoleLines > 0 && { consoleLines }) },
  });
}

/** How many lines at the end of a result are what the code printed, so that who has seen them can leave them out. */
export function linesOf(printed: string): number {
  return printed === "" ? 0 : printed.trimEnd().split("\n").length;
}

/** What the worker is told of an error: no more than code needs. */
export function toThrown(thrown: unknown): Error {
  const isTool = isToolError(thrown);
  const error = new Error(reasonOf(thrown));
  return Object.assign(error, {
    name: "ToolError",
    code: isTool ? thrown.code : "execution_failed",
    data: { recoverable: isTool && thrown.recoverable, tool: isTool ? thrown.toolName : "" },
  });
}
