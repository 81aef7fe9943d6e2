import { parseJson, safeJson } from "../schema/json.ts";
import { isRecord } from "../schema/visit.ts";
import { fromMcpResult } from "./mcp-result.ts";
import type { FilePart, RawResult, ToolResult } from "./result.ts";

/**
 * Converts a tool's return value. Accepts a `ToolResult`, an MCP result, `{title, output}`, `{success, output, error}`,
 * bytes, any JSON value, and values that JSON cannot hold. Throws only for streams and unreadable values.
 */
export function toResult(value: unknown): RawResult {
  if (typeof value === "string") return { content: value, type: "text" };
  if (value === undefined) return { content: "", type: "text" };
  if (typeof value !== "object" || value === null) return fromPrimitive(value);
  if (value instanceof Error) return { content: value.message || value.name, type: "error", cause: value };
  if (value instanceof Uint8Array) return fromBytes(value);
  if (value instanceof ArrayBuffer) return fromBytes(new Uint8Array(value));
  const result = fromObject(value as Record<string, unknown>); // Any object may be read by its keys.
  const cause = result.type === "error" ? returnedError(value) : undefined;
  return cause === undefined ? result : { ...result, cause };
}

/** The `Error` that a tool returned instead of throwing it: the value itself, or its `error` or `cause`. */
export function returnedError(value: unknown): Error | undefined {
  if (value instanceof Error) return value;
  if (!isRecord(value)) return undefined;
  if (value.error instanceof Error) return value.error;
  return value.cause instanceof Error ? value.cause : undefined;
}

function fromPrimitive(value: unknown): RawResult {
  const isNoJson = typeof value === "number" && !Number.isFinite(value);
  if (isNoJson || typeof value === "bigint" || typeof value === "symbol" || typeof value === "function") {
    return { content: String(value), type: "text" };
  }
  return { content: String(value), type: "json", structured: value };
}

function fromObject(value: Record<string, unknown>): RawResult {
  if (value.type !== undefined && isDataResult(value))
    return fromToolResult({ ...value, content: dataText(value.content) });
  if (Array.isArray(value.content))
    return plain(fromMcpResult(value.type === "error" ? { ...value, isError: true } : value));
  if (typeof value.content === "string" && isResultType(value.type)) return fromToolResult(value);
  if (value.success === false) return fromFailure(value);
  if (typeof value.output === "string" && Object.keys(value).every((key) => outputKeys.has(key)))
    return fromOutput(value);
  if (value instanceof Map) return fromJson(Object.fromEntries(value), false);
  if (value instanceof Set) return fromJson([...value], false);
  if (isStream(value)) throw new TypeError(STREAM);
  if (value.isError !== true) return fromJson(value, false);
  // JSON has no form for an `Error`, so its message is the text.
  const { message = "" } = returnedError(value) ?? {};
  return message === "" ? fromJson(value, true) : { ...fromJson(value, true), content: message };
}

const STREAM =
  "The tool returned a stream, a response or a generator, which is not a result. Read it, and return what it gave.";

/** Whether the value is a stream, a response or a generator, which JSON would silently turn into `{}`. */
function isStream(value: object): boolean {
  return (
    Symbol.asyncIterator in value ||
    ("getReader" in value && typeof value.getReader === "function") ||
    ("next" in value && typeof value.next === "function" && Symbol.iterator in value) ||
    (typeof Response !== "undefined" && value instanceof Response)
  );
}

/** Makes sure that JSON can hold the structured value, the metadata and the blocks of a result. */
function plain(result: RawResult): RawResult {
  const { content, structured, metadata, blocks, attachments } = result;
  if (structured === undefined && metadata === undefined && blocks === undefined) return result;
  const known = structured === undefined ? undefined : safeJson(structured);
  // A value without a text or a file beside it is its own text.
  const isMissing = content === "" && result.type === "json" && !blocks && !attachments;
  return {
    ...result,
    ...(known !== undefined && isMissing ? { content: known.text } : {}),
    ...(known === undefined ? {} : { structured: known.value }),
    ...(known === undefined || isMissing || known.text.length === content.length
      ? {}
      : { structuredSize: known.text.length }),
    // Both casts hold: as plain JSON, metadata is still an object, and blocks are still a list of blocks.
    ...(metadata === undefined ? {} : { metadata: safeJson(metadata).value as RawResult["metadata"] }), // See above.
    ...(blocks === undefined ? {} : { blocks: safeJson(blocks).value as RawResult["blocks"] }), // See above.
  };
}

function isResultType(type: unknown): type is ToolResult["type"] {
  return type === "text" || type === "json" || type === "error";
}

const resultKeys = new Set("content type attachments structured blocks metadata".split(" "));

/**
 * Whether the value is a `ToolResult` with data in place of its text. A list of blocks is MCP content, and an object with
 * any other key is data that happens to have these two.
 */
function isDataResult(value: Record<string, unknown>): boolean {
  const { content, type } = value;
  if (!isResultType(type) || content === undefined || typeof content === "string") return false;
  if (!Object.keys(value).every((key) => resultKeys.has(key))) return false;
  const isBlock = (item: unknown) => isRecord(item) && typeof item.type === "string";
  return !Array.isArray(content) || (type !== "text" && !content.every(isBlock));
}

function dataText(content: unknown): string {
  return content instanceof Error ? content.message : safeJson(content).text;
}

function fromToolResult(value: Record<string, unknown>): RawResult {
  // The caller has checked `content` and `type`; the other fields are checked below. Fields that a
  // `ToolResult` does not have are dropped.
  const { content, type, attachments, structured, blocks, metadata } = value as unknown as ToolResult;
  const parsed = type === "json" ? parseJson(content) : undefined;
  const known = structured ?? parsed;
  return plain({
    content,
    // Readers of type `json` may parse the content, so a text that is not JSON is given as text.
    type: type === "json" && parsed === undefined ? "text" : type,
    ...(Array.isArray(attachments) ? { attachments: attachments.filter(isFilePart) } : {}),
    ...(known === undefined ? {} : { structured: known }),
    ...(Array.isArray(blocks) ? { blocks } : {}),
    ...(isRecord(metadata) ? { metadata } : {}),
  });
}

/** `{success:false, error}` as several frameworks return it. */
function fromFailure(value: Record<string, unknown>): RawResult {
  const { error, message, output } = value;
  const text = [error, message, output].find((part) => typeof part === "string" && part !== "");
  const nested = isRecord(error) && typeof error.message === "string" ? error.message : undefined;
  const json = safeJson(value);
  return {
    content: String(text ?? nested ?? json.text),
    type: "error",
    structured: json.value,
    structuredSize: json.text.length,
  };
}

/**
 * The keys of `{title?, output, metadata?, attachments?}` and `{success: true, output, …}`. An object with
 * any other key is converted as JSON instead, so that no other key is lost.
 */
const outputKeys = new Set("title output metadata attachments success duration exitCode error".split(" "));

function fromOutput(value: Record<string, unknown>): RawResult {
  const { title, output, metadata, attachments } = value;
  return plain({
    content: String(output),
    type: "text",
    ...(typeof title === "string" ? { title } : {}),
    ...(isRecord(metadata) ? { metadata } : {}),
    ...(Array.isArray(attachments) ? { attachments: attachments.filter(isFilePart) } : {}),
  });
}

function fromJson(value: unknown, isError: boolean): RawResult {
  const { text, value: plain } = safeJson(value);
  return { content: text, type: isError ? "error" : "json", structured: plain };
}

function fromBytes(bytes: Uint8Array): RawResult {
  const url = `data:application/octet-stream;base64,${toBase64(bytes)}`;
  return {
    content: `${bytes.byteLength} bytes of binary data, attached.`,
    type: "text",
    attachments: [{ type: "file", mime: "application/octet-stream", url }],
  };
}

function toBase64(bytes: Uint8Array): string {
  // Node has `toBase64` since version 25.
  if ("toBase64" in bytes && typeof bytes.toBase64 === "function") return String(bytes.toBase64());
  let binary = "";
  for (let start = 0; start < bytes.length; start += 0x8000) {
    binary += String.fromCharCode(...bytes.subarray(start, start + 0x8000));
  }
  return btoa(binary);
}

function isFilePart(value: unknown): value is FilePart {
  return isRecord(value) && typeof value.url === "string" && typeof value.mime === "string";
}
