import type { LogLevel, ToolCallRecord, ToolErrorResponse, ToolResult } from "@toolrack/core";
import type { Blob, BlobDirectory } from "../blobs.ts";
import { toKey, toStorableText } from "../keys.ts";
import { fromJson, json, plain, rowMap, toBoundedJson, toJson, tooLarge } from "../rows.ts";
import { type CallRow, tables } from "../schema.ts";

/** A call as it is kept. */
export interface StoredCall extends Omit<ToolCallRecord, "status"> {
  /** `error` also for a call that was interrupted. */
  readonly status: "running" | "completed" | "error";
  /** The bounded one; a larger whole is a blob, read by page. Empty while the call runs. */
  readonly result: ToolResult;
  /** Characters of the whole result text. */
  readonly resultSize: number;
  /** The call that this one repeats. */
  readonly replayOf?: string;
  /** `interrupted`: the process died while it ran. */
  readonly outcome: "running" | "completed" | "error" | "interrupted";
  /** What the tool said while it ran, where it said something. Not in lists. */
  readonly log?: readonly CallLine[];
}

/** A call that has begun, noted so that a crash leaves a trace. */
export interface StartedCall {
  readonly callId: string;
  readonly parentCallId?: string;
  readonly toolName: string;
  readonly displayName: string;
  readonly sessionID: string;
  readonly caller: string;
  readonly timestamp: number;
  /** How many calls it is away from the first one of its chain. Default 0. */
  readonly depth?: number;
  readonly parameters: Record<string, unknown>;
}

/** Something that a tool said while it ran. `note`: said by the rack, of lines that are not kept. */
export interface CallLine {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly level: LogLevel | "progress" | "note";
  readonly text: string;
}

/** Characters of a text that a row holds; longer ones are blobs. */
const LONGEST_INLINE = 64 * 1024;
/** Characters that a row keeps of a text that is a blob, when nobody has shortened it yet. */
const SHOWN = 16 * 1024;
const LONGEST_LABEL = 250;

/** What a result has besides its text. */
interface MoreOfResult {
  readonly structured?: unknown;
  readonly attachments?: ToolResult["attachments"];
  readonly blocks?: ToolResult["blocks"];
  readonly metadata?: ToolResult["metadata"];
  /** The text is the JSON of the structured value, which is therefore kept once. */
  readonly structuredIsText?: true;
}

const columns = tables.calls.flatMap((line) => line.split(", ")).map((text) => text.split(" "));

/** The order of the columns is that of statements. */
export const callColumns = columns.map(([name]) => name) as (keyof CallRow)[]; // As the type is made from them.

/** A row of which nothing is known. */
export const blankRow = Object.fromEntries(
  columns.map(([name, type = ""]) => {
    if (type.endsWith("?")) return [name, null];
    return [name, /^(?:key|code|text)/.test(type) ? "" : 0];
  }),
) as unknown as CallRow; // Every column is there, of its type or empty.

/** What is known of a call from its beginning. */
function beginningOf(call: StartedCall | ToolCallRecord, parameters: string) {
  return {
    call_id: toKey(call.callId),
    parent_call_id: call.parentCallId === undefined ? null : toKey(call.parentCallId),
    tool_name: toKey(call.toolName),
    display_name: toLabel(call.displayName),
    session_id: toKey(call.sessionID),
    caller: toLabel(call.caller),
    depth: call.depth ?? 0,
    timestamp: Math.round(call.timestamp),
    parameters,
  };
}

export function toStartedRow(call: StartedCall, instance: string): CallRow {
  const parameters = toBoundedJson(call.parameters);
  return {
    ...blankRow,
    ...beginningOf(call, parameters),
    state: "running",
    instance,
    size: Buffer.byteLength(parameters),
    result_type: "text",
  };
}

/** Everything that decides whether the row can be made now, or only after blobs have been written. */
export interface FinishedCall {
  readonly record: ToolCallRecord;
  readonly result: ToolResult;
  readonly replayOf: string | undefined;
  readonly instance: string;
  /** The whole text, where it is too long for the row or `result` has only a part of it. */
  readonly longText: string | undefined;
  readonly more: string | undefined;
  /** Whether one of the two has to be written as a blob. */
  readonly needsBlobs: boolean;
  readonly log: readonly CallLine[] | undefined;
}

export function prepareFinished(
  record: ToolCallRecord,
  result: ToolResult,
  instance: string,
  replayOf?: string,
  whole?: string,
  log?: readonly CallLine[],
): FinishedCall {
  const text = whole ?? result.content;
  const isLong = text.length > LONGEST_INLINE || text.length > result.content.length;
  const longText = isLong ? text : undefined;
  const { structured, attachments, blocks, metadata } = result;
  const hasMore = attachments !== undefined || blocks !== undefined || metadata !== undefined;
  const more = hasMore || structured !== undefined ? moreOf(result, hasMore) : undefined;
  const needsBlobs = isLong || (more !== undefined && more.length > LONGEST_INLINE);
  return { record, result, replayOf, instance, longText, more, needsBlobs, log };
}

export async function toRowWithBlobs(call: FinishedCall, blobs: BlobDirectory): Promise<CallRow> {
  const { longText, more } = call;
  const moreIsLong = more !== undefined && more.length > LONGEST_INLINE;
  return toFinishedRow(
    call,
    longText === undefined ? undefined : await blobs.write(longText),
    moreIsLong ? await blobs.write(more) : undefined,
  );
}

export function toFinishedRow(call: FinishedCall, textBlob?: Blob, moreBlob?: Blob): CallRow {
  const { record, result, longText } = call;
  const parameters = toBoundedJson(record.parameters);
  const error = record.error === undefined ? null : errorJson(record.error, parameters);
  const text = toStorableText(
    textBlob === undefined ? result.content : shorten(result.content, record.callId),
  );
  const more = moreBlob === undefined ? (call.more ?? null) : null;
  const log = call.log === undefined ? null : toJson(call.log);
  let size = Buffer.byteLength(parameters) + Buffer.byteLength(text);
  for (const other of [error, more, log]) if (other !== null) size += Buffer.byteLength(other);
  return {
    ...beginningOf(record, parameters),
    replay_of: call.replayOf === undefined ? null : toKey(call.replayOf),
    message_id: toLabel(record.messageID),
    tid: record.tid === undefined ? null : toLabel(record.tid),
    state: record.status,
    duration: record.duration,
    run_duration: record.runDuration,
    instance: call.instance,
    size: size + (textBlob?.bytes ?? 0) + (moreBlob?.bytes ?? 0),
    result_type: result.type,
    result_size: longText?.length ?? text.length,
    result_blob: textBlob?.name ?? null,
    more_blob: moreBlob?.name ?? null,
    parameters_hash: toLabel(record.parametersHash).slice(0, 80),
    flags: record.flags === undefined ? null : toJson(record.flags),
    error,
    result_text: text,
    more,
    log,
    after_duration: record.afterDuration ?? null,
  };
}

/** `hasMore`: it has other members beside the structured value. */
function moreOf(result: ToolResult, hasMore: boolean): string {
  const { content, type, structured, attachments, blocks, metadata } = result;
  const isText =
    type === "json" &&
    structured !== undefined &&
    content.length <= LONGEST_INLINE &&
    toJson(structured) === content;
  if (isText && !hasMore) return '{"structuredIsText":true}';
  const more: MoreOfResult = {
    ...(isText ? { structuredIsText: true } : { structured }),
    attachments,
    blocks,
    metadata,
  };
  return toJson(more);
}

/** The part of a long text that stays in the row, unless it has been shortened for the model already. */
function shorten(content: string, callId: string): string {
  if (content.length <= LONGEST_INLINE) return content;
  const rest = content.length - SHOWN;
  return `${content.slice(0, SHOWN)}\n… ${rest} more characters: the whole result is kept as call ${callId}; read on from offset ${SHOWN} …`;
}

/** An error repeats the arguments; they are kept once. */
function errorJson(error: ToolErrorResponse, parameters: string): string {
  const { details } = error;
  const json = toJson(
    details !== undefined && toBoundedJson(details.input) === parameters
      ? { ...error, details: { ...details, input: undefined } }
      : error,
  );
  if (json.length <= LONGEST_INLINE) return json;
  const { name, code, message, recoverable } = error;
  return toJson({ name, code, message: message.slice(0, SHOWN), recoverable });
}

/** For texts that are shown and not looked up by. */
function toLabel(text: string): string {
  if (text.length <= LONGEST_LABEL) return toStorableText(text);
  return `${toStorableText(text.slice(0, LONGEST_LABEL))}…`;
}

/** In a list, what is long is left in the database. */
const unlisted = ["parameters", "result_text", "more", "more_blob", "log"] as const;

/** The members of a call that stand in columns of their own. */
const calls = rowMap<Omit<StoredCall, "parameters" | "status" | "result" | "log">>()(
  "calls",
  {
    outcome: plain("state"),
    duration: { ...plain<number>(), read: Number, hasDefault: true },
    runDuration: { ...plain<number>(), read: Number, hasDefault: true },
    error: json(),
    flags: json(),
  },
  [...unlisted, "instance", "size", "result_type", "result_blob"],
);

type UnlistedColumn = (typeof unlisted)[number];
export type ListedRow = Omit<CallRow, UnlistedColumn> & { parameters: string | null; result_text: string };

export const listedColumns = callColumns.filter(
  (column): column is Exclude<keyof CallRow, UnlistedColumn> => !unlisted.some((one) => one === column),
);

/** The call as it was recorded. `more`: what the result has besides its text, where that and the log have been read. */
export function toStoredCall(row: ListedRow, more?: string | null, logged?: string | null): StoredCall {
  const { error: recorded, ...call } = calls.toRecord(row);
  const parameters = fromJson<Record<string, unknown>>(row.parameters) ?? tooLarge(row.size);
  const error = withInput(recorded, parameters);
  const log = fromJson<NonNullable<StoredCall["log"]>>(logged ?? null);
  return {
    ...call,
    parameters,
    status: row.state === "interrupted" ? "error" : row.state,
    ...(error && { error }),
    result: resultOf(row, error, more ?? null),
    ...(log && { log }),
  };
}

function withInput(
  error: ToolErrorResponse | undefined,
  parameters: Record<string, unknown>,
): ToolErrorResponse | undefined {
  if (error?.details === undefined) return error;
  return { ...error, details: { ...error.details, input: error.details.input ?? parameters } };
}

function resultOf(row: ListedRow, error: ToolErrorResponse | undefined, more: string | null): ToolResult {
  const { structuredIsText, ...rest } = fromJson<MoreOfResult>(more) ?? {};
  return {
    content: row.result_text,
    type: row.result_type,
    ...(structuredIsText ? { structured: fromJson(row.result_text) } : {}),
    ...rest,
    ...(row.result_type === "error" && error !== undefined ? { error } : {}),
  };
}
