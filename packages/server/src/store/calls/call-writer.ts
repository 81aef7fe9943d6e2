import { setTimeout as sleep } from "node:timers/promises";
import { PassingMap } from "../../helpers/index.ts";
import { isTransientError, StoreUnavailable } from "../database-errors.ts";
import type { CallRow } from "../schema.ts";
import type { CallJournal } from "./call-journal.ts";
import type { CallTable, Replaced } from "./call-table.ts";

interface Start {
  /** When the row is to be written, in milliseconds on the `performance` clock. */
  readonly due: number;
  readonly makeRow: () => CallRow;
}

/**
 * Calls that have begun and are not written yet, by id, in the order in which they began. Their rows are
 * delayed for a moment, because most calls end within it.
 */
export class StartQueue extends PassingMap<string, Start> {
  /** Whether the row of a call is due. */
  isDue(now: number): boolean {
    for (const { due } of this.entries.values()) return due <= now;
    return false;
  }

  /**
   * Removes the calls that are due, at most `most` of them, and returns their rows. A call whose row cannot be made is
   * left out: the rows of all others must be written. Its end is refused with the reason.
   */
  take(now: number, most: number): CallRow[] {
    const rows: CallRow[] = [];
    for (const [callId, { due, makeRow }] of this.entries) {
      if (due > now || rows.length === most) break;
      this.entries.delete(callId);
      try {
        rows.push(makeRow());
      } catch {}
    }
    return rows;
  }
}

type Outcome = "safe" | "taken" | "held";
/** Keeps a row that the store cannot take now. */
type Hold = (why: StoreUnavailable) => "held";

type CallSink = Pick<CallTable, "write" | "writeAlone">;

interface CallWriterOptions {
  /**
   * Keeps rows safe before the database has them. Without a journal, `finished` resolves when the database
   * has the row.
   */
  readonly journal?: CallJournal;
  /**
   * Called once for each row that is safe in the journal and that the database refuses. The row is tried
   * again.
   */
  readonly onRefused?: (row: CallRow, error: unknown) => void;
  /** Milliseconds that a call must run before its row is written as running; tests make it long. */
  readonly delay?: number;
}

interface Entry {
  readonly row: CallRow;
  /** Whether the row replaces the one with which `claim` reserved the call's id. */
  readonly isClaimed?: boolean;
  /**
   * The promise that `finished` returned. Absent for a call that still runs, and for a row that is in the
   * journal.
   */
  waiter?: PromiseWithResolvers<Outcome> | undefined;
  readonly hold?: Hold | undefined;
  isInJournal?: boolean;
  isRefused?: boolean;
}

const LARGEST_BATCH = 500;
/** A call that ends sooner than this, in milliseconds, is written once and not twice. */
const DELAY = 5;
/**
 * Milliseconds for which rows that are safe in the journal wait for more rows, to be written in one batch: with 25, a
 * transaction is a tenth of what a client alone costs the store.
 */
const LONGEST_HELD_BACK = 100;
/** With this many rows in the journal, they are written without waiting for LONGEST_HELD_BACK. */
const MOST_HELD_BACK = LARGEST_BATCH;
/**
 * From this many rows in one turn of the event loop on, the journal is left out. Fewer of them are written there first, and
 * share a transaction with others: in batches of 32 a row takes 9 µs, 4 of them for the commit, in batches of 480 it takes 6.
 */
const WORTH_A_TRANSACTION = LARGEST_BATCH;
const RETRY_DELAYS = [50, 200, 1_000, 4_000];
/** Milliseconds between attempts to write rows that are safe in the journal and that the database refused. */
const REFUSED_DELAY = 1_000;

/**
 * Writes calls in batches: all calls that end in one turn of the event loop share a transaction, and all that
 * end while it is written share the next. With a journal, calls that end one by one are added to the journal
 * and share a transaction a moment later. When the database refuses a row, the other rows of its batch are
 * written all the same.
 */
export class CallWriter {
  readonly #table: CallSink;
  readonly #journal: CallJournal | undefined;
  readonly #onRefused: CallWriterOptions["onRefused"];
  readonly #delay: number;
  readonly #starts = new StartQueue();
  /** Calls whose started row has been written, or may be, with the process that may have the row: see `Replaced`. */
  readonly #running = new Map<string, string>();
  /** Calls of dead processes that go on here, until they begin. */
  readonly #adopted = new Set<string>();
  /** Calls that ended in this turn of the event loop. */
  #ended: Entry[] = [];
  #turn: NodeJS.Immediate | undefined;
  #finishes: Entry[] = [];
  /** How many rows of the journal the database does not have. */
  #inJournal = 0;
  /**
   * When the oldest row that is only in the journal began to wait for more rows, on the `performance` clock.
   */
  #heldSince = 0;
  /** The rows of the journal that the database refused. */
  #refused: Entry[] = [];
  #timer: NodeJS.Timeout | undefined;
  #retryTimer: NodeJS.Timeout | undefined;
  #drain: Promise<void> | undefined;
  #isHurried = false;

  constructor(table: CallSink, { journal, onRefused, delay = DELAY }: CallWriterOptions = {}) {
    this.#table = table;
    this.#journal = journal;
    this.#onRefused = onRefused;
    this.#delay = delay;
  }

  /** How many rows of the journal the database has refused. They are tried again. */
  get refused(): number {
    return this.#refused.length;
  }

  /**
   * Resolves when the database has the row of a call that is about to begin. Rejects when it has a row with
   * that id already.
   */
  async claim(row: CallRow): Promise<void> {
    await this.#table.write([row], {});
    this.#running.set(row.call_id, "");
  }

  /** Makes the record of a call replace its row, which another process wrote when the call began, and which `from` may have. */
  adopt(callId: string, from = ""): void {
    this.#adopted.add(callId);
    this.#running.set(callId, from);
  }

  /**
   * Queues the row of a call that has begun. Most calls end within the delay, so that `makeRow` is not
   * called.
   */
  started(callId: string, makeRow: () => CallRow): void {
    if (this.#adopted.delete(callId)) return;
    this.#starts.set(callId, { due: performance.now() + this.#delay, makeRow });
    this.#arm();
  }

  /** Leaves the row of a call that has begun to whoever performs it. Returns false when it is written, or being written. */
  postpone(callId: string): boolean {
    this.#starts.entries.delete(callId);
    return !this.#running.has(callId);
  }

  /**
   * Resolves when the database has the row of a call that another process may take from now on. Rejects when it has a row
   * with that id already.
   */
  async hand(row: CallRow): Promise<void> {
    this.handed(row.call_id);
    await this.#table.write([row], {});
  }

  /** Makes the record of a call replace the row with which it is handed over. */
  handed(callId: string): void {
    this.#starts.entries.delete(callId);
    this.#running.set(callId, "");
  }

  /** Another process has recorded the call. */
  release(callId: string): void {
    this.#starts.entries.delete(callId);
    this.#running.delete(callId);
  }

  /**
   * Resolves when the row is safe, or when it is left out because another process has the call of a lane or has ended it.
   * Without `hold`, rejects with `StoreUnavailable` while the store cannot take it.
   */
  finished(row: CallRow, hold?: Hold): Promise<Outcome> {
    this.#starts.entries.delete(row.call_id);
    const waiter = Promise.withResolvers<Outcome>();
    this.#ended.push({ row, waiter, hold });
    this.#turn ??= setImmediate(this.#endTurn);
    return waiter.promise;
  }

  /** Resolves when the database has all calls that are safe by now, or only the call with the given id. */
  async commit(callId?: string): Promise<void> {
    // Rows that the database refused are tried again soon; a reader does not wait for them.
    if (this.#inJournal === this.#refused.length) return;
    const isMeant = ({ row }: Entry) => callId === undefined || row.call_id === callId;
    if (this.#drain === undefined && !this.#finishes.some(isMeant)) return;
    this.#begin();
    await this.#drain;
  }

  /** Resolves when the database has everything handed over so far, or has refused it. */
  async flush(): Promise<void> {
    this.#isHurried = true;
    this.#endTurn();
    this.#retryRefused();
    this.#begin();
    while (this.#drain !== undefined) await this.#drain;
    this.#isHurried = false;
  }

  /**
   * To be called after `flush`. The journal stays if the database refused some of its rows: the next process
   * writes them.
   */
  close(): void {
    clearTimeout(this.#retryTimer);
    this.#journal?.close(this.#inJournal > 0);
  }

  readonly #endTurn = (): void => {
    clearImmediate(this.#turn);
    this.#turn = undefined;
    const ended = this.#ended;
    this.#ended = [];
    for (const entry of ended) this.#finishes.push(entry);
    // While the database refuses rows, new rows skip the journal, so that `finished` rejects if they are
    // refused too. Those that `flush` waits for go to the database anyway.
    const isForJournal = !this.#isHurried && this.#refused.length === 0 && ended.length < WORTH_A_TRANSACTION;
    if (!isForJournal || this.#journal?.append(ended) !== true) {
      this.#begin();
      return;
    }
    for (const entry of ended) {
      entry.waiter?.resolve("safe");
      entry.waiter = undefined;
      entry.isInJournal = true;
    }
    if (this.#finishes.length === ended.length) this.#heldSince = performance.now();
    this.#inJournal += ended.length;
    if (this.#inJournal >= MOST_HELD_BACK) this.#begin();
    else this.#arm();
  };

  #begin(): void {
    this.#drain ??= this.#writeAll();
  }

  #arm(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      const now = performance.now();
      if (this.#starts.isDue(now) || this.#isHeldLongEnough(now)) this.#begin();
      else if (this.#starts.entries.size > 0 || this.#finishes.length > 0) this.#arm();
    }, this.#delay);
  }

  #isHeldLongEnough(now: number): boolean {
    return this.#finishes.length > 0 && now - this.#heldSince >= LONGEST_HELD_BACK;
  }

  async #writeAll(): Promise<void> {
    // `#take` may return nothing at once. Without this wait, the method would clear `#drain` before `#begin`
    // has set it.
    await undefined;
    for (let batch = this.#take(); batch.length > 0; batch = this.#take()) await this.#writeBatch(batch);
    if (this.#inJournal === 0) this.#journal?.clear();
    if (this.#starts.entries.size > 0) this.#arm();
    this.#drain = undefined;
  }

  #take(): Entry[] {
    const batch: Entry[] = [];
    const now = this.#isHurried ? Number.POSITIVE_INFINITY : performance.now();
    for (const row of this.#starts.take(now, LARGEST_BATCH)) {
      batch.push({ row, isClaimed: this.#running.has(row.call_id) });
      this.#running.set(row.call_id, "");
    }
    const room = LARGEST_BATCH - batch.length;
    const finishes = this.#finishes;
    this.#finishes = finishes.slice(room);
    return [...batch, ...finishes.slice(0, room)];
  }

  /**
   * Never rejects: a failure is passed to the promise of each row in the batch, unless the row is safe in the
   * journal.
   */
  async #writeBatch(batch: readonly Entry[]): Promise<void> {
    const rows = batch.map(({ row }) => row);
    const error = await this.#persist(() => this.#table.write(rows, this.#replacedBy(batch)));
    if (error !== undefined && !isTransientError(error)) return this.#writeEach(batch);
    for (const entry of batch) this.#settle(entry, error);
  }

  async #writeEach(batch: readonly Entry[]): Promise<void> {
    for (const entry of batch) {
      let isOurs = true;
      const error = await this.#persist(async () => {
        isOurs = await this.#table.writeAlone(entry.row, this.#replacedBy([entry]));
      });
      this.#settle(entry, error, isOurs);
    }
  }

  /**
   * Repeats a write that fails with a transient error for some seconds. Resolves with the last error, or
   * undefined after a success.
   */
  async #persist(write: () => Promise<void>): Promise<unknown> {
    for (let attempt = 0; ; attempt++) {
      try {
        await write();
        return undefined;
      } catch (error) {
        const delay = RETRY_DELAYS[attempt];
        if (delay === undefined || !isTransientError(error)) return error;
        await sleep(delay);
      }
    }
  }

  #replacedBy(batch: readonly Entry[]): Replaced {
    if (this.#running.size === 0) return {};
    const replacing = batch.filter(
      ({ row, isClaimed }) => isClaimed || (row.state !== "running" && this.#running.has(row.call_id)),
    );
    return Object.fromEntries(
      replacing.map(({ row }) => [row.call_id, this.#running.get(row.call_id) ?? ""]),
    );
  }

  #settle(entry: Entry, error: unknown, isOurs = true): void {
    const { row, waiter, hold, isInJournal } = entry;
    if (row.state === "running") return;
    if (isInJournal && error !== undefined) {
      this.#keep(entry, error);
      return;
    }
    // While the store is unavailable the row is held; when it is written later, it still replaces the call's
    // started row.
    const unavailable = StoreUnavailable.from(error);
    if (unavailable === undefined) this.#running.delete(row.call_id);
    if (isInJournal) this.#inJournal--;
    else if (error === undefined) waiter?.resolve(isOurs ? "safe" : "taken");
    else if (unavailable !== undefined && hold !== undefined) waiter?.resolve(hold(unavailable));
    else waiter?.reject(error);
  }

  /** Keeps a row that the database refused: it is safe in the journal, and the database may take it later. */
  #keep(entry: Entry, error: unknown): void {
    this.#refused.push(entry);
    this.#retryTimer ??= setTimeout(() => {
      this.#retryRefused();
      this.#begin();
    }, REFUSED_DELAY).unref();
    if (entry.isRefused) return;
    entry.isRefused = true;
    this.#onRefused?.(entry.row, error);
  }

  #retryRefused(): void {
    clearTimeout(this.#retryTimer);
    this.#retryTimer = undefined;
    this.#finishes.unshift(...this.#refused);
    this.#refused = [];
  }
}
