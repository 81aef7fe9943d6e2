import { createHash } from "node:crypto";
import type { ToolCallRecord, ToolErrorResponse, ToolResult } from "@toolrack/core";
import { CompiledQuery } from "kysely";
import type { Blob, BlobDirectory } from "../blobs.ts";
import { isDuplicateKey, isTransientError } from "../database.ts";
import { toKey, toStorableText } from "../forms.ts";
import type { CallRow, StoreDatabase } from "../schema.ts";
import type { StartedCall } from "../store.ts";
import { toBoundedJson, toJson } from "../values.ts";
import type { CallLine, CallSink } from "./call-writer.ts";

/** Rows and bytes that one statement inserts at the most: servers limit both parameters and packets. */
const LARGEST_STATEMENT = 32;
const LONGEST_STATEMENT = 1024 * 1024;

export const callColumns = Object.keys({
  call_id: 0,
  parent_call_id: 0,
  replay_of: 0,
  tool_name: 0,
  display_name: 0,
  session_id: 0,
  message_id: 0,
  caller: 0,
  tid: 0,
  depth: 0,
  state: 0,
  timestamp: 0,
  duration: 0,
  run_duration: 0,
  instance: 0,
  size: 0,
  result_type: 0,
  result_size: 0,
  result_blob: 0,
  more_blob: 0,
  parameters_hash: 0,
  flags: 0,
  parameters: 0,
  error: 0,
  result_text: 0,
  more: 0,
  log: 0,
  after_duration: 0,
} satisfies Record<keyof CallRow, 0>) as (keyof CallRow)[]; // The keys are exactly those, as `satisfies` checks.

/** Puts batches of rows into `calls`. */
export class CallTable implements CallSink {
  readonly #db: StoreDatabase;
  readonly #instance: string;
  /** The text of the statement by its number of rows: building it anew costs more than running it. */
  readonly #inserts = new Map<number, string>();

  constructor(db: StoreDatabase, instance: string) {
    this.#db = db;
    this.#instance = instance;
  }

  isTransient(error: unknown): boolean {
    return isTransientError(error);
  }

  async write(rows: readonly CallRow[], replaced: readonly string[]): Promise<void> {
    const statements = splitRows(rows).map((group) => this.#insert(group));
    const [only] = statements;
    // One statement is a transaction of its own.
    if (replaced.length === 0 && statements.length === 1 && only !== undefined) {
      await this.#db.executeQuery(only);
      return;
    }
    await this.#db.transaction().execute(async (transaction) => {
      if (replaced.length > 0) await this.#deleteStarted(transaction, replaced);
      for (const statement of statements) await transaction.executeQuery(statement);
    });
  }

  /**
   * A caller may choose an id that an earlier call had. Neither record may be lost for that, or a call could be hidden by
   * repeating an id: the later one gets an id of its own.
   */
  async writeAlone(row: CallRow, isReplacing: boolean): Promise<void> {
    const replaced = isReplacing ? [row.call_id] : [];
    try {
      await this.write([row], replaced);
    } catch (error) {
      if (!isDuplicateKey(error)) throw error;
      if (row.state === "running" || (await this.#isWritten(row))) return;
      await this.#writeBeside({ ...row, call_id: idBeside(row) });
    }
  }

  async #writeBeside(row: CallRow): Promise<void> {
    try {
      await this.write([row], []);
    } catch (error) {
      if (!isDuplicateKey(error) || !(await this.#isWritten(row))) throw error;
    }
  }

  /** The row itself, when a connection broke between its commit and the answer. */
  async #isWritten({ call_id, timestamp, state }: CallRow): Promise<boolean> {
    const found = await this.#db
      .selectFrom("calls")
      .select("call_id")
      .where("call_id", "=", call_id)
      .where("instance", "=", this.#instance)
      .where("timestamp", "=", timestamp)
      .where("state", "=", state)
      .executeTakeFirst();
    return found !== undefined;
  }

  async #deleteStarted(db: StoreDatabase, callIds: readonly string[]): Promise<void> {
    await db
      .deleteFrom("calls")
      .where("call_id", "in", callIds)
      .where("instance", "=", this.#instance)
      // Another node may have taken this one for dead.
      .where("state", "in", ["running", "interrupted"])
      .execute();
  }

  #insert(rows: readonly CallRow[]): CompiledQuery {
    const values: unknown[] = [];
    for (const row of rows) for (const column of callColumns) values.push(row[column]);
    return CompiledQuery.raw(this.#insertText(rows), values);
  }

  #insertText(rows: readonly CallRow[]): string {
    const known = this.#inserts.get(rows.length);
    if (known !== undefined) return known;
    const inOrder = rows.map((row) => Object.fromEntries(callColumns.map((column) => [column, row[column]])));
    // Every column of a row is in it, which `fromEntries` cannot say.
    const { sql } = this.#db
      .insertInto("calls")
      .values(inOrder as unknown as CallRow[])
      .compile();
    this.#inserts.set(rows.length, sql);
    return sql;
  }
}

/** Always the same for the same row, so that one which is written again from a journal is not kept twice. */
function idBeside(row: CallRow): string {
  const hash = createHash("sha256").update(JSON.stringify(callColumns.map((column) => row[column])));
  return `${row.call_id}~${hash.digest("hex").slice(0, 12)}`;
}

function splitRows(rows: readonly CallRow[]): CallRow[][] {
  const groups: CallRow[][] = [];
  let group: CallRow[] = [];
  let length = 0;
  for (const row of rows) {
    // The size counts blobs too, which are not sent: the group is then smaller than it might be.
    if (group.length === LARGEST_STATEMENT || (group.length > 0 && length + row.size > LONGEST_STATEMENT)) {
      groups.push(group);
      group = [];
      length = 0;
    }
    group.push(row);
    length += row.size;
  }
  if (group.length > 0) groups.push(group);
  return groups;
}

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
    depth: call.depth ?? 0,
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
