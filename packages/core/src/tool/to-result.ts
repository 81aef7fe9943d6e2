import { isLarge, parseJson, type SafeJson, safeJson, safeJsonSteps } from "../schema/json.ts";
import { isRecord } from "../schema/visit.ts";
import { fromMcpResult } from "./mcp-result.ts";
import type { FilePart, RawResult, ToolResult } from "./result.ts";

/**
 * Converts a tool's return value. Accepts a `ToolResult`, an MCP result, `{title, output}`, `{success, output, error}`,
 * bytes, any JSON value, and values that JSON cannot hold. Throws only for streams and unreadable values. `toJson` makes
 * the JSON of its parts.
 */
export function toResult(value: unknown, toJson: ToJson = safeJson): RawResult {
  if (typeof value === "string") return { content: value, type: "text" };
  if (value === undefined) return { content: "", type: "text" };
  if (typeof value !== "object" || value === null) return fromPrimitive(value);
  if (value instanceof Error) return { content: value.message || value.name, type: "error", cause: value };
  if (value instanceof Uint8Array) return fromBytes(value);
  if (value instanceof ArrayBuffer) return fromBytes(new Uint8Array(value));
  const result = fromObject(value as Record<string, unknown>, toJson); // Any object may be read by its keys.
  const cause = result.type === "error" ? returnedError(value) : undefined;
  return cause === undefined ? result : { ...result, cause };
}

type ToJson = (value: unknown) => SafeJson;

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

function fromObject(value: Record<string, unknown>, toJson: ToJson): RawResult {
  if (value.type !== undefined && isDataResult(value)) return fromData(value, toJson);
  if (Array.isArray(value.content))
    return plain(fromMcpResult(value.type === "error" ? { ...value, isError: true } : value), toJson);
  if (typeof value.content === "string" && isResultType(value.type)) return fromToolResult(value, toJson);
  if (value.success === false) return fromFailure(value, toJson);
  if (typeof value.output === "string" && Object.keys(value).every((key) => outputKeys.has(key)))
    return fromOutput(value, toJson);
  if (value instanceof Map) return fromJson(toJson(Object.fromEntries(value)), false);
  if (value instanceof Set) return fromJson(toJson([...value]), false);
  if (isStream(value)) throw new TypeError(STREAM);
  const json = toJson(value);
  if (value.isError !== true) return fromJson(json, false);
  // JSON has no form for an `Error`, so its message is the text.
  const { message = "" } = returnedError(value) ?? {};
  const result = fromJson(json, true);
  return message === "" ? result : { ...result, content: message, structuredText: json.text };
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
function plain(result: RawResult, toJson: ToJson): RawResult {
  const { content, structured, metadata, blocks, attachments } = result;
  if (structured === undefined && metadata === undefined && blocks === undefined) return result;
  const known = structured === undefined ? undefined : toJson(structured);
  // A value without a text or a file beside it is its own text.
  const isMissing = content === "" && result.type === "json" && !blocks && !attachments;
  return {
    ...result,
    ...(known !== undefined && isMissing ? { content: known.text } : {}),
    ...(known === undefined ? {} : { structured: known.value }),
    ...(known === undefined || isMissing || known.text === content ? {} : { structuredText: known.text }),
    // Both casts hold: as plain JSON, metadata is still an object, and blocks are still a list of blocks.
    ...(metadata === undefined ? {} : { metadata: toJson(metadata).value as RawResult["metadata"] }), // `toJson` keeps the form of a value.
    ...(blocks === undefined ? {} : { blocks: toJson(blocks).value as RawResult["blocks"] }), // `toJson` keeps the form of a value.
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

function fromData(value: Record<string, unknown>, toJson: ToJson): RawResult {
  const { content } = value;
  if (content instanceof Error) return fromToolResult({ ...value, content: content.message }, toJson);
  const json = toJson(content);
  return fromToolResult({ ...value, content: json.text }, toJson, json.value);
}

/** `data`: what the text of a result of type `json` was made of. */
function fromToolResult(value: Record<string, unknown>, toJson: ToJson, data?: unknown): RawResult {
  // The caller has checked `content` and `type`; the other fields are checked below. Fields that a
  // `ToolResult` does not have are dropped.
  const { content, type, attachments, structured, blocks, metadata } = value as unknown as ToolResult;
  const parsed = type === "json" ? (data ?? parseJson(content)) : undefined;
  const known = structured ?? parsed;
  const result: RawResult = {
    content,
    // Readers of type `json` may parse the content, so a text that is not JSON is given as text.
    type: type === "json" && parsed === undefined ? "text" : type,
    ...(Array.isArray(attachments) ? { attachments: attachments.filter(isFilePart) } : {}),
    ...(known === undefined ? {} : { structured: known }),
    ...(Array.isArray(blocks) ? { blocks } : {}),
    ...(isRecord(metadata) ? { metadata } : {}),
  };
  return plain(result, toJson);
}

/** `{success:false, error}` as several frameworks return it. */
function fromFailure(value: Record<string, unknown>, toJson: ToJson): RawResult {
  const { error, message, output } = value;
  const text = [error, message, output].find((part) => typeof part === "string" && part !== "");
  const nested = isRecord(error) && typeof error.message === "string" ? error.message : undefined;
  const json = toJson(value);
  return {
    content: String(text ?? nested ?? json.text),
    type: "error",
    structured: json.value,
    structuredText: json.text,
  };
}

/**
 * The keys of `{title?, output, metadata?, attachments?}` and `{success: true, output, …}`. An object with
 * any other key is converted as JSON instead, so that no other key is lost.
 */
const outputKeys = new Set("title output metadata attachments success duration exitCode error".split(" "));

function fromOutput(value: Record<string, unknown>, toJson: ToJson): RawResult {
  const { title, output, metadata, attachments } = value;
  const result: RawResult = {
    content: String(output),
    type: "text",
    ...(typeof title === "string" ? { title } : {}),
    ...(isRecord(metadata) ? { metadata } : {}),
    ...(Array.isArray(attachments) ? { attachments: attachments.filter(isFilePart) } : {}),
  };
  return plain(result, toJson);
}

function fromJson({ text, value }: SafeJson, isError: boolean): RawResult {
  return { content: text, type: isError ? "error" : "json", structured: value };
}

/** Like `toResult`, for a large value: the JSON of its parts is made in steps of a few milliseconds. */
export function* toResultSteps(value: unknown): Generator<void, RawResult> {
  const made: SafeJson[] = [];
  for (;;) {
    let asked = 0;
    const missing: unknown[] = [];
    // Asks for the same parts in the same order every time. The first that is missing ends the attempt.
    const toJson = (part: unknown): SafeJson => {
      const known = made[asked] ?? (missing.length > 0 || isLarge(part) ? undefined : safeJson(part));
      if (known === undefined) missing.push(part);
      else made[asked++] = known;
      return known ?? { text: "", value: null };
    };
    const result = toResult(value, toJson);
    if (missing.length === 0) return result;
    made.push(yield* safeJsonSteps(missing[0]));
  }
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
