import type { FilePart, ToolResult } from "../tool/result.ts";

/** What a model reads of a result, with a line for each file that the provider's answer cannot carry. */
export function modelText(result: ToolResult, files: readonly FilePart[] = []): string {
  const lines = files.map(fileLine);
  const text = textOf(result, lines.length === 0);
  return text === "" ? lines.join("\n") : [text, ...lines].join("\n");
}

function textOf(result: ToolResult, isAlone: boolean): string {
  if (result.content !== "") return result.content;
  if (result.error !== undefined) return result.error.message;
  if (result.structured === undefined || !isAlone) return "";
  return JSON.stringify(result.structured) ?? "";
}

function fileLine(file: FilePart): string {
  const name = file.filename === undefined ? file.mime : `${file.filename}, ${file.mime}`;
  return file.url.startsWith("data:") ? `[attached: ${name}]` : `[attached: ${name}, ${file.url}]`;
}
