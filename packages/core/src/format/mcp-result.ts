import { toolErrorCodes } from "../error/codes.ts";
import type { ToolErrorResponse } from "../error/response.ts";
import type { ContentBlock, ToolResult } from "../tool/result.ts";
import { isRecord, sameJson } from "./json-value.ts";
import { readBlocks, writeBlocks } from "./mcp-content.ts";

/** The result of `tools/call`. */
export interface McpCallToolResult {
  readonly content: readonly ContentBlock[];
  readonly structuredContent?: unknown;
  readonly isError?: true;
  readonly _meta?: Readonly<Record<string, unknown>>;
}

/** Where `_meta` carries what MCP has no field for, so that a rack behind a rack loses nothing. */
const typeKey = "toolrack/type";
const errorKey = "toolrack/error";

/** The result as MCP says it. `fromMcpResult` gives the same result back. */
export function toMcpResult(result: ToolResult): McpCallToolResult {
  const isDerivable = result.error === undefined || sameJson(result.error, errorFrom(result.content));
  // A client must be able to read why, even where the text says nothing.
  const said = result.content || (isDerivable ? "" : (result.error?.message ?? ""));
  const content = result.blocks ?? writeBlocks(said, result.attachments ?? []);
  const meta = {
    ...result.metadata,
    ...(result.type !== typeFrom(result) && { [typeKey]: result.type }),
    ...(!isDerivable && { [errorKey]: result.error }),
  };
  return {
    content,
    // Of a result that was cut for the model, the whole would come back in by this door.
    ...(result.structured !== undefined && !isCut(result) && { structuredContent: result.structured }),
    ...(result.type === "error" && { isError: true as const }),
    ...(result.metadata !== undefined || Object.keys(meta).length > 0 ? { _meta: meta } : {}),
  };
}

/** As the bound stage marks a result of which the model is shown a part. */
function isCut({ metadata }: ToolResult): boolean {
  return isRecord(metadata?.truncated) && typeof metadata.truncated.callId === "string";
}

/**
 * A result as an MCP server gave it. Never throws: what is not an MCP result becomes text. The blocks are kept
 * only when text and attachments could not rebuild them.
 */
export function fromMcpResult(value: unknown): ToolResult {
  const given = isRecord(value) ? value : { content: value };
  const blocks = toBlocks(given.content);
  const { text, attachments, isExact } = readBlocks(blocks);
  if (isExact && attachments.length === 0 && isBare(given)) return { content: text, type: "text" };
  const { [typeKey]: type, [errorKey]: error, ...metadata } = isRecord(given._meta) ? given._meta : {};
  const isEmptied = Object.keys(metadata).length === 0 && (type !== undefined || error !== undefined);
  const structured = given.structuredContent;
  const result = {
    content: text,
    ...(attachments.length > 0 && { attachments }),
    ...(structured !== undefined && { structured }),
    ...(!isExact && { blocks }),
    ...(isRecord(given._meta) && !isEmptied && { metadata }),
  };
  if (given.isError === true) {
    return { ...result, type: "error", error: isErrorResponse(error) ? error : errorFrom(text) };
  }
  return { ...result, type: type === "json" || type === "text" ? type : typeFrom(result) };
}

/** Nothing but content. */
function isBare(given: Readonly<Record<string, unknown>>): boolean {
  for (const key in given) if (key !== "content") return false;
  return true;
}

function typeFrom(result: Pick<ToolResult, "structured"> & { readonly type?: string }): ToolResult["type"] {
  if (result.type === "error") return "error";
  return result.structured === undefined ? "text" : "json";
}

function errorFrom(text: string): ToolErrorResponse {
  return {
    name: "ToolExecutionError",
    code: "execution_failed",
    message: text === "" ? "The tool reported an error and gave no reason." : text,
    recoverable: true,
  };
}

function isErrorResponse(value: unknown): value is ToolErrorResponse {
  return (
    isRecord(value) &&
    typeof value.name === "string" &&
    typeof value.message === "string" &&
    typeof value.recoverable === "boolean" &&
    typeof value.code === "string" &&
    Object.hasOwn(toolErrorCodes, value.code)
  );
}

function toBlocks(content: unknown): readonly ContentBlock[] {
  if (content === undefined || content === null) return [];
  if (!Array.isArray(content)) return [toBlock(content)];
  return content.every(isBlock) ? content : content.map(toBlock);
}

function isBlock(value: unknown): value is ContentBlock {
  return isRecord(value) && typeof value.type === "string";
}

function toBlock(value: unknown): ContentBlock {
  if (isBlock(value)) return value;
  return { type: "text", text: typeof value === "string" ? value : (JSON.stringify(value) ?? String(value)) };
}
