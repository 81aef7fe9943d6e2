import { type ToolErrorResponse, toolErrorCodes } from "../error/codes.ts";
import { isJsonText, safeJson, sameJson } from "../schema/json.ts";
import { isRecord, memberAt } from "../schema/visit.ts";
import type { ContentBlock, FilePart, ToolResult } from "./result.ts";

/**
 * The key in a block's `_meta` that holds a file name, because MCP's image and audio blocks have no field for
 * it.
 */
const filenameKey = "toolrack/filename";
const attachmentScheme = "attachment:///";
const unknownMime = "application/octet-stream";

/**
 * Reads MCP content as the text and the files that a model gets. `isExact`: whether `writeBlocks` restores
 * the same blocks.
 */
function readBlocks(blocks: readonly ContentBlock[]) {
  const [only] = blocks;
  if (blocks.length === 1 && only?.type === "text" && Object.keys(only).length === 2) {
    if (typeof only.text === "string" && only.text !== "")
      return { text: only.text, attachments: [], isExact: true };
  }
  const text = blocks.flatMap(textOf).join("\n");
  const attachments = blocks.flatMap(attachmentOf);
  return { text, attachments, isExact: sameJson(writeBlocks(text, attachments), blocks) };
}

/** Makes one text block, unless the text is empty, and one block for each attachment. */
function writeBlocks(text: string, attachments: readonly FilePart[]): ContentBlock[] {
  const words = text === "" ? [] : [{ type: "text", text }];
  return [...words, ...attachments.map(toBlock)];
}

function textOf(block: ContentBlock): string[] {
  const { type, text, resource } = toProperBlock(block);
  if (type === "text") return [String(text)];
  return isRecord(resource) && typeof resource.text === "string" ? [resource.text] : [];
}

/** The members of each kind of block that the protocol wants as texts. */
const texts = new Map([
  ["text", ["text"]],
  ["image", ["data", "mimeType"]],
  ["audio", ["data", "mimeType"]],
  ["resource_link", ["uri", "name"]],
]);

function isProper(block: ContentBlock): boolean {
  const { type, resource } = block;
  if (type === "resource" && isRecord(resource)) {
    const { uri, text, blob } = resource;
    return typeof uri === "string" && (typeof text === "string" || typeof blob === "string");
  }
  return texts.get(type)?.every((key) => typeof block[key] === "string") ?? false;
}

/**
 * The block as the protocol wants it; clients refuse a whole result for one that is not. Tools put data in place of a
 * text, or make blocks of a kind of their own: both are given as text, as their JSON.
 */
function toProperBlock(block: ContentBlock): ContentBlock {
  if (isProper(block)) return block;
  const [attachment] = attachmentOf(block);
  if (attachment !== undefined) return toBlock(attachment);
  const isText = block.type === "text";
  const { text = isText ? "" : block } = block;
  return { ...(isText && block), type: "text", text: typeof text === "string" ? text : safeJson(text).text };
}

function attachmentOf(block: ContentBlock): FilePart[] {
  const mime = typeof block.mimeType === "string" ? block.mimeType : unknownMime;
  if (block.type === "image" || block.type === "audio") {
    if (typeof block.data !== "string") return [];
    return [file(mime, `data:${mime};base64,${block.data}`, memberAt(block._meta, [filenameKey]))];
  }
  if (block.type === "resource_link" && typeof block.uri === "string") {
    const name = typeof block.name === "string" && block.name !== block.uri ? block.name : undefined;
    return [file(mime, block.uri, name)];
  }
  const resource = block.type === "resource" ? block.resource : undefined;
  if (!isRecord(resource) || typeof resource.blob !== "string") return [];
  const resourceMime = typeof resource.mimeType === "string" ? resource.mimeType : unknownMime;
  return [file(resourceMime, `data:${resourceMime};base64,${resource.blob}`, lastSegment(resource.uri))];
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

function file(mime: string, url: string, filename: unknown): FilePart {
  return { type: "file", mime, url, ...(typeof filename === "string" && { filename }) };
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

/** The result of an MCP `tools/call` request. */
export interface McpCallToolResult {
  readonly content: readonly ContentBlock[];
  readonly structuredContent?: unknown;
  readonly isError?: true;
  readonly _meta?: Readonly<Record<string, unknown>>;
}

/**
 * Keys in `_meta` for the parts of a result that MCP has no field for, so that a rack whose tools hang on
 * another rack loses nothing.
 */
const typeKey = "toolrack/type";
const errorKey = "toolrack/error";

/**
 * Converts a result to MCP. `fromMcpResult` restores the same result, except that data in place of a block's
 * text has become its JSON.
 */
export function toMcpResult(result: ToolResult): McpCallToolResult {
  const isDerivable = result.error === undefined || sameJson(result.error, errorFrom(result.content));
  // If the text is empty, the client gets the error's message as text.
  const said = result.content || (isDerivable ? "" : (result.error?.message ?? ""));
  const isText = result.blocks === undefined && result.attachments === undefined && said !== "";
  const content = isText
    ? [{ type: "text", text: said }]
    : (result.blocks?.map(toProperBlock) ?? writeBlocks(said, result.attachments ?? []));
  // When the bound stage has cut a result, its structured value is left out, because it would contain the
  // whole result again.
  const isCut =
    result.metadata !== undefined && typeof memberAt(result.metadata, ["truncated", "callId"]) === "string";
  const isPlainText = result.type === "text" && result.structured === undefined;
  const meta = {
    ...result.metadata,
    ...(!isPlainText && !isTypeDerivable(result) && { [typeKey]: result.type }),
    ...(!isDerivable && { [errorKey]: result.error }),
  };
  return {
    content,
    ...(result.structured !== undefined && !isCut && { structuredContent: result.structured }),
    ...(result.type === "error" && { isError: true as const }),
    ...(result.metadata !== undefined || Object.keys(meta).length > 0 ? { _meta: meta } : {}),
  };
}

/**
 * Reads what an MCP server returned. Never throws: a value that is not an MCP result becomes text. Keeps the
 * blocks only if text and attachments cannot rebuild them.
 */
export function fromMcpResult(value: unknown): ToolResult {
  const given = isRecord(value) ? value : { content: value };
  const blocks = toBlocks(given.content);
  const { text, attachments, isExact } = readBlocks(blocks);
  const isBare = Object.keys(given).every((key) => key === "content");
  if (isExact && attachments.length === 0 && isBare) return { content: text, type: "text" };
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
  const isJson = type === "json" || (structured !== undefined && type !== "text");
  return { ...result, type: isJson && mayBeJson(text) ? "json" : "text" };
}

/** Whether `fromMcpResult` finds the type of the result by itself. The text of type `json` is JSON. */
function isTypeDerivable({ type, structured, content }: ToolResult): boolean {
  if (type === "error") return true;
  if (structured === undefined) return type === "text";
  return type === "json" || !mayBeJson(content);
}

/** A server may leave out the text beside structured content. The value's JSON then stands for it. */
function mayBeJson(text: string): boolean {
  return text === "" || isJsonText(text);
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

/** The parts of a base64 `data:` URL without parameters; undefined for any other URL. */
export function parseDataUrl(url: string): { readonly mime: string; readonly data: string } | undefined {
  const match = /^data:([^;,]*);base64,/.exec(url);
  return match === null ? undefined : { mime: match[1] ?? "", data: url.slice(match[0].length) };
}
