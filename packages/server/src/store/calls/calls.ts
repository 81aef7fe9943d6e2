import type { Logger, ToolCallRecord, ToolErrorResponse, ToolResult } from "@toolrack/core";
import { type Expression, type ExpressionBuilder, type SqlBool, sql } from "kysely";
import { TO_TAKE } from "../approvals.ts";
import type { BlobDirectory } from "../blobs.ts";
import { type Engine, isDuplicateKey, type OpenedDatabase } from "../database.ts";
import { ResultElsewhereError } from "../errors.ts";
import { mostHeld, toKey, toStorableText } from "../forms.ts";
import type { Instance } from "../instances.ts";
import type { CallRow, StoreDatabase, Tables } from "../schema.ts";
import type { CallQuery, CallStore, Page, RefusalListener, StartedCall, StoredCall } from "../store.ts";
import { StoreUnavailable } from "../store-unavailable.ts";
import {
  contains,
  formatCursor,
  fromJson,
  matchesGlob,
  type PromisedWrites,
  pageLimit,
  parseCursor,
  tooLarge,
} from "../values.ts";
import type { CallJournals } from "./call-journal.ts";
import { type CallStatistics, readStatistics, type StatisticsQuery } from "./call-statistics.ts";
import {
  CallTable,
  type FinishedCall,
  type MoreOfResult,
  needsBlobs,
  prepareFinished,
  toFinishedRow,
  toRowWithBlobs,
  toStartedRow,
} from "./call-table.ts";
import { type CallLine, CallWriter, interruptedError, neverBegunError } from "./call-writer.ts";
import { HeldCalls } from "./held-calls.ts";

/** Characters of the result, and of the arguments, that an item of a list has at the most. */
const LISTED_RESULT = 2_000;
const LISTED_PARAMETERS = 16_000;

interface CallRepositoryParts {
  readonly db: StoreDatabase;
  readonly engine: Engine;
  /** Runs a query that may look at many rows. */
  readonly scan: OpenedDatabase["scan"];
  readonly pending: PromisedWrites;
  readonly blobs: BlobDirectory;
  readonly instance: Instance;
  readonly journals: CallJournals;
  readonly logger: Pick<Logger, "warn" | "error">;
  /** See `CallWriterOptions`. */
  readonly delay?: number;
}

export class CallRepository implements CallStore {
  readonly #db: StoreDatabase;
  readonly #engine: Engine;
  readonly #blobs: BlobDirectory;
  readonly #scan: OpenedDatabase["scan"];
  readonly #pending: PromisedWrites;
  readonly #instance: Instance;
  readonly #journals: CallJournals;
  /** What the store could not take. A property, so that a store that stands in front of it need not know of it. */
  readonly held: HeldCalls;
  readonly #leave: () => void;
  readonly #refusalListeners = new Set<RefusalListener>();
  readonly #writer: CallWriter;
  /** Calls whose blobs are being written, before their rows are. */
  readonly #blobWrites = new Set<Promise<void>>();

  constructor(parts: CallRepositoryParts) {
    const { db, scan, pending, engine, blobs, instance, journals, logger, ...options } = parts;
    this.#scan = scan;
    this.#pending = pending;
    this.#db = db;
    this.#engine = engine;
    this.#blobs = blobs;
    this.#instance = instance;
    this.#journals = journals;
    this.#writer = new CallWriter(new CallTable(db, instance.id), {
      ...options,
      // A server of its own may be shared by nodes that do not see each other's files.
      ...(engine === "sqlite" ? { journal: journals.open() } : {}),
      onRefused: ({ call_id }, error) => this.#tell(call_id, error),
    });
    this.held = new HeldCalls({
      logger,
      journal: journals.openSpare(mostHeld.bytes),
      journaled: () => this.#writer.refused,
    });
    this.#leave = pending.add(this.#writer);
  }

  async claim(call: StartedCall): Promise<boolean> {
    // One that ended a moment ago may be in the journal only.
    await this.#pending.commit(toKey(call.callId));
    try {
      await this.#writer.claim(toStartedRow(call, this.#instance.id));
      return true;
    } catch (error) {
      if (isDuplicateKey(error)) return false;
      // A full disk can still be read, and tools go on: only that nothing is noted before they begin.
      return (await this.get(call.callId)) === undefined;
    }
  }

  started(call: StartedCall): void {
    this.#writer.started(toKey(call.callId), () => toStartedRow(call, this.#instance.id));
  }

  finished(
    record: ToolCallRecord,
    result: ToolResult,
    replayOf?: string,
    whole?: string,
    log?: readonly CallLine[],
  ): Promise<"safe" | "held"> {
    const call = prepareFinished(record, result, this.#instance.id, replayOf, whole, log);
    if (this.held.isHolding) return Promise.resolve(this.#hold(call));
    return this.#write(call).then(safe, (error) => {
      const unavailable = StoreUnavailable.from(error);
      if (unavailable === undefined) throw error;
      return this.#hold(call, unavailable);
    });
  }

  #write(call: FinishedCall): Promise<void> {
    if (!needsBlobs(call)) return this.#writer.finished(toFinishedRow(call));
    const written = toRowWithBlobs(call, this.#blobs).then((row) => this.#writer.finished(row));
    const settled = written.catch(() => {}).then(() => void this.#blobWrites.delete(settled));
    this.#blobWrites.add(settled);
    return written;
  }

  #hold(call: FinishedCall, why?: StoreUnavailable): "held" {
    const row = toFinishedRow(call);
    const isWhole = !needsBlobs(call);
    const bytes = row.size + (call.longText?.length ?? 0);
    this.held.add({ row, bytes, isWhole, write: () => this.#write(call) }, why);
    return "held";
  }

  /** Bound to this one: a store that stands in front of it need not know what it keeps to itself. */
  readonly onRefused = (listener: RefusalListener): void => {
    this.#refusalListeners.add(listener);
  };

  async get(callId: string): Promise<StoredCall | undefined> {
    const held = this.held.find(toKey(callId));
    if (held !== undefined) return toStoredCall(held, held.more, held.log);
    await this.#pending.commit(toKey(callId));
    const row = await this.#db
      .selectFrom("calls")
      .selectAll()
      .where("call_id", "=", toKey(callId))
      .executeTakeFirst();
    if (row === undefined) return undefined;
    const more = row.more_blob === null ? row.more : await this.#blobs.read(row.more_blob);
    return toStoredCall(row, more, row.log);
  }

  async list(query: CallQuery): Promise<Page<StoredCall>> {
    const limit = pageLimit(query.limit);
    const after = query.cursor === undefined ? undefined : parseCursor(query.cursor);
    await this.#pending.commit();
    let selection = this.#db
      .selectFrom("calls")
      .select(listedColumns)
      .select(sql<string>`substr(result_text, 1, ${sql.lit(LISTED_RESULT)})`.as("result_text"))
      .select(listedParameters)
      .where((expression) => filterCalls(expression, this.#engine, query));
    if (after !== undefined) {
      selection = selection
        // The first condition says less than the second, but an index can be used for it.
        .where("timestamp", "<=", after.time)
        .where(({ or, eb }) => or([eb("timestamp", "<", after.time), eb("call_id", "<", after.id)]));
    }
    const wanted = selection
      .orderBy("timestamp", "desc")
      .orderBy("call_id", "desc")
      .limit(limit + 1);
    return toPage(await (looksAtMany(query) ? this.#scan(wanted) : wanted.execute()), limit);
  }

  async readResult(
    callId: string,
    offset: number,
    limit: number,
  ): Promise<{ text: string; total: number } | undefined> {
    await this.#pending.commit(toKey(callId));
    const row = await this.#db
      .selectFrom("calls")
      .select(["result_blob", "result_size", "result_text"])
      .where("call_id", "=", toKey(callId))
      .executeTakeFirst();
    if (row === undefined) return undefined;
    const start = Math.max(0, Math.trunc(offset) || 0);
    const length = Math.max(0, Math.trunc(limit) || 0);
    const { result_blob, result_size: total, result_text } = row;
    if (result_blob === null) return { text: result_text.slice(start, start + length), total };
    const text = await this.#blobs.read(result_blob, start, length);
    if (text !== undefined) return { text, total };
    throw new ResultElsewhereError(
      `The whole result of call ${callId} is not in this node's blob directory: it was deleted, or another node keeps it. The record has its beginning.`,
    );
  }

  async statistics(query: StatisticsQuery): Promise<CallStatistics> {
    await this.#pending.commit();
    return readStatistics({ db: this.#db, engine: this.#engine, scan: this.#scan }, query);
  }

  async settleInterrupted(): Promise<number> {
    await this.settle();
    const running = await this.#db
      .selectFrom("calls")
      .select("instance")
      .distinct()
      .where("state", "=", "running")
      .where(isNotCompleted)
      .execute();
    const dead = await this.#instance.findDead(running.map(({ instance }) => instance));
    if (dead.length === 0) {
      await this.#instance.sweep();
      return 0;
    }
    const left = (error: ToolErrorResponse) =>
      this.#db
        .updateTable("calls")
        .set({
          state: "interrupted",
          error: JSON.stringify(error),
          result_type: "error",
          result_text: error.message,
          result_size: error.message.length,
        })
        .where("state", "=", "running")
        .where(isNotCompleted)
        .where("instance", "in", dead);
    // First those of which it is known that they did nothing: nobody had agreed to them, or nobody had gone on with them.
    const unagreed = await left(neverBegunError)
      .where("call_id", "in", (query) =>
        query
          .selectFrom("approvals")
          .select("call_id")
          .where("instance", "in", dead)
          .where(({ or, eb }) => or([eb("stage", "=", "before"), eb("stage", "is", null)]))
          .where(({ or, eb }) => or([eb("state", "!=", "allowed"), eb("resumable", "=", TO_TAKE)])),
      )
      .executeTakeFirst();
    const others = await left(interruptedError).executeTakeFirst();
    await this.#instance.forget(dead);
    await this.#instance.sweep();
    return Number(unagreed.numUpdatedRows + others.numUpdatedRows);
  }

  /** Resolves when the database has all calls that are safe, here and in the journals of processes that ended. */
  async settle(): Promise<void> {
    await this.#pending.commit();
    await this.#journals.replay();
  }

  /** Resolves when everything handed over so far has been written or refused. */
  async flush(): Promise<void> {
    await Promise.all(this.#blobWrites);
    await this.#writer.flush();
    await this.held.flush();
  }

  async close(): Promise<void> {
    await this.flush();
    this.#writer.close();
    this.held.close();
    this.#leave();
  }

  #tell(callId: string, error: unknown): void {
    for (const listener of this.#refusalListeners) {
      try {
        listener(callId, error);
      } catch {
        // The other rows are still to be written, whatever becomes of a log.
      }
    }
  }
}

const safe = () => "safe" as const;

const listedColumns = [
  "call_id",
  "parent_call_id",
  "replay_of",
  "tool_name",
  "display_name",
  "session_id",
  "message_id",
  "caller",
  "tid",
  "depth",
  "state",
  "timestamp",
  "duration",
  "run_duration",
  "after_duration",
  "instance",
  "size",
  "result_type",
  "result_size",
  "result_blob",
  "parameters_hash",
  "flags",
  "error",
] as const;

/** Long arguments are left out; measuring them is left out too where the row as a whole is small. */
function listedParameters(expression: ExpressionBuilder<Tables, "calls">) {
  const isShort = sql<SqlBool>`size <= ${sql.lit(LISTED_PARAMETERS)} or length(parameters) <= ${sql.lit(LISTED_PARAMETERS)}`;
  return expression.case().when(isShort).then(expression.ref("parameters")).end().as("parameters");
}

function toPage(rows: readonly ListedRow[], limit: number): Page<StoredCall> {
  const items = rows.slice(0, limit).map((row) => toStoredCall(row));
  const last = items.at(-1);
  return rows.length > limit && last !== undefined
    ? { items, next: formatCursor({ time: last.timestamp, id: last.callId }) }
    : { items };
}

/** No index helps with what these ask for. */
function looksAtMany({ text, tool, caller, minDuration, maxDuration, top, flag }: CallQuery): boolean {
  return [top || undefined, text, tool, caller, minDuration, maxDuration, flag].some(
    (condition) => condition !== undefined,
  );
}

/** Said beside what implies it, because the index by state has only rows of which it is said. */
const isNotCompleted = sql<SqlBool>`state <> 'completed'`;
const hasSession = sql<SqlBool>`session_id <> ''`;

/** The conditions of a query, all of them checked by the database. */
export function filterCalls(
  expression: ExpressionBuilder<Tables, "calls">,
  engine: Engine,
  query: CallQuery,
): Expression<SqlBool> {
  const conditions: Expression<SqlBool>[] = [];
  if (query.tool !== undefined) {
    conditions.push(matchesGlob(engine, "tool_name", toStorableText(query.tool)));
  }
  if (query.status !== undefined) {
    conditions.push(expression("state", "=", query.status));
    if (query.status !== "completed") conditions.push(isNotCompleted);
  }
  if (query.session !== undefined) {
    conditions.push(expression("session_id", "=", toKey(query.session)));
    if (query.session !== "") conditions.push(hasSession);
  }
  if (query.parent !== undefined) conditions.push(expression("parent_call_id", "=", toKey(query.parent)));
  if (query.top === true) conditions.push(expression("parent_call_id", "is", null));
  // A quote within a text of the flags is written with a backslash, so that this is the name of one and nothing else.
  if (query.flag !== undefined) conditions.push(contains(engine, "flags", `"${query.flag}":`));
  if (query.root !== undefined) conditions.push(isInChain(toKey(query.root)));
  if (query.caller !== undefined) {
    conditions.push(matchesGlob(engine, "caller", toStorableText(query.caller)));
  }
  if (query.minDuration !== undefined) conditions.push(expression("duration", ">=", query.minDuration));
  if (query.maxDuration !== undefined) conditions.push(expression("duration", "<=", query.maxDuration));
  if (query.since !== undefined) conditions.push(expression("timestamp", ">=", Math.ceil(query.since)));
  if (query.until !== undefined) conditions.push(expression("timestamp", "<=", Math.floor(query.until)));
  if (query.text !== undefined && query.text !== "") {
    // In JSON, quotes and line breaks are written differently.
    const inJson = JSON.stringify(query.text).slice(1, -1);
    conditions.push(
      expression.or([
        contains(engine, "result_text", toStorableText(query.text)),
        contains(engine, "parameters", inJson),
        contains(engine, "error", inJson),
      ]),
    );
  }
  return expression.and(conditions);
}

/**
 * Whether a call is the given one or was made by it, directly or not. The root itself may not have been written yet when
 * calls that it made are. `union` leaves out what was found before, so that damaged records cannot go round in circles.
 */
function isInChain(root: string): Expression<SqlBool> {
  return sql`call_id in (
    with recursive chain as (
      select call_id from calls where call_id = ${root} or parent_call_id = ${root}
      union
      select made.call_id from calls made join chain on made.parent_call_id = chain.call_id
    ) select call_id from chain)`;
}

/** In a list, what is long is left in the database. */
type ListedRow = Omit<CallRow, "parameters" | "more" | "more_blob" | "log"> & {
  parameters: string | null;
};

/** The call as it was recorded. `more`: what the result has besides its text, where that and the log have been read. */
function toStoredCall(row: ListedRow, more?: string | null, logged?: string | null): StoredCall {
  const parameters = fromJson<Record<string, unknown>>(row.parameters) ?? tooLarge(row.size);
  const error = errorOf(row, parameters);
  const flags = fromJson<StoredCall["flags"]>(row.flags);
  const log = fromJson<StoredCall["log"]>(logged ?? null);
  return {
    callId: row.call_id,
    ...(row.parent_call_id === null ? {} : { parentCallId: row.parent_call_id }),
    ...(row.replay_of === null ? {} : { replayOf: row.replay_of }),
    toolName: row.tool_name,
    displayName: row.display_name,
    parameters,
    parametersHash: row.parameters_hash,
    timestamp: row.timestamp,
    depth: row.depth,
    sessionID: row.session_id,
    messageID: row.message_id,
    caller: row.caller,
    ...(row.tid === null ? {} : { tid: row.tid }),
    status: row.state === "interrupted" ? "error" : row.state,
    outcome: row.state,
    duration: row.duration ?? 0,
    runDuration: row.run_duration ?? 0,
    ...(row.after_duration === null ? {} : { afterDuration: row.after_duration }),
    ...(error === undefined ? {} : { error }),
    ...(flags === undefined ? {} : { flags }),
    result: resultOf(row, error, more ?? null),
    resultSize: row.result_size,
    ...(log === undefined ? {} : { log }),
  };
}

function errorOf(row: ListedRow, parameters: Record<string, unknown>): ToolErrorResponse | undefined {
  const error = fromJson<ToolErrorResponse>(row.error);
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
