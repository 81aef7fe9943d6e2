import type { ContentBlock, FilePart } from "../tool/result.ts";
import { parseDataUrl, toDataUrl } from "./data-url.ts";
import { isRecord, sameJson } from "./json-value.ts";

/** MCP content in the terms of a `ToolResult`. */
export interface ReadContent {
  /** What a model reads. */
  readonly text: string;
  readonly attachments: readonly FilePart[];
  /** Whether `writeBlocks` gives the same blocks back. */
  readonly isExact: boolean;
}

/** Where a block's `_meta` carries the name of a file, which images and sounds have no field for. */
const filenameKey = "toolrack/filename";
const attachmentScheme = "attachment:///";
const unknownMime = "application/octet-stream";

export function readBlocks(blocks: readonly ContentBlock[]): ReadContent {
  const [only] = blocks;
  if (blocks.length === 1 && only?.type === "text" && isPlainText(only)) {
    return { text: only.text, attachments: [], isExact: true };
  }
  const text = blocks.flatMap(textOf).join("\n");
  const attachments = blocks.flatMap(attachmentOf);
  return { text, attachments, isExact: sameJson(writeBlocks(text, attachments), blocks) };
}

/** One block of text, when there is any, and one for each attachment. */
export function writeBlocks(text: string, attachments: readonly FilePart[]): ContentBlock[] {
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
