import type { Logger, ToolCallRecord, ToolErrorResponse, ToolResult } from "@toolrack/core";
import { type ExpressionBuilder, type SqlBool, sql } from "kysely";
import { AGREED_ELSEWHERE } from "../approvals.ts";
import type { BlobDirectory } from "../blobs.ts";
import type { OpenedDatabase } from "../database.ts";
import { isDuplicateKey, StoreUnavailable } from "../database-errors.ts";
import { ResultElsewhereError } from "../errors.ts";
import type { Instance } from "../instances.ts";
import { mostHeld, toKey } from "../keys.ts";
import { type Page, readPage } from "../rows.ts";
import type { Tables } from "../schema.ts";
import type { CallJournals } from "./call-journal.ts";
import { type CallQuery, filterCalls, isNotCompleted, looksAtMany } from "./call-query.ts";
import {
  type CallLine,
  type FinishedCall,
  listedColumns,
  needsBlobs,
  prepareFinished,
  type StartedCall,
  type StoredCall,
  toFinishedRow,
  toRowWithBlobs,
  toStartedRow,
  toStoredCall,
} from "./call-row.ts";
import { type CallStatistics, readStatistics, type StatisticsQuery } from "./call-statistics.ts";
import { CallTable } from "./call-table.ts";
import { CallWriter } from "./call-writer.ts";
import { HeldCalls } from "./held-calls.ts";

/** Characters of the result, and of the arguments, in an item of a list. */
const LISTED_RESULT = 2_000;
const LISTED_PARAMETERS = 16_000;

/** Gets the id of a call that the database refuses, and the reason. */
type RefusalListener = (callId: string, reason: unknown) => void;

interface CallRepositoryOptions {
  readonly blobs: BlobDirectory;
  readonly instance: Instance;
  readonly journals: CallJournals;
  readonly logger: Pick<Logger, "warn" | "error">;
  /** See `CallWriterOptions`. */
  readonly delay?: number;
}

export class CallRepository {
  readonly #database: OpenedDatabase;
  readonly #blobs: BlobDirectory;
  readonly #instance: Instance;
  readonly #journals: CallJournals;
  /**
   * The records that wait in memory until the store can take them. A property, so that a wrapper of this repository
   * passes it on unchanged.
   */
  readonly held: HeldCalls;
  readonly #removeWriter: () => void;
  readonly #refusalListeners = new Set<RefusalListener>();
  readonly #writer: CallWriter;
  readonly #blobWrites = new Set<Promise<void>>();

  constructor(database: OpenedDatabase, { blobs, instance, journals, logger, delay }: CallRepositoryOptions) {
    this.#database = database;
    this.#blobs = blobs;
    this.#instance = instance;
    this.#journals = journals;
    this.#writer = new CallWriter(new CallTable(database.db, instance.id), {
      ...(delay === undefined ? {} : { delay }),
      // Nodes that share a database server do not see each other's files.
      ...(database.engine === "sqlite" ? { journal: journals.open() } : {}),
      onRefused: ({ call_id }, error) => this.#notifyRefusal(call_id, error),
    });
    this.held = new HeldCalls(journals.openSpare(mostHeld.bytes), this.#writer, logger);
    this.#removeWriter = database.pending.add(this.#writer);
  }

  /**
   * Records a call under an id that its caller chose, before it begins. Of all who ask for the same id, in any process,
   * one gets true. So a caller whose connection broke can ask again under the same id, also after a crash, and nothing
   * runs twice. Rejects when the store cannot be read.
   */
  async claim(call: StartedCall): Promise<boolean> {
    // A call that ended a moment ago may be in the journal only.
    await this.#database.pending.commit(toKey(call.callId));
    try {
      await this.#writer.claim(toStartedRow(call, this.#instance.id));
      return true;
    } catch (error) {
      if (isDuplicateKey(error)) return false;
      // A full disk can still be read, so calls go on, without a record of their start.
      return (await this.get(call.callId)) === undefined;
    }
  }

  /** Returns at once. The row is written with the next batch. */
  started(call: StartedCall): void {
    this.#writer.started(toKey(call.callId), () => toStartedRow(call, this.#instance.id));
  }

  /**
   * Resolves with `safe` when the record survives the end of the process: in the database, or in a journal that the
   * database imports a moment later or at the next start. All methods here see it from then on. `whole`: the whole
   * text, when `result` has only a part of it. A call with the id of an earlier one gets that id with a suffix.
   * Resolves with `held` when the store cannot take it now: it stays in memory and is written later. Rejects when the
   * database will never take it.
   */
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

  /**
   * Calls the listener once for each call that is safe in the journal and that the database refuses. The call stays
   * there and is tried again, by the next process at the latest. A property for the same reason as `held`.
   */
  readonly onRefused = (listener: RefusalListener): void => {
    this.#refusalListeners.add(listener);
  };

  async get(callId: string): Promise<StoredCall | undefined> {
    const held = this.held.find(toKey(callId));
    if (held !== undefined) return toStoredCall(held, held.more, held.log);
    await this.#database.pending.commit(toKey(callId));
    const row = await this.#database.db
      .selectFrom("calls")
      .selectAll()
      .where("call_id", "=", toKey(callId))
      .executeTakeFirst();
    if (row === undefined) return undefined;
    const more = row.more_blob === null ? row.more : await this.#blobs.read(row.more_blob);
    return toStoredCall(row, more, row.log);
  }

  /**
   * Includes running calls. To keep a page small, an item has the first 2,000 characters of the result's text and
   * nothing else of the result, and no arguments longer than 16,000; `get` has all. Throws `InvalidCursorError`.
   */
  async list(query: CallQuery): Promise<Page<StoredCall>> {
    const { db, engine, pending, scan } = this.#database;
    const selection = db
      .selectFrom("calls")
      .select(listedColumns)
      .select(sql<string>`substr(result_text, 1, ${sql.lit(LISTED_RESULT)})`.as("result_text"))
      .select(listedParameters)
      .where((expression) => filterCalls(expression, engine, query));
    return readPage(selection, {
      limit: query.limit,
      cursor: query.cursor,
      time: "timestamp",
      id: "call_id",
      toItem: (row) => toStoredCall(row),
      placeOf: ({ timestamp, callId }) => ({ time: timestamp, id: callId }),
      async run(wanted) {
        await pending.commit();
        return looksAtMany(query) ? scan(wanted) : wanted.execute();
      },
    });
  }

  /**
   * A page of the result's whole text, in characters. Throws `ResultElsewhereError` when its blob is not on this node.
   */
  async readResult(
    callId: string,
    offset: number,
    limit: number,
  ): Promise<{ text: string; total: number } | undefined> {
    await this.#database.pending.commit(toKey(callId));
    const row = await this.#database.db
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

  /** Counts and times of calls that have ended. */
  async statistics(query: StatisticsQuery): Promise<CallStatistics> {
    await this.#database.pending.commit();
    return readStatistics(this.#database, query);
  }

  /**
   * Marks running calls of dead processes as interrupted; never a call of a living process, here or on another node.
   * Returns how many. Must be called at the start, and on a shared database every minute or so.
   */
  async settleInterrupted(): Promise<number> {
    await this.settle();
    const running = await this.#database.db
      .selectFrom("calls")
      .select("instance")
      .distinct()
      .where("state", "=", "running")
      .where(isNotCompleted)
      .execute();
    const dead = await this.#instance.findDead(running.map(({ instance }) => instance));
    if (dead.length === 0) {
      await this.#instance.removeFreeLocks();
      return 0;
    }
    const interruptWith = (error: ToolErrorResponse) =>
      this.#database.db
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
    // First the calls that certainly did nothing: nobody had agreed to them, or no process had gone on with them.
    const unagreed = await interruptWith(neverBegunError)
      .where("call_id", "in", (query) =>
        query
          .selectFrom("approvals")
          .select("call_id")
          .where("instance", "in", dead)
          .where(({ or, eb }) => or([eb("stage", "=", "before"), eb("stage", "is", null)]))
          .where(({ or, eb }) => or([eb("state", "!=", "allowed"), eb("resumable", "=", AGREED_ELSEWHERE)])),
      )
      .executeTakeFirst();
    const others = await interruptWith(interruptedError).executeTakeFirst();
    await this.#instance.forget(dead);
    await this.#instance.removeFreeLocks();
    return Number(unagreed.numUpdatedRows + others.numUpdatedRows);
  }

  /** Resolves when the database has all rows of the journals, of this process and of dead ones. */
  async settle(): Promise<void> {
    await this.#database.pending.commit();
    await this.#journals.replay();
  }

  /** Resolves when all calls so far are written or refused. */
  async flush(): Promise<void> {
    await Promise.all(this.#blobWrites);
    await this.#writer.flush();
    await this.held.flush();
  }

  async close(): Promise<void> {
    await this.flush();
    this.#writer.close();
    this.held.close();
    this.#removeWriter();
  }

  #notifyRefusal(callId: string, error: unknown): void {
    for (const listener of this.#refusalListeners) {
      try {
        listener(callId, error);
      } catch {
        // A failing listener must not keep the other rows from being written.
      }
    }
  }
}

const safe = () => "safe" as const;

/** Leaves out long arguments. A small row needs no measuring. */
function listedParameters(expression: ExpressionBuilder<Tables, "calls">) {
  const isShort = sql<SqlBool>`size <= ${sql.lit(LISTED_PARAMETERS)} or length(parameters) <= ${sql.lit(LISTED_PARAMETERS)}`;
  return expression.case().when(isShort).then(expression.ref("parameters")).end().as("parameters");
}

/** Recorded for a call whose process died before anybody agreed to run it. */
const neverBegunError: ToolErrorResponse = {
  name: "ApprovalDeniedError",
  code: "approval_denied",
  message:
    "The process that held this call ended before anybody agreed to it, so it did not run. Where its question is still open, agreeing to it makes the call anew.",
  recoverable: true,
};

/** Recorded for any other call whose process died. */
const interruptedError: ToolErrorResponse = {
  name: "OutcomeUnknownError",
  code: "outcome_unknown",
  message:
    "The process that ran this call ended before the call did. What the tool did until then is not known: look before calling it again.",
  recoverable: true,
};

export type CallStore = Omit<CallRepository, "settle" | "flush" | "close">;
