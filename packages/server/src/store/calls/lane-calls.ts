import type { ToolErrorResponse } from "@toolrack/core";
import type { Blobs } from "../blobs.ts";
import type { OpenedDatabase } from "../database.ts";
import { isDuplicateKey, isTransientError } from "../database-errors.ts";
import type { Instance } from "../instances.ts";
import { toKey } from "../keys.ts";
import { updateRows } from "../row-mapping.ts";
import type { CallRow } from "../schema.ts";
import { CallCounts, countedColumns, partOf } from "./call-counts.ts";
import { isNotCompleted } from "./call-query.ts";
import { callColumns, interruptedBy, type StartedCall, toStartedRow } from "./call-row.ts";
import type { CallWriter } from "./call-writer.ts";

/** The most bytes of a hand-over that stand in the row itself. A longer one is a blob. */
const LONGEST_INLINE = 32 * 1024;

/** A call of a lane that has not ended. */
export interface LaneCall {
  readonly callId: string;
  readonly lane: string;
  readonly toolName: string;
  /** The process that handed the call over or, since another one took it, that one. */
  readonly instance: string;
  readonly timestamp: number;
}

/** What the row of a call of a lane is made of. */
export interface LaneHandover {
  readonly call: StartedCall;
  readonly lane: string;
  /** What the call's performer needs. */
  readonly handover: string;
}

interface LaneCallsParts {
  readonly blobs: Pick<Blobs, "write" | "read">;
  readonly instance: Instance;
  readonly writer: Pick<CallWriter, "hand" | "handed" | "postpone" | "claim" | "adopt" | "release">;
}

/** A call that this process hands over or takes. Its row may be written or not. */
interface Owning {
  readonly row: CallRow;
  /** The process that has the call if the row is written: this one when it hands the call over. */
  readonly from: string;
  readonly owned: PromiseWithResolvers<boolean>;
}

/**
 * Writes rows of calls, or changes those that the processes in $2 have, in one way there and back. Returns what it got.
 * A row that has no lane is changed by its own process only: before it hands the call over, or after it took the call back.
 */
const ownText = `insert into calls (${callColumns})
  select ${callColumns} from json_populate_recordset(null::calls, $1)
  on conflict (call_id) do update
    set instance = excluded.instance, lane = excluded.lane, more = excluded.more, more_blob = excluded.more_blob
    where calls.state = 'running' and calls.instance = $2::jsonb ->> calls.call_id
      and (calls.lane is not null or calls.instance = excluded.instance)
  returning call_id`;

/**
 * The rows of calls that one process admits and another performs. The row decides who has a call: it is changed only
 * while it says what the changer last saw. Until the call ends, the row has what its performer needs in `more`, or the
 * blob that `more_blob` names.
 */
export class LaneCalls {
  readonly #database: OpenedDatabase;
  readonly #parts: LaneCallsParts;
  /** Calls that are part of the next statement, by their ids. */
  #ownings = new Map<string, Owning>();
  #isOwning = false;

  constructor(database: OpenedDatabase, parts: LaneCallsParts) {
    this.#database = database;
    this.#parts = parts;
  }

  /** The id of this process in the rows of its calls. */
  get instance(): string {
    return this.#parts.instance.id;
  }

  /** Leaves the row of a call that has begun here to `hand` or to the process that takes it. False when there may be a row. */
  postpone(callId: string): boolean {
    return this.#parts.writer.postpone(toKey(callId));
  }

  /**
   * Resolves when the row says that the call waits for a process of the lane. Resolves with false when the row is not this
   * process's: another one has the call, or had it.
   */
  async hand({ call, lane, handover }: LaneHandover): Promise<boolean> {
    const { blobs, instance, writer } = this.#parts;
    const isLong = handover.length > LONGEST_INLINE;
    const blob = isLong ? await blobs.write(handover) : undefined;
    const handed = { lane, more: isLong ? null : handover, more_blob: blob?.name ?? null };
    const row = { ...toStartedRow(call, instance.id), ...handed };
    if (this.#database.prepared !== undefined) {
      writer.handed(row.call_id);
      return this.#own(row, instance.id);
    }
    try {
      await writer.hand(row);
      return true;
    } catch (error) {
      if (!isDuplicateKey(error)) throw error;
      const mine = { call_id: toKey(call.callId), state: "running", instance: instance.id } as const;
      return (await updateRows(this.#database.db, "calls", mine, handed)) > 0;
    }
  }

  /** Whether a write that failed may succeed later, because the store is away or busy. */
  mayTryAgain(error: unknown): boolean {
    return isTransientError(error);
  }

  /**
   * Takes a call back that nobody has taken. Returns false when another process has it, or it has ended.
   */
  async withdraw(callId: string): Promise<boolean> {
    const { instance } = this.#parts;
    const mine = { call_id: toKey(callId), state: "running", instance: instance.id } as const;
    return (await updateRows(this.#database.db, "calls", mine, { lane: null })) > 0;
  }

  /** Forgets a call that another process has recorded. */
  release(callId: string): void {
    this.#parts.writer.release(toKey(callId));
  }

  /** What the call's performer needs, and who has the call. Undefined when it has ended or was taken back. */
  async read(callId: string): Promise<{ readonly instance: string; readonly handover: string } | undefined> {
    const row = await this.#database.db
      .selectFrom("calls")
      .select(["instance", "more", "more_blob"])
      .where("call_id", "=", toKey(callId))
      .where("state", "=", "running")
      .where("lane", "is not", null)
      .executeTakeFirst();
    if (row === undefined) return undefined;
    const { instance, more, more_blob } = row;
    const handover = more_blob === null ? more : await this.#parts.blobs.read(more_blob);
    if (handover === null)
      throw new Error(`The arguments of call ${callId} are not in the store of this process.`);
    return { instance, handover };
  }

  /**
   * Makes the call one of this process. Returns false when `from` does not have it any more. `unwritten` is given when
   * `from` may not have written the row: then the one who is first writes it.
   */
  async take(callId: string, from: string, unwritten?: LaneHandover): Promise<boolean> {
    if (!(await this.#take(callId, from, unwritten))) return false;
    this.#parts.writer.adopt(toKey(callId));
    return true;
  }

  /**
   * Lets a call begin here before it is taken: its record counts if by then nobody but `from`, or this process, has the
   * call. Returns false when it must be taken first.
   */
  borrow(callId: string, from: string): boolean {
    if (this.#database.prepared === undefined) return false;
    this.#parts.writer.adopt(toKey(callId), from);
    return true;
  }

  /** Takes a call that was borrowed. Returns false when another process has it, or it has ended. */
  takeBorrowed(callId: string, from: string, unwritten?: LaneHandover): Promise<boolean> {
    return this.#take(callId, from, unwritten);
  }

  #take(callId: string, from: string, unwritten?: LaneHandover): Promise<boolean> {
    const { call, lane, handover: more } = unwritten ?? {};
    const row = call && { ...toStartedRow(call, this.instance), lane: lane ?? null, more: more ?? null };
    return row !== undefined && this.#database.prepared !== undefined
      ? this.#own(row, from)
      : this.#takeAlone(toKey(callId), from, row);
  }

  async #takeAlone(callId: string, from: string, unwritten?: CallRow): Promise<boolean> {
    const { instance, writer } = this.#parts;
    if (unwritten !== undefined) {
      try {
        await writer.claim(unwritten);
        return true;
      } catch (error) {
        if (!isDuplicateKey(error)) throw error;
      }
    }
    const { numUpdatedRows } = await this.#database.db
      .updateTable("calls")
      .set({ instance: instance.id })
      .where("call_id", "=", callId)
      .where("state", "=", "running")
      .where("instance", "=", from)
      .where("lane", "is not", null)
      .executeTakeFirst();
    return numUpdatedRows > 0n;
  }

  /** Calls that come while a statement is under way share the next one. */
  #own(row: CallRow, from: string): Promise<boolean> {
    // Of two jobs for one call, the first gets it.
    if (this.#ownings.has(row.call_id)) return Promise.resolve(false);
    const owned = Promise.withResolvers<boolean>();
    this.#ownings.set(row.call_id, { row, from, owned });
    if (!this.#isOwning) void this.#ownAll();
    return owned.promise;
  }

  /** Never rejects: a failure is passed to the promise of each call. */
  async #ownAll(): Promise<void> {
    this.#isOwning = true;
    // Others of this moment come along.
    await undefined;
    for (let all = [...this.#ownings.values()]; all.length > 0; all = [...this.#ownings.values()]) {
      this.#ownings = new Map();
      const error = await this.#ownThese(all);
      // One row that the database refuses must not keep the others from being written.
      const isForAll = all.length === 1 || isTransientError(error);
      for (const one of error === undefined ? [] : all)
        if (isForAll) one.owned.reject(error);
        else await this.#ownThese([one]).then((own) => own !== undefined && one.owned.reject(own));
    }
    this.#isOwning = false;
  }

  /** Resolves with the error when nothing was written. */
  async #ownThese(all: readonly Owning[]): Promise<unknown> {
    const values = [
      JSON.stringify(all.map(({ row }) => row)),
      JSON.stringify(Object.fromEntries(all.map(({ row, from }) => [row.call_id, from]))),
    ];
    try {
      const found = await this.#database.prepared?.({ name: "own", text: ownText, values });
      const got = new Set(found);
      for (const { row, owned } of all) owned.resolve(got.has(row.call_id));
      return undefined;
    } catch (error) {
      return error;
    }
  }

  /** All calls of lanes that have not ended, the oldest first. */
  async open(): Promise<LaneCall[]> {
    const rows = await this.#database.db
      .selectFrom("calls")
      .select(["call_id", "lane", "tool_name", "instance", "timestamp"])
      .where("state", "=", "running")
      .where(isNotCompleted)
      .where("lane", "is not", null)
      .orderBy("timestamp")
      .execute();
    return rows.map(({ call_id, lane, tool_name, instance, timestamp }) => ({
      ...{ callId: call_id, lane: lane ?? "", toolName: tool_name, instance },
      timestamp: Number(timestamp),
    }));
  }

  /** Of the given processes, those that no longer live. */
  findDead(instances: readonly string[]): Promise<string[]> {
    return this.#parts.instance.findDead(instances);
  }

  /** Whether the process lives. May wait for its next heartbeat. */
  isAlive(instance: string): Promise<boolean> {
    return this.#parts.instance.isAlive(instance);
  }

  /**
   * Ends a call that a dead or silent process has, with an error that says so. Returns false when the call is not that
   * process's any more.
   */
  async settle(callId: string, from: string, error: ToolErrorResponse): Promise<boolean> {
    const { db, engine } = this.#database;
    const changes = { ...interruptedBy(error), more: null, more_blob: null };
    return db.transaction().execute(async (transaction) => {
      const open = { call_id: toKey(callId), state: "running", instance: from } as const;
      const row = await transaction
        .selectFrom("calls")
        .select(countedColumns)
        .where("call_id", "=", open.call_id)
        .executeTakeFirst();
      if (row === undefined || (await updateRows(transaction, "calls", open, changes)) === 0) return false;
      const counts = new CallCounts(partOf(engine, this.instance)).add([
        { ...row, ...changes, duration: null },
      ]);
      for (const statement of counts.statements(engine)) await transaction.executeQuery(statement);
      return true;
    });
  }

  /** Keeps a text that is too long to be sent, for an hour at least. Returns its name. */
  async keep(text: string): Promise<string> {
    return (await this.#parts.blobs.write(text)).name;
  }

  /** Throws `BlobMissingError` when it is not there. */
  readKept(name: string): Promise<string> {
    return this.#parts.blobs.read(name);
  }

  /** Resolves when other processes find the record of a call that has ended here. With SQLite it may be in the journal only. */
  async commit(callId: string): Promise<void> {
    await this.#database.pending.commit(toKey(callId));
  }

  /** Of the given calls, those that have ended. */
  async ended(callIds: readonly string[]): Promise<string[]> {
    if (callIds.length === 0) return [];
    const ids = new Map(callIds.map((callId) => [toKey(callId), callId]));
    const rows = await this.#database.db
      .selectFrom("calls")
      .select("call_id")
      .where("call_id", "in", [...ids.keys()])
      .where("state", "!=", "running")
      .execute();
    return rows.map(({ call_id }) => ids.get(call_id) ?? call_id);
  }
}
