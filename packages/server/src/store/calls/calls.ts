import type { Logger, ToolCallRecord, ToolErrorResponse, ToolResult } from "@toolrack/core";
import {
  type Expression,
  type ExpressionBuilder,
  expressionBuilder,
  type SelectQueryBuilder,
  type SqlBool,
} from "kysely";
import type { Blobs } from "../blobs.ts";
import type { OpenedDatabase } from "../database.ts";
import { isDuplicateKey, StoreUnavailable } from "../database-errors.ts";
import type { Instance } from "../instances.ts";
import { mostHeld, toKey } from "../keys.ts";
import { findRow, type Page, pageLimit, readPage, updateRows } from "../row-mapping.ts";
import { AGREED_ELSEWHERE, type Tables } from "../schema.ts";
import { CallCounts, countedColumns, partOf } from "./call-counts.ts";
import type { CallJournals } from "./call-journal.ts";
import { type CallQuery, filterCalls, isNotCompleted } from "./call-query.ts";
import {
  type EndingDetails,
  type FinishedCall,
  interruptedBy,
  type ListedRow,
  listedColumns,
  prepareFinished,
  type StartedCall,
  type StoredCall,
  shownParts,
  toFinishedRow,
  toRowWithBlobs,
  toStartedRow,
  toStoredCall,
} from "./call-row.ts";
import { type CallStatistics, readStatistics, type StatisticsQuery } from "./call-statistics.ts";
import { CallTable } from "./call-table.ts";
import { CallWriter } from "./call-writer.ts";
import { LaneCalls } from "./lane-calls.ts";
import { WaitingRecords } from "./waiting-records.ts";

/** How many calls a search looks at in one go: few at first, because most searches find enough among the newest. */
const SMALLEST_SLICE = 500;
const LARGEST_SLICE = 20_000;
/** So many calls below one within a chain are read one from another; for more, the calls of the whole chain are looked at. */
const MOST_WALKED = 500;

/** Called with the id of a call whose row the database refuses, and with the reason. Must not throw. */
type RefusalListener = (callId: string, reason: unknown) => void;

interface CallRepositoryOptions {
  readonly blobs: Blobs;
  readonly instance: Instance;
  readonly journals: CallJournals;
  readonly logger: Pick<Logger, "warn" | "error">;
  /** See `CallWriterOptions`. */
  readonly delay?: number;
}

export class CallRepository {
  readonly #database: OpenedDatabase;
  readonly #blobs: Blobs;
  readonly #instance: Instance;
  readonly #journals: CallJournals;
  /**
   * The records that wait in memory until the store can take them. A property and not a method of the class,
   * so that it also works on an object that inherits from this one and has no private members.
   */
  readonly held: WaitingRecords;
  /** The calls that one process admits and another performs. */
  readonly lanes: LaneCalls;
  /** How many calls have ended here. */
  finishedCount = 0;
  #onRefused: RefusalListener = () => {};
  readonly #writer: CallWriter;
  /** One promise for each call whose blobs are being written, before its row is. */
  readonly #blobWrites = new Set<Promise<void>>();

  constructor(database: OpenedDatabase, { blobs, instance, journals, logger, delay }: CallRepositoryOptions) {
    this.#database = database;
    this.#blobs = blobs;
    this.#instance = instance;
    this.#journals = journals;
    this.#writer = new CallWriter(new CallTable(database, instance.id), {
      ...(delay === undefined ? {} : { delay }),
      // Only with SQLite: nodes that share a database server do not see each other's journal files.
      ...(database.engine === "sqlite" ? { journal: journals.open() } : {}),
      onRefused: ({ call_id }, error) => this.#onRefused(call_id, error),
    });
    this.held = new WaitingRecords(journals.openSpare(mostHeld.bytes), this.#writer, logger);
    this.lanes = new LaneCalls(database, { blobs, instance, writer: this.#writer });
    database.pending.add(this.#writer);
  }

  /**
   * Records a call under an id that its caller chose, before the call runs. Returns false when a call with
   * that id exists, in this process or another: of all processes that claim one id, a single one gets true.
   * So a caller whose connection broke can repeat its request under the same id, also after the process was
   * killed, and the tool is not run twice. Rejects when the store cannot be read.
   */
  async claim(call: StartedCall): Promise<boolean> {
    // An earlier call with this id that ended a moment ago may be in the journal only.
    await this.#database.pending.commit(toKey(call.callId));
    try {
      await this.#writer.claim(toStartedRow(call, this.#instance.id));
      return true;
    } catch (error) {
      if (isDuplicateKey(error)) return false;
      // A store that cannot be written (a full disk) may still be readable. Then the call may run without a
      // record of its start, unless its id is taken.
      return (await this.get(call.callId)) === undefined;
    }
  }

  /** Returns at once. The row is written with the next batch, unless the call ends before. */
  started(call: StartedCall): void {
    this.#writer.started(toKey(call.callId), () => toStartedRow(call, this.#instance.id));
  }

  /**
   * Resolves with `safe` when the record survives the end of the process: it is in the database, or in a
   * journal beside it, from which it is written to the database a moment later or at the next start. From
   * then on every method here returns the call. When another call has the same id already, the record is kept under that
   * id with a suffix; but when that is the same call of a lane, which another process has by now or has ended, it resolves
   * with `taken` and the record is left out. Resolves with `held` when the store cannot take the record now: it is kept in
   * memory and written when the store can. Rejects when the database refuses the record for good.
   */
  finished(
    record: ToolCallRecord,
    result: ToolResult,
    details: EndingDetails = {},
  ): Promise<"safe" | "held" | "taken"> {
    const call = prepareFinished(record, result, this.#instance.id, details);
    this.finishedCount++;
    if (this.held.isHolding) return Promise.resolve(this.#hold(call));
    if (!call.needsBlobs) return this.#writer.finished(toFinishedRow(call), (why) => this.#hold(call, why));
    return this.#writeWithBlobs(call).catch((error) => {
      const unavailable = StoreUnavailable.from(error);
      if (unavailable === undefined) throw error;
      return this.#hold(call, unavailable);
    });
  }

  #writeWithBlobs(call: FinishedCall): Promise<"safe" | "held" | "taken"> {
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
   * Sets the listener that is called once for each call that is safe in the journal and that the database
   * refuses. The call stays in the journal and is tried again, by the next process at the latest. A property
   * for the same reason as `held`.
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

  /** The id of the node that runs the call. Undefined when no call with this id is running. */
  async nodeOf(callId: string): Promise<string | undefined> {
    const running = { call_id: toKey(callId), state: "running" } as const;
    return (await findRow(this.#database.db, "calls", running))?.instance;
  }

  /**
   * Lists running calls too, the newest first. So that a page stays small, an item has the first 2,000
   * characters of the result's text and nothing else of the result, and no arguments longer than 16,000
   * characters; `get` returns everything. Throws `InvalidCursorError`.
   */
  async list(query: CallQuery): Promise<Page<StoredCall>> {
    const { db, engine, pending, scan } = this.#database;
    await pending.commit();
    const root = query.root === undefined ? undefined : toKey(query.root);
    const chain = root === undefined ? undefined : await this.#chainOf(root);
    const { indexed, times, rest } = filterCalls(expressionBuilder(), engine, query, chain);
    const selection = db
      .selectFrom("calls")
      .select(listedColumns)
      .select(shownParts)
      .where(({ and }) => and([...times, ...rest]));
    return readPage(selection, {
      limit: query.limit,
      cursor: query.cursor,
      time: "timestamp",
      id: "call_id",
      toItem: (row) => toStoredCall(row),
      placeOf: ({ timestamp, callId }) => ({ time: timestamp, id: callId }),
      run: async (listed, after) => {
        const wanted = listed.where(({ and }) => and([...indexed]));
        // These calls of a chain are found through each other, so that no slice of time has all of them.
        if (root !== undefined && chain === undefined) return scan(wanted, query.signal);
        const most = pageLimit(query.limit) + 1;
        const search = () =>
          this.#search(wanted, [...indexed, ...times], { most, latest: after?.time, signal: query.signal });
        const rows = await (rest.length === 0 ? wanted.execute() : search());
        if (root === undefined || chain !== root) return rows;
        rows.push(...(await listed.where("call_id", "=", root).execute()));
        return rows.sort(newestFirst).slice(0, most);
      },
    });
  }

  /**
   * The first call of a chain, as its calls name it, when the calls from the given one on are best looked for among all
   * calls of the chain. Undefined when they are few, or when nobody names the first: in records of older versions.
   */
  async #chainOf(callId: string): Promise<string | undefined> {
    const { db, engine } = this.#database;
    const find = async (column: "root_call_id" | "parent_call_id", ids: readonly string[], most: number) =>
      ids.length === 0
        ? []
        : await db
            .selectFrom("calls")
            .select(["call_id", "root_call_id"])
            .where(column, "in", ids)
            .where(column, "is not", null)
            .limit(most)
            .execute();
    if ((await find("root_call_id", [callId], 1)).length > 0) return callId;
    // MySQL cannot climb within a chain, and walks down however many there are.
    if (engine === "mysql") return undefined;
    let made = await find("parent_call_id", [callId], MOST_WALKED);
    const root = made[0]?.root_call_id ?? undefined;
    for (let walked = made.length; made.length > 0; walked += made.length) {
      if (walked >= MOST_WALKED) return root;
      const ids = made.map(({ call_id }) => call_id);
      made = await find("parent_call_id", ids, MOST_WALKED);
    }
    return undefined;
  }

  /** Reads up to `most` of the wanted calls, the newest first, slice by slice. */
  async #search<Row>(
    wanted: SelectQueryBuilder<Tables, "calls", Row>,
    indexed: readonly Expression<SqlBool>[],
    { most, latest, signal }: { most: number; latest: number | undefined; signal: AbortSignal | undefined },
  ): Promise<Row[]> {
    const rows: Row[] = [];
    for await (const { from, to } of this.#slices(indexed, latest, signal)) {
      const slice = wanted.where("timestamp", ">=", from).where("timestamp", "<=", to);
      rows.push(...(await this.#database.scan(slice, signal, "long")));
      if (rows.length >= most) break;
    }
    return rows.slice(0, most);
  }

  /**
   * Cuts the calls with the given conditions into slices of time, the newest first, each with so few calls that looking at
   * all of them takes little time: others can read in between, and a search that nobody waits for ends.
   */
  async *#slices(
    indexed: readonly Expression<SqlBool>[],
    latest = Number.MAX_SAFE_INTEGER,
    signal?: AbortSignal,
  ): AsyncGenerator<{ readonly from: number; readonly to: number }> {
    const { db, scan } = this.#database;
    for (let to = latest, size = SMALLEST_SLICE; ; size = Math.min(4 * size, LARGEST_SLICE)) {
      const before = db
        .selectFrom("calls")
        .select("timestamp")
        .where(({ and }) => and([...indexed]))
        .where("timestamp", "<=", to)
        .orderBy("timestamp", "desc")
        .limit(1)
        .offset(size);
      const [next] = await scan(before, signal, "long");
      // All calls of one millisecond are in one slice.
      const from = next === undefined ? 0 : Math.min(next.timestamp + 1, to);
      yield { from, to };
      if (next === undefined) return;
      to = from - 1;
    }
  }

  /**
   * Reads a page of the result's whole text; `offset` and `limit` count characters. Rejects with `BlobMissingError` when
   * the text is not where it was kept.
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
    return { text: await this.#blobs.read(result_blob, start, length), total };
  }

  /** Counts and times of calls that have ended. */
  async statistics(query: StatisticsQuery): Promise<CallStatistics> {
    await this.#database.pending.commit();
    return readStatistics(this.#database, query);
  }

  /**
   * Marks the calls that dead processes left running as interrupted; never a call of a process that lives,
   * here or on another node. Returns how many. To be called at the start, and on a shared database every
   * minute or so.
   */
  async settleInterrupted(): Promise<number> {
    await this.settle();
    const running = await this.#database.db
      .selectFrom("calls")
      .select("instance")
      .distinct()
      .where("state", "=", "running")
      .where(isNotCompleted)
      // Calls of lanes have processes that come and go: see the sweep of lanes.
      .where("lane", "is", null)
      .execute();
    const dead = await this.#instance.findDead(running.map(({ instance }) => instance));
    if (dead.length === 0) {
      await this.#instance.removeFreeLocks();
      return 0;
    }
    // First the calls that certainly did not run: nobody had approved them, or no process had continued them
    // after the approval.
    const unagreed = await this.#interrupt(dead, neverBegunError, (calls) => calls.where(isUnagreed));
    const others = await this.#interrupt(dead, interruptedError, (calls) => calls);
    await this.#instance.forget(dead);
    await this.#instance.removeFreeLocks();
    return unagreed + others;
  }

  /**
   * Claims the calls of a tool that dead processes left running and that no other call made, so that this process goes on
   * with them under their ids; of their children, those that wait for a person. Of all processes a single one gets each
   * call. To be called before `settleInterrupted`, which ends the calls that are not wanted.
   */
  async takeOver(toolName: string, isWanted: (call: StoredCall) => boolean): Promise<StoredCall[]> {
    await this.settle();
    const { db } = this.#database;
    const running = db
      .selectFrom("calls")
      .select(["call_id", "instance"])
      .where("state", "=", "running")
      .where(isNotCompleted);
    const left = await running
      .where("tool_name", "=", toKey(toolName))
      .where("parent_call_id", "is", null)
      .execute();
    const dead = await this.#instance.findDead(left.map(({ instance }) => instance));
    const taken: StoredCall[] = [];
    for (const { call_id } of left.filter(({ instance }) => dead.includes(instance))) {
      const call = await this.get(call_id);
      if (call === undefined || !isWanted(call) || !(await this.#claimFrom(dead, call_id))) continue;
      const children = await running
        .where("parent_call_id", "=", call_id)
        .where("instance", "in", dead)
        .where(isUnagreed)
        .execute();
      for (const child of children) await this.#claimFrom(dead, child.call_id);
      taken.push(call);
    }
    return taken;
  }

  /** Ends calls that were taken over and will not be made: nobody had agreed to them, so they did not run. */
  async giveUp(callIds: readonly string[]): Promise<void> {
    if (callIds.length === 0) return;
    const keys = callIds.map(toKey);
    await this.#interrupt([this.#instance.id], neverBegunError, (calls) =>
      calls.where("call_id", "in", keys),
    );
  }

  async #claimFrom(dead: readonly string[], callId: string): Promise<boolean> {
    const found = { call_id: callId, state: "running", instance: dead } as const;
    const isTaken =
      (await updateRows(this.#database.db, "calls", found, { instance: this.#instance.id })) > 0;
    if (isTaken) this.#writer.adopt(callId);
    return isTaken;
  }

  /** Marks running calls of dead instances as interrupted, and counts them. Returns how many. */
  async #interrupt(
    dead: readonly string[],
    error: ToolErrorResponse,
    choose: (
      calls: SelectQueryBuilder<Tables, "calls", unknown>,
    ) => SelectQueryBuilder<Tables, "calls", unknown>,
  ): Promise<number> {
    const { db, engine } = this.#database;
    return db.transaction().execute(async (transaction) => {
      const left = choose(transaction.selectFrom("calls"))
        .where("state", "=", "running")
        .where(isNotCompleted)
        .where("lane", "is", null)
        .where("instance", "in", dead);
      const rows = await left.select(["call_id", ...countedColumns]).execute();
      if (rows.length === 0) return 0;
      const changes = interruptedBy(error);
      const counts = new CallCounts(partOf(engine, this.#instance.id));
      let changed = 0;
      for (const row of rows) {
        // Another node may be doing the same.
        const done = await updateRows(
          transaction,
          "calls",
          { call_id: row.call_id, state: "running" },
          changes,
        );
        if (done > 0) counts.add([{ ...row, ...changes, duration: null }]);
        changed += done;
      }
      for (const statement of counts.statements(engine)) await transaction.executeQuery(statement);
      return changed;
    });
  }

  /**
   * Writes the calls that are only in a journal to the database: those of this process and those of processes
   * that ended.
   */
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

type Place = Pick<ListedRow, "timestamp" | "call_id">;

function newestFirst(one: Place, other: Place): number {
  return other.timestamp - one.timestamp || (other.call_id < one.call_id ? -1 : 1);
}

/** Whether a call of a dead process certainly did not run: nobody had approved it, or no process had continued it after. */
const isUnagreed = ({ eb, selectFrom }: ExpressionBuilder<Tables, "calls">) =>
  eb(
    "call_id",
    "in",
    selectFrom("approvals")
      .select("approvals.call_id")
      .where(({ or, eb }) => or([eb("stage", "=", "before"), eb("stage", "is", null)]))
      .where(({ or, eb }) =>
        or([eb("approvals.state", "!=", "allowed"), eb("resumable", "=", AGREED_ELSEWHERE)]),
      ),
  );

/** The error that is recorded for a call whose process died before anybody approved the call. */
const neverBegunError: ToolErrorResponse = {
  name: "ApprovalDeniedError",
  code: "approval_denied",
  message:
    "The process that held this call ended before anybody agreed to it, so it did not run. Where its question is still open, agreeing to it makes the call anew.",
  recoverable: true,
};

/** The error that is recorded for any other call whose process died. */
const interruptedError: ToolErrorResponse = {
  name: "OutcomeUnknownError",
  code: "outcome_unknown",
  message:
    "The process that ran this call ended before the call did. What the tool did until then is not known: look before calling it again.",
  recoverable: true,
};

/** The repository as other rooms see it. */
export type CallStore = Omit<CallRepository, "settle" | "flush" | "close">;
