import type { Logger, ToolCallRecord, ToolErrorResponse, ToolResult } from "@toolrack/core";
import { type ExpressionBuilder, type SqlBool, sql } from "kysely";
import { AGREED_ELSEWHERE } from "../approvals.ts";
import type { BlobDirectory } from "../blobs.ts";
import type { OpenedDatabase } from "../database.ts";
import { isDuplicateKey, StoreUnavailable } from "../database-errors.ts";
import { ResultElsewhereError } from "../errors.ts";
import type { Instance } from "../instances.ts";
import { mostHeld, toKey } from "../keys.ts";
import { findRow, type Page, readPage } from "../rows.ts";
import type { Tables } from "../schema.ts";
import type { CallJournals } from "./call-journal.ts";
import { type CallQuery, filterCalls, isNotCompleted, looksAtMany } from "./call-query.ts";
import {
  type CallLine,
  type FinishedCall,
  listedColumns,
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
import { WaitingRecords } from "./waiting-records.ts";

/** Characters of the result, and of the arguments, that an item of a list has at the most. */
const LISTED_RESULT = 2_000;
const LISTED_PARAMETERS = 16_000;

/** Is told of a call by its id, and why the database refuses it. Must not throw. */
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
   * The records that wait in memory until the store can take them. A property, so that a store that stands in front of
   * this one need not know of it.
   */
  readonly held: WaitingRecords;
  #onRefused: RefusalListener = () => {};
  readonly #writer: CallWriter;
  /** Calls whose blobs are being written, before their rows are. */
  readonly #blobWrites = new Set<Promise<void>>();

  constructor(database: OpenedDatabase, { blobs, instance, journals, logger, delay }: CallRepositoryOptions) {
    this.#database = database;
    this.#blobs = blobs;
    this.#instance = instance;
    this.#journals = journals;
    this.#writer = new CallWriter(new CallTable(database.db, instance.id), {
      ...(delay === undefined ? {} : { delay }),
      // A server of its own may be shared by nodes that do not see each other's files.
      ...(database.engine === "sqlite" ? { journal: journals.open() } : {}),
      onRefused: ({ call_id }, error) => this.#onRefused(call_id, error),
    });
    this.held = new WaitingRecords(journals.openSpare(mostHeld.bytes), this.#writer, logger);
    database.pending.add(this.#writer);
  }

  /**
   * Notes a call under an id that its caller chose, before it begins. False when there is a call with that id, here or at
   * another process: of all that ask for the same id, one is told true. So a caller whose connection broke can ask again
   * under the same id, also after the process was killed, and nothing is run twice. Rejects when the store cannot be read.
   */
  async claim(call: StartedCall): Promise<boolean> {
    // One that ended a moment ago may be in the journal only.
    await this.#database.pending.commit(toKey(call.callId));
    try {
      await this.#writer.claim(toStartedRow(call, this.#instance.id));
      return true;
    } catch (error) {
      if (isDuplicateKey(error)) return false;
      // A full disk can still be read, and tools go on: only that nothing is noted before they begin.
      return (await this.get(call.callId)) === undefined;
    }
  }

  /** Returns at once; written with the next batch. */
  started(call: StartedCall): void {
    this.#writer.started(toKey(call.callId), () => toStartedRow(call, this.#instance.id));
  }

  /**
   * Resolves when it is safe, whatever happens to the process: in the database, or in a journal beside it from which the
   * database has it a moment later, and at the next start if the process ends before. Every method here knows of it from
   * then on. `whole` is the whole text, when `result` has only a part of it. A call with the id of an earlier one is kept
   * beside it, under that id with an ending of its own. Resolves with `held` when the store cannot take it now: it is kept
   * in memory and written when the store can. Rejects when the database never takes it.
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
    const written = call.needsBlobs ? this.#writeWithBlobs(call) : this.#writer.finished(toFinishedRow(call));
    return written.catch((error) => {
      const unavailable = StoreUnavailable.from(error);
      if (unavailable === undefined) throw error;
      return this.#hold(call, unavailable);
    });
  }

  #writeWithBlobs(call: FinishedCall): Promise<"safe"> {
    const written = toRowWithBlobs(call, this.#blobs).then((row) => this.#writer.finished(row));
    const settled = written.catch(() => {}).then(() => void this.#blobWrites.delete(settled));
    this.#blobWrites.add(settled);
    return written;
  }

  #hold(call: FinishedCall, why?: StoreUnavailable): "held" {
    const row = toFinishedRow(call);
    const isWhole = !call.needsBlobs;
    const bytes = row.size + (call.longText?.length ?? 0);
    const write = () => (isWhole ? this.#writer.finished(row) : this.#writeWithBlobs(call));
    this.held.add({ row, bytes, isWhole, write }, why);
    return "held";
  }

  /**
   * Tells of calls that are safe in the journal and that the database refuses, once for each. They stay there and are
   * tried again, by the next process at the latest. A property for the same reason as `held`.
   */
  readonly onRefused = (listener: RefusalListener): void => {
    this.#onRefused = listener;
  };

  async get(callId: string): Promise<StoredCall | undefined> {
    const held = this.held.find(toKey(callId));
    if (held !== undefined) return toStoredCall(held, held.more, held.log);
    await this.#database.pending.commit(toKey(callId));
    const row = await findRow(this.#database.db, "calls", { call_id: toKey(callId) });
    if (row === undefined) return undefined;
    const more = row.more_blob === null ? row.more : await this.#blobs.read(row.more_blob);
    return toStoredCall(row, more, row.log);
  }

  /**
   * Running calls too. So that a page stays small, an item has the first 2,000 characters of the result's text and
   * nothing else of the result, and no arguments longer than 16,000: `get` has all. Throws `InvalidCursorError`.
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

  /** A page of the whole text of the result, in characters. Rejects when its blob is not on this node. */
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
   * Settles what a process that died left running; never a call of a process that lives, here or on another node.
   * Returns how many. To be called at the start, and on a shared database every minute or so.
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
    const left = (error: ToolErrorResponse) =>
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
    // First those of which it is known that they did nothing: nobody had agreed to them, or nobody had gone on with them.
    const unagreed = await left(neverBegunError)
      .where("call_id", "in", (query) =>
        query
          .selectFrom("approvals")
          .select("call_id")
          .where("instance", "in", dead)
          .where(({ or, eb }) => or([eb("stage", "=", "before"), eb("stage", "is", null)]))
          .where(({ or, eb }) => or([eb("state", "!=", "allowed"), eb("resumable", "=", AGREED_ELSEWHERE)])),
      )
      .executeTakeFirst();
    const others = await left(interruptedError).executeTakeFirst();
    await this.#instance.forget(dead);
    await this.#instance.removeFreeLocks();
    return Number(unagreed.numUpdatedRows + others.numUpdatedRows);
  }

  /** Resolves when the database has all calls that are safe, here and in the journals of processes that ended. */
  async settle(): Promise<void> {
    await this.#database.pending.commit();
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
    this.#database.pending.delete(this.#writer);
  }
}

/** Long arguments are left out; measuring them is left out too where the row as a whole is small. */
function listedParameters(expression: ExpressionBuilder<Tables, "calls">) {
  const isShort = sql<SqlBool>`size <= ${sql.lit(LISTED_PARAMETERS)} or length(parameters) <= ${sql.lit(LISTED_PARAMETERS)}`;
  return expression.case().when(isShort).then(expression.ref("parameters")).end().as("parameters");
}

/** What is recorded of a call whose process died while its question whether it may run was not agreed to. */
const neverBegunError: ToolErrorResponse = {
  name: "ApprovalDeniedError",
  code: "approval_denied",
  message:
    "The process that held this call ended before anybody agreed to it, so it did not run. Where its question is still open, agreeing to it makes the call anew.",
  recoverable: true,
};

/** What is recorded of any other call whose process died. */
const interruptedError: ToolErrorResponse = {
  name: "OutcomeUnknownError",
  code: "outcome_unknown",
  message:
    "The process that ran this call ended before the call did. What the tool did until then is not known: look before calling it again.",
  recoverable: true,
};

/** What others need of it. */
export type CallStore = Omit<CallRepository, "settle" | "flush" | "close">;
