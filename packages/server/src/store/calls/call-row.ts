import type { ToolCallRecord, ToolErrorResponse, ToolResult } from "@toolrack/core";
import type { Blob, BlobDirectory } from "../blobs/blob-directory.ts";
import type { CallRow } from "../database/schema.ts";
import { toKey, toStorableText } from "../database/storable-text.ts";
import { toBoundedJson, toJson } from "../database/stored-json.ts";
import type { StartedCall } from "../store.ts";
import type { CallLine } from "./call-line.ts";

/** Characters of a text that a row holds; longer ones are blobs. */
const LONGEST_INLINE = 64 * 1024;
/** Characters that a row keeps of a text that is a blob, when nobody has shortened it yet. */
const SHOWN = 16 * 1024;
const LONGEST_LABEL = 250;

/** What a result has besides its text. */
export interface MoreOfResult {
  readonly structured?: unknown;
  readonly attachments?: ToolResult["attachments"];
  readonly blocks?: ToolResult["blocks"];
  readonly metadata?: ToolResult["metadata"];
  /** The text is the JSON of the structured value, which is therefore kept once. */
  readonly structuredIsText?: true;
}

export function toStartedRow(call: StartedCall, instance: string): CallRow {
  const parameters = toBoundedJson(call.parameters);
  return {
    call_id: toKey(call.callId),
    parent_call_id: toOptionalKey(call.parentCallId),
    replay_of: null,
    tool_name: toKey(call.toolName),
    display_name: toLabel(call.displayName),
    session_id: toKey(call.sessionID),
    message_id: "",
    caller: toLabel(call.caller),
    tid: null,
    depth: 0,
    state: "running",
    timestamp: Math.round(call.timestamp),
    duration: null,
    run_duration: null,
    instance,
    size: bytesOf(parameters),
    result_type: "text",
    result_size: 0,
    result_blob: null,
    more_blob: null,
    parameters_hash: "",
    flags: null,
    parameters,
    error: null,
    result_text: "",
    more: null,
    log: null,
    after_duration: null,
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
  return { record, result, replayOf, instance, longText, more: moreOf(result), log };
}

export function needsBlobs({ longText, more }: FinishedCall): boolean {
  return longText !== undefined || (more !== undefined && more.length > LONGEST_INLINE);
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
  const inline = bytesOf(parameters) + bytesOf(text) + bytesOf(error) + bytesOf(more) + bytesOf(log);
  return {
    call_id: toKey(record.callId),
    parent_call_id: toOptionalKey(record.parentCallId),
    replay_of: toOptionalKey(call.replayOf),
    tool_name: toKey(record.toolName),
    display_name: toLabel(record.displayName),
    session_id: toKey(record.sessionID),
    message_id: toLabel(record.messageID),
    caller: toLabel(record.caller),
    tid: record.tid === undefined ? null : toLabel(record.tid),
    depth: record.depth,
    state: record.status,
    timestamp: Math.round(record.timestamp),
    duration: record.duration,
    run_duration: record.runDuration,
    instance: call.instance,
    size: inline + (textBlob?.bytes ?? 0) + (moreBlob?.bytes ?? 0),
    result_type: result.type,
    result_size: longText?.length ?? text.length,
    result_blob: textBlob?.name ?? null,
    more_blob: moreBlob?.name ?? null,
    parameters_hash: toLabel(record.parametersHash).slice(0, 80),
    flags: record.flags === undefined ? null : toJson(record.flags),
    parameters,
    error,
    result_text: text,
    more,
    log,
    after_duration: record.afterDuration ?? null,
  };
}

function moreOf(result: ToolResult): string | undefined {
  const { content, type, structured, attachments, blocks, metadata } = result;
  if (
    structured === undefined &&
    attachments === undefined &&
    blocks === undefined &&
    metadata === undefined
  ) {
    return undefined;
  }
  const isText =
    type === "json" &&
    structured !== undefined &&
    content.length <= LONGEST_INLINE &&
    toJson(structured) === content;
  if (isText && attachments === undefined && blocks === undefined && metadata === undefined) {
    return '{"structuredIsText":true}';
  }
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

function bytesOf(text: string | null): number {
  return text === null ? 0 : Buffer.byteLength(text);
}

function toOptionalKey(text: string | undefined): string | null {
  return text === undefined ? null : toKey(text);
}

/** For texts that are shown and not looked up by. */
function toLabel(text: string): string {
  if (text.length <= LONGEST_LABEL) return toStorableText(text);
  return `${toStorableText(text.slice(0, LONGEST_LABEL))}…`;
}
