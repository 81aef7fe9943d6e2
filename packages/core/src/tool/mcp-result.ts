import { type ToolErrorResponse, toolErrorCodes } from "../error/codes.ts";
import { sameJson } from "../schema/json.ts";
import { isRecord } from "../schema/visit.ts";
import type { ContentBlock, FilePart, ToolResult } from "./result.ts";

/** MCP content in the terms of a `ToolResult`. */
interface ReadContent {
  /** What a model reads. */
  readonly text: string;
  readonly attachments: readonly FilePart[];
  /** Whether `writeBlocks` gives the same blocks back. */
  readonly isExact: boolean;
}

/** The key in a block's `_meta` for a file name, which images and sounds have no field for. */
const filenameKey = "toolrack/filename";
const attachmentScheme = "attachment:///";
const unknownMime = "application/octet-stream";

function readBlocks(blocks: readonly ContentBlock[]): ReadContent {
  const [only] = blocks;
  if (blocks.length === 1 && only?.type === "text" && isPlainText(only)) {
    return { text: only.text, attachments: [], isExact: true };
  }
  const text = blocks.flatMap(textOf).join("\n");
  const attachments = blocks.flatMap(attachmentOf);
  return { text, attachments, isExact: sameJson(writeBlocks(text, attachments), blocks) };
}

/** One block of text, when there is any, and one for each attachment. */
function writeBlocks(text: string, attachments: readonly FilePart[]): ContentBlock[] {
  const words = text === "" ? [] : [{ type: "text", text }];
  return [...words, ...attachments.map(toBlock)];
}

function isPlainText(block: ContentBlock): block is ContentBlock & { readonly text: string } {
  return typeof block.text === "string" && block.text !== "" && Object.keys(block).length === 2;
}

function textOf(block: ContentBlock): string[] {
  if (block.type === "text") return typeof block.text === "string" ? [block.text] : [];
  const resource = block.type === "resource" ? block.resource : undefined;
  return isRecord(resource) && typeof resource.text === "string" ? [resource.text] : [];
}

function attachmentOf(block: ContentBlock): FilePart[] {
  const mime = typeof block.mimeType === "string" ? block.mimeType : unknownMime;
  if (block.type === "image" || block.type === "audio") {
    if (typeof block.data !== "string") return [];
    return [file(mime, toDataUrl(mime, block.data), filenameIn(block))];
  }
  if (block.type === "resource_link" && typeof block.uri === "string") {
    const name = typeof block.name === "string" && block.name !== block.uri ? block.name : undefined;
    return [file(mime, block.uri, name)];
  }
  const resource = block.type === "resource" ? block.resource : undefined;
  if (!isRecord(resource) || typeof resource.blob !== "string") return [];
  const resourceMime = typeof resource.mimeType === "string" ? resource.mimeType : unknownMime;
  return [file(resourceMime, toDataUrl(resourceMime, resource.blob), lastSegment(resource.uri))];
}

function toBlock(part: FilePart): ContentBlock {
  const inline = parseDataUrl(part.url);
  if (inline === undefined || inline.mime !== part.mime) {
    return { type: "resource_link", uri: part.url, name: part.filename ?? part.url, mimeType: part.mime };
  }
  const kind = /^(image|audio)\//.exec(part.mime)?.[1];
  if (kind !== undefined) {
    const meta = part.filename === undefined ? {} : { _meta: { [filenameKey]: part.filename } };
    return { type: kind, data: inline.data, mimeType: part.mime, ...meta };
  }
  const uri = attachmentScheme + encodeURIComponent(part.filename ?? "");
  return { type: "resource", resource: { uri, mimeType: part.mime, blob: inline.data } };
}

function file(mime: string, url: string, filename: string | undefined): FilePart {
  return { type: "file", mime, url, ...(filename !== undefined && { filename }) };
}

function filenameIn(block: ContentBlock): string | undefined {
  const name = isRecord(block._meta) ? block._meta[filenameKey] : undefined;
  return typeof name === "string" ? name : undefined;
}

function lastSegment(uri: unknown): string | undefined {
  if (typeof uri !== "string") return undefined;
  const segment = uri.split(/[?#]/)[0]?.split("/").at(-1);
  if (segment === undefined || segment === "") return undefined;
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** The result of `tools/call`. */
export interface McpCallToolResult {
  readonly content: readonly ContentBlock[];
  readonly structuredContent?: unknown;
  readonly isError?: true;
  readonly _meta?: Readonly<Record<string, unknown>>;
}

/** Keys in `_meta` for what MCP has no field for, so that a rack behind a rack loses nothing. */
const typeKey = "toolrack/type";
const errorKey = "toolrack/error";

/** Converts a result to MCP. `fromMcpResult` restores the same result. */
export function toMcpResult(result: ToolResult): McpCallToolResult {
  const isDerivable = result.error === undefined || sameJson(result.error, errorFrom(result.content));
  // A client must see the reason even if the text is empty.
  const said = result.content || (isDerivable ? "" : (result.error?.message ?? ""));
  const content = result.blocks ?? writeBlocks(said, result.attachments ?? []);
  const usualType = result.type === "error" ? "error" : result.structured === undefined ? "text" : "json";
  const meta = {
    ...result.metadata,
    ...(result.type !== usualType && { [typeKey]: result.type }),
    ...(!isDerivable && { [errorKey]: result.error }),
  };
  return {
    content,
    // The structured value of a cut result would contain the whole result again.
    ...(result.structured !== undefined && !isCut(result) && { structuredContent: result.structured }),
    ...(result.type === "error" && { isError: true as const }),
    ...(result.metadata !== undefined || Object.keys(meta).length > 0 ? { _meta: meta } : {}),
  };
}

/** Whether the bound stage has cut the result. */
function isCut({ metadata }: ToolResult): boolean {
  return isRecord(metadata?.truncated) && typeof metadata.truncated.callId === "string";
}

/**
 * Reads the result of an MCP server. Never throws: anything else becomes text. Keeps the blocks only if text and
 * attachments cannot rebuild them.
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
  return {
    ...result,
    type: type === "json" || type === "text" ? type : structured === undefined ? "text" : "json",
  };
}

/** Nothing but content. */
function isBare(given: Readonly<Record<string, unknown>>): boolean {
  for (const key in given) if (key !== "content") return false;
  return true;
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
  if (!Array.isArray(content)) return [toResultBlock(content)];
  return content.every(isBlock) ? content : content.map(toResultBlock);
}

function isBlock(value: unknown): value is ContentBlock {
  return isRecord(value) && typeof value.type === "string";
}

function toResultBlock(value: unknown): ContentBlock {
  if (isBlock(value)) return value;
  return { type: "text", text: typeof value === "string" ? value : (JSON.stringify(value) ?? String(value)) };
}

interface DataUrl {
  readonly mime: string;
  readonly data: string;
}

const shape = /^data:([^;,]*);base64,/;

function toDataUrl(mime: string, data: string): string {
  return `data:${mime};base64,${data}`;
}

/** The parts of a base64 `data:` URL without parameters; nothing for any other address. */
export function parseDataUrl(url: string): DataUrl | undefined {
  const match = shape.exec(url);
  return match === null ? undefined : { mime: match[1] ?? "", data: url.slice(match[0].length) };
}
