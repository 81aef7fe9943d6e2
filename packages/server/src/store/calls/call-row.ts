import type { LogLevel, ToolCallRecord, ToolErrorResponse, ToolResult } from "@toolrack/core";
import { type ExpressionBuilder, type SqlBool, sql } from "kysely";
import type { Blob, Blobs } from "../blobs.ts";
import { toKey, toLabel, toStorableText } from "../keys.ts";
import { fromJson, json, plain, rowMap, toBoundedJson, toJson, tooLarge } from "../row-mapping.ts";
import { type CallRow, type Tables, tables } from "../schema.ts";

/** A call as the store returns it. */
export interface StoredCall extends Omit<ToolCallRecord, "status"> {
  /** `error` also for a call that was interrupted. */
  readonly status: "running" | "completed" | "error";
  /**
   * The result with its text cut to a bounded length; the whole text is read by page. Empty while the call
   * runs.
   */
  readonly result: ToolResult;
  /** Characters of the whole result text. */
  readonly resultSize: number;
  /** The call that this one repeats. */
  readonly replayOf?: string;
  /** `interrupted`: the process died while the call ran. `cancelled`: its caller gave it up, which is no failure. */
  readonly outcome: "running" | "completed" | "error" | "interrupted" | "cancelled";
  /** The caller of the chain's first call, when it has a token. */
  readonly owner?: string;
  /** By what the caller made the call: the console, a program, an MCP client, a chat or a schedule. */
  readonly via?: string;
  /** The name of the expert as whom the caller made the call. */
  readonly expert?: string;
  /** The lane whose worker runs or ran the call. */
  readonly lane?: string;
  /** The lines that the tool logged while it ran; absent when there are none, and in lists. */
  readonly log?: readonly CallLine[];
  readonly trace?: CallTrace;
}

/** Where in the files of its author a tool failed. Only for admins, because it names files of the server. */
export interface CallTrace {
  /** `FILE:LINE`, by the file's path in the workspace. */
  readonly at: string;
  /** What was thrown, and the frames of the stack that lie in the author's files. */
  readonly stack: string;
}

/** A call that has begun, recorded so that a crash leaves a trace of it. */
export interface StartedCall {
  readonly callId: string;
  readonly parentCallId?: string;
  readonly toolName: string;
  readonly displayName: string;
  readonly sessionID: string;
  readonly caller: string;
  readonly timestamp: number;
  /** How many calls are above this one in its chain. Default 0. */
  readonly depth?: number;
  /** The caller of the chain's first call, when it has a token. */
  readonly owner?: string;
  /** By what the caller made it. */
  readonly via?: string | undefined;
  /** The name of the expert as whom the caller made the call. */
  readonly expert?: string | undefined;
  /** The line of the program that made the call. */
  readonly line?: number | undefined;
  /** The first call of the chain, for a call that another one made. */
  readonly rootCallId?: string | undefined;
  readonly parameters: Record<string, unknown>;
}

/** What is recorded of an ended call beside its record and result. */
export interface EndingDetails {
  /** The call that this one repeats. */
  readonly replayOf?: string | undefined;
  /** The whole text of the result, when the result has only a part of it. */
  readonly whole?: string | undefined;
  readonly log?: readonly CallLine[] | undefined;
  /** The caller of the chain's first call, when it has a token. */
  readonly owner?: string | undefined;
  /** The first call of the chain, for a call that another one made. */
  readonly rootCallId?: string | undefined;
  /** The lane whose worker ran it. */
  readonly lane?: string | undefined;
  readonly trace?: CallTrace | undefined;
  /** By what the caller made the call. */
  readonly via?: string | undefined;
  /** The name of the expert as whom the caller made the call. */
  readonly expert?: string | undefined;
}

/**
 * A line that a tool logged while it ran. The level `note` marks a line of the rack itself about lines that
 * were not kept.
 */
export interface CallLine {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly level: LogLevel | "progress" | "note";
  readonly text: string;
}

/** The most characters of a text in a row; longer texts become blobs. */
const LONGEST_INLINE = 64 * 1024;
/** How many characters a row keeps of a text that became a blob, unless the text was shortened before. */
const SHOWN = 16 * 1024;

/** What a result has besides its text. */
interface MoreOfResult {
  readonly structured?: unknown;
  readonly attachments?: ToolResult["attachments"];
  readonly blocks?: ToolResult["blocks"];
  readonly metadata?: ToolResult["metadata"];
  /** Set when the result's text is the JSON of the structured value, which is then not kept again. */
  readonly structuredIsText?: true;
}

const columns = tables.calls.flatMap((line) => line.split(", ")).map((text) => text.split(" "));

/** The columns of a call, in the order in which statements name them. */
export const callColumns = columns.map(([name]) => name) as (keyof CallRow)[]; // `CallRow` has these names.

/** A row with every column empty: null, an empty text or 0. */
export const blankRow = Object.fromEntries(
  columns.map(([name, type = ""]) => {
    if (type.endsWith("?")) return [name, null];
    return [name, /^(?:key|code|text)/.test(type) ? "" : 0];
  }),
) as unknown as CallRow; // Every column is there, of its type or empty.

/** The columns that are known when a call begins. */
function beginningOf(
  call: StartedCall | ToolCallRecord,
  { owner = "", rootCallId }: EndingDetails,
  parameters: string,
) {
  const isNested = call.parentCallId !== undefined;
  return {
    call_id: toKey(call.callId),
    parent_call_id: isNested ? toKey(call.parentCallId) : null,
    root_call_id: isNested && rootCallId !== undefined ? toKey(rootCallId) : null,
    owner: toKey(owner),
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
    ...beginningOf(call, call, parameters),
    flags:
      call.via === undefined && call.line === undefined
        ? null
        : flagsJson(call.line === undefined ? undefined : { line: call.line }, call),
    state: "running",
    instance,
    size: Buffer.byteLength(parameters),
    result_type: "text",
  };
}

/** A finished call, from which its row is made: at once, or after its blobs have been written. */
export interface FinishedCall {
  readonly record: ToolCallRecord;
  readonly result: ToolResult;
  readonly instance: string;
  readonly details: EndingDetails;
  /** The whole text, where it is too long for the row or `result` has only a part of it. */
  readonly longText: string | undefined;
  readonly more: string | undefined;
  /** Whether `longText` or `more` has to be written as a blob. */
  readonly needsBlobs: boolean;
}

export function prepareFinished(
  record: ToolCallRecord,
  result: ToolResult,
  instance: string,
  details: EndingDetails = {},
): FinishedCall {
  const text = details.whole ?? result.content;
  const isLong = text.length > LONGEST_INLINE || text.length > result.content.length;
  const longText = isLong ? text : undefined;
  const { structured, attachments, blocks, metadata } = result;
  const hasMore = attachments !== undefined || blocks !== undefined || metadata !== undefined;
  const more = hasMore || structured !== undefined ? moreOf(result, hasMore) : undefined;
  const needsBlobs = isLong || (more !== undefined && more.length > LONGEST_INLINE);
  return { record, result, instance, details, longText, more, needsBlobs };
}

export async function toRowWithBlobs(call: FinishedCall, blobs: Blobs): Promise<CallRow> {
  const { longText, more } = call;
  const moreIsLong = more !== undefined && more.length > LONGEST_INLINE;
  return toFinishedRow(
    call,
    longText === undefined ? undefined : await blobs.write(longText),
    moreIsLong ? await blobs.write(more) : undefined,
  );
}

export function toFinishedRow(call: FinishedCall, textBlob?: Blob, moreBlob?: Blob): CallRow {
  const { record, result, longText, details } = call;
  const { replayOf, via, expert } = details;
  const parameters = toBoundedJson(record.parameters);
  const error = record.error === undefined ? null : errorJson(record.error, parameters, details.trace);
  const text = toStorableText(
    textBlob === undefined ? result.content : shorten(result.content, record.callId),
  );
  const more = moreBlob === undefined ? (call.more ?? null) : null;
  const log = details.log === undefined ? null : toJson(details.log);
  let size = Buffer.byteLength(parameters) + Buffer.byteLength(text);
  for (const other of [error, more, log]) if (other !== null) size += Buffer.byteLength(other);
  let flags: string | null = null;
  if (record.flags !== undefined || via !== undefined) {
    const isUsual = record.flags === undefined && expert === undefined && usual?.via === via;
    flags = isUsual ? usual!.text : flagsJson(record.flags, details);
  }
  return {
    ...beginningOf(record, details, parameters),
    replay_of: replayOf === undefined ? null : toKey(replayOf),
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
    flags,
    error,
    result_text: text,
    more,
    log,
    after_duration: record.afterDuration ?? null,
    lane: details.lane ?? null,
  };
}

/** What is written into the row of a call whose process died. */
export function interruptedBy(error: ToolErrorResponse) {
  const { message } = error;
  return {
    state: "interrupted",
    error: JSON.stringify(error),
    result_type: "error",
    result_text: message,
    result_size: message.length,
  } as const;
}

/**
 * JSON of what the result has besides its text. `hasMore`: the result has other members than the structured
 * value.
 */
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

/**
 * The part of a result's text that stays in the row when the whole is a blob. A text that was shortened for
 * the model already stays as it is.
 */
function shorten(content: string, callId: string): string {
  if (content.length <= LONGEST_INLINE) return content;
  const rest = content.length - SHOWN;
  return `${content.slice(0, SHOWN)}\n… ${rest} more characters: the whole result is kept as call ${callId}; read on from offset ${SHOWN} …`;
}

/** The column `flags`: the flags, by what the call was made, and as which expert. */
type RecordedFlags = NonNullable<ToolCallRecord["flags"]> & Pick<StoredCall, "via" | "expert">;

type MadeBy = Pick<EndingDetails, "via" | "expert">;

function flagsJson(flags: ToolCallRecord["flags"], { via, expert }: MadeBy): string {
  const recorded: RecordedFlags = {
    // Written as the first member: `wasInLoop` finds calls in loops by how this text begins.
    ...(flags?.loop && { loop: flags.loop }),
    ...flags,
    ...(via !== undefined && { via: toLabel(via) }),
    ...(expert !== undefined && { expert: toLabel(expert) }),
  };
  const text = toJson(recorded);
  if (flags === undefined && expert === undefined) usual = { via, text };
  return text;
}

/** The text that was written last for a call with nothing but `via`. Mostly the next call has the same and uses it again. */
let usual: { readonly via: string | undefined; readonly text: string } | undefined;

/** The column `error`: the error, and where it was thrown. */
type RecordedError = ToolErrorResponse & { readonly trace?: CallTrace | undefined };

/** JSON of the error. Leaves out the arguments that the error repeats, because the row has them. */
function errorJson(error: ToolErrorResponse, parameters: string, trace: CallTrace | undefined): string {
  const { details } = error;
  const isRepeated = details !== undefined && toBoundedJson(details.input) === parameters;
  const recorded: RecordedError = { ...error, trace };
  const json = toJson(isRepeated ? { ...recorded, details: { ...details, input: undefined } } : recorded);
  if (json.length <= LONGEST_INLINE) return json;
  const { name, code, message, recoverable } = error;
  return toJson({ name, code, message: message.slice(0, SHOWN), recoverable, trace });
}

/** The long columns, of which a list reads nothing or only a short part, and one that nobody is shown. */
const unlisted = ["parameters", "result_text", "more", "more_blob", "log", "root_call_id"] as const;

/** The members of a call that stand in columns of their own. */
const calls = rowMap<
  Omit<StoredCall, "parameters" | "status" | "result" | "log" | "trace" | "via" | "expert">
>()(
  "calls",
  {
    outcome: plain("state"),
    duration: { ...plain<number>(), read: Number, hasDefault: true },
    runDuration: { ...plain<number>(), read: Number, hasDefault: true },
    error: json(),
    flags: json(),
    owner: { ...plain<string>(), read: (found) => String(found) || undefined },
  },
  [...unlisted, "instance", "size", "result_type", "result_blob"],
);

type UnlistedColumn = (typeof unlisted)[number];
export type ListedRow = Omit<CallRow, UnlistedColumn> & { parameters: string | null; result_text: string };

export const listedColumns = callColumns.filter(
  (column): column is Exclude<keyof CallRow, UnlistedColumn> => !unlisted.some((one) => one === column),
);

/**
 * The most characters that an item of a list has of the result (LISTED_RESULT) and of the arguments
 * (LISTED_PARAMETERS).
 */
const LISTED_RESULT = 2_000;
const LISTED_PARAMETERS = 16_000;

/**
 * Selects the beginning of the result, and null in place of long arguments. In a row that is small as a whole, the
 * arguments need not be measured.
 */
export function shownParts(expression: ExpressionBuilder<Tables, "calls">) {
  const isShort = sql<SqlBool>`size <= ${sql.lit(LISTED_PARAMETERS)} or length(parameters) <= ${sql.lit(LISTED_PARAMETERS)}`;
  return [
    sql<string>`substr(result_text, 1, ${sql.lit(LISTED_RESULT)})`.as("result_text"),
    expression.case().when(isShort).then(expression.ref("parameters")).end().as("parameters"),
  ] as const;
}

/**
 * Turns a row into a call. `more` is JSON of what the result has besides its text; a list gives neither
 * `more` nor `logged`.
 */
export function toStoredCall(row: ListedRow, more?: string | null, logged?: string | null): StoredCall {
  const { error: recorded, flags: noted, ...call } = calls.toRecord(row);
  const { via, expert, ...flags }: RecordedFlags = noted ?? {};
  const { trace, ...plainError }: Partial<RecordedError> = recorded ?? {};
  const parameters = fromJson<Record<string, unknown>>(row.parameters) ?? tooLarge(row.size);
  // Without its trace, a recorded error is the error that was recorded.
  const error = withInput(recorded && (plainError as ToolErrorResponse), parameters);
  const log = fromJson<NonNullable<StoredCall["log"]>>(logged ?? null);
  return {
    ...call,
    ...(call.outcome === "error" && error?.code === "cancelled" && { outcome: "cancelled" }),
    ...(Object.keys(flags).length > 0 && { flags }),
    ...(via !== undefined && { via }),
    ...(expert !== undefined && { expert }),
    parameters,
    status: row.state === "interrupted" ? "error" : row.state,
    ...(error && { error }),
    ...(trace && { trace }),
    // Until a call of a lane ends, `more` is for its worker.
    result: resultOf(row, error, row.state === "running" ? null : (more ?? null)),
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
