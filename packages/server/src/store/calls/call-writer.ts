import { setTimeout as sleep } from "node:timers/promises";
import { isTransientError, StoreUnavailable } from "../database-errors.ts";
import type { CallRow } from "../schema.ts";
import type { CallJournal } from "./call-journal.ts";
import type { CallTable } from "./call-table.ts";

/** Started calls whose rows are delayed for a moment, in the order of their start. */
export class StartQueue {
  /** `due`: milliseconds on the `performance` clock. The map keeps the order. */
  readonly #starts = new Map<string, { readonly due: number; readonly makeRow: () => CallRow }>();

  get size(): number {
    return this.#starts.size;
  }

  add(callId: string, due: number, makeRow: () => CallRow): void {
    this.#starts.set(callId, { due, makeRow });
  }

  /** The call has ended, so its started row is not needed. */
  end(callId: string): void {
    this.#starts.delete(callId);
  }

  isDue(now: number): boolean {
    for (const { due } of this.#starts.values()) return due <= now;
    return false;
  }

  /** Removes and returns the rows that are due, at most `most`. */
  take(now: number, most: number): CallRow[] {
    const rows: CallRow[] = [];
    for (const [callId, { due, makeRow }] of this.#starts) {
      if (due > now || rows.length === most) break;
      this.#starts.delete(callId);
      rows.push(makeRow());
    }
    return rows;
  }
}

type CallSink = Pick<CallTable, "write" | "writeAlone">;

interface CallWriterOptions {
  /** Keeps rows safe until the database has them. Without it, callers wait for the database. */
  readonly journal?: CallJournal;
  /** Called once for each row of the journal that the database refuses. The row is tried again. */
  readonly onRefused?: (row: CallRow, error: unknown) => void;
  /** Milliseconds by which started rows are delayed; tests make it long. */
  readonly delay?: number;
}

interface Entry {
  readonly row: CallRow;
  /** Replaces the row that `claim` wrote. */
  readonly isClaimed?: boolean;
  /** Nobody waits for a started row or for one in the journal. */
  waiter?: PromiseWithResolvers<void> | undefined;
  isInJournal?: boolean;
  isRefused?: boolean;
}

const LARGEST_BATCH = 500;
/** Milliseconds. A call that ends sooner is written once and not twice. */
const DELAY = 5;
/** Milliseconds that rows in the journal wait for others, to share a transaction. */
const LONGEST_WAIT = 25;
/** With so many rows in the journal, the writer does not wait any longer. */
const MOST_WAITING = 200;
/** So many rows of one turn go to the database directly, which costs less than the journal first. */
const LEAST_DIRECT_ROWS = 16;
const RETRY_DELAYS = [50, 200, 1_000, 4_000];
/** Milliseconds between attempts to write rows of the journal that the database refused. */
const REFUSED_DELAY = 1_000;

/**
 * Writes calls in batches: calls that end in one turn of the event loop share a transaction, and calls that end while
 * it is written share the next. With a journal, single calls are safe there at once and share a transaction a moment
 * later. A row that the database refuses does not fail the others.
 */
export class CallWriter {
  readonly #table: CallSink;
  readonly #journal: CallJournal | undefined;
  readonly #onRefused: CallWriterOptions["onRefused"];
  readonly #delay: number;
  readonly #starts = new StartQueue();
  /** Calls whose started row has been written, or is being written. */
  readonly #running = new Set<string>();
  /** Calls that ended in this turn. */
  #ended: Entry[] = [];
  #turn: NodeJS.Immediate | undefined;
  #finishes: Entry[] = [];
  /** How many rows of the journal the database does not have. */
  #inJournal = 0;
  /** Since when the first of these rows waits, on the `performance` clock. */
  #waitingSince = 0;
  /** Those of these rows that the database refused. */
  #refused: Entry[] = [];
  #timer: NodeJS.Timeout | undefined;
  #retryTimer: NodeJS.Timeout | undefined;
  #drain: Promise<void> | undefined;
  #isFlushing = false;

  constructor(table: CallSink, { journal, onRefused, delay = DELAY }: CallWriterOptions = {}) {
    this.#table = table;
    this.#journal = journal;
    this.#onRefused = onRefused;
    this.#delay = delay;
  }

  /** How many rows are safe in the journal but refused by the database. They are tried again. */
  get refused(): number {
    return this.#refused.length;
  }

  /** Resolves when the database has the row of a call that is about to begin. Rejects when the id is taken. */
  async claim(row: CallRow): Promise<void> {
    await this.#table.write([row], []);
    this.#running.add(row.call_id);
  }

  /** `makeRow` is not called for a call that ends soon. */
  started(callId: string, makeRow: () => CallRow): void {
    this.#starts.add(callId, performance.now() + this.#delay, makeRow);
    this.#startTimer();
  }

  /** Resolves when the row is safe. */
  finished(row: CallRow): Promise<void> {
    this.#starts.end(row.call_id);
    const waiter = Promise.withResolvers<void>();
    this.#ended.push({ row, waiter });
    this.#turn ??= setImmediate(() => this.#endTurn());
    return waiter.promise;
  }

  /** Resolves when the database has the rows of the journal, or the one of this call. */
  async commit(callId?: string): Promise<void> {
    // Refused rows are tried again later; a reader does not wait for them.
    if (this.#inJournal === this.#refused.length) return;
    const isMeant = ({ row }: Entry) => callId === undefined || row.call_id === callId;
    if (this.#drain === undefined && !this.#finishes.some(isMeant)) return;
    this.#startWriting();
    await this.#drain;
  }

  /** Resolves when all rows so far are written or refused. */
  async flush(): Promise<void> {
    this.#isFlushing = true;
    this.#queueEnded();
    this.#retryRefused();
    this.#startWriting();
    while (this.#drain !== undefined) await this.#drain;
    this.#isFlushing = false;
  }

  /** Must be called after `flush`. The journal stays if the database refused some rows: the next process replays it. */
  close(): void {
    clearTimeout(this.#retryTimer);
    this.#journal?.close(this.#inJournal > 0);
  }

  #endTurn(): void {
    const ended = this.#ended;
    this.#queueEnded();
    if (!this.#appendToJournal(ended)) {
      this.#startWriting();
      return;
    }
    for (const entry of ended) {
      entry.waiter?.resolve();
      entry.waiter = undefined;
      entry.isInJournal = true;
    }
    if (this.#finishes.length === ended.length) this.#waitingSince = performance.now();
    this.#inJournal += ended.length;
    if (this.#inJournal >= MOST_WAITING) this.#startWriting();
    else this.#startTimer();
  }

  #queueEnded(): void {
    clearImmediate(this.#turn);
    this.#turn = undefined;
    for (const entry of this.#ended) this.#finishes.push(entry);
    this.#ended = [];
  }

  /**
   * Writes the rows to the journal; false when they must go to the database directly. So they must while it refuses
   * rows, so that callers learn of it.
   */
  #appendToJournal(ended: readonly Entry[]): boolean {
    if (this.#journal === undefined || this.#refused.length > 0) return false;
    return ended.length < LEAST_DIRECT_ROWS && this.#journal.append(ended.map(({ row }) => row));
  }

  #startWriting(): void {
    this.#drain ??= this.#writeAll();
  }

  #startTimer(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      const now = performance.now();
      if (this.#starts.isDue(now) || this.#hasWaitedEnough(now)) this.#startWriting();
      else if (this.#starts.size > 0 || this.#finishes.length > 0) this.#startTimer();
    }, this.#delay);
  }

  #hasWaitedEnough(now: number): boolean {
    return this.#finishes.length > 0 && now - this.#waitingSince >= LONGEST_WAIT;
  }

  async #writeAll(): Promise<void> {
    // The first batch may be empty; this function must not end before `#drain` is set.
    await undefined;
    for (let batch = this.#take(); batch.length > 0; batch = this.#take()) await this.#writeBatch(batch);
    if (this.#inJournal === 0) this.#journal?.clear();
    if (this.#starts.size > 0) this.#startTimer();
    this.#drain = undefined;
  }

  #take(): Entry[] {
    const batch: Entry[] = [];
    const now = this.#isFlushing ? Number.POSITIVE_INFINITY : performance.now();
    for (const row of this.#starts.take(now, LARGEST_BATCH)) {
      batch.push({ row, isClaimed: this.#running.has(row.call_id) });
      this.#running.add(row.call_id);
    }
    const room = LARGEST_BATCH - batch.length;
    const finishes = this.#finishes;
    this.#finishes = finishes.slice(room);
    return [...batch, ...finishes.slice(0, room)];
  }

  /** Never rejects; settles the waiter of each row. */
  async #writeBatch(batch: readonly Entry[]): Promise<void> {
    const rows = batch.map(({ row }) => row);
    const replaced = batch.filter((entry) => this.#isReplacing(entry)).map(({ row }) => row.call_id);
    const error = await this.#persist(() => this.#table.write(rows, replaced));
    if (error !== undefined && !isTransientError(error)) return this.#writeEach(batch);
    for (const entry of batch) this.#settle(entry, error);
  }

  async #writeEach(batch: readonly Entry[]): Promise<void> {
    for (const entry of batch) {
      const isReplacing = this.#isReplacing(entry);
      this.#settle(entry, await this.#persist(() => this.#table.writeAlone(entry.row, isReplacing)));
    }
  }

  /** Tries for some seconds. Returns the last error, or undefined. */
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

  #isReplacing({ row, isClaimed = false }: Entry): boolean {
    return isClaimed || (row.state !== "running" && this.#running.has(row.call_id));
  }

  #settle(entry: Entry, error: unknown): void {
    const { row, waiter, isInJournal } = entry;
    if (row.state === "running") return;
    if (isInJournal && error !== undefined) {
      this.#keepRefused(entry, error);
      return;
    }
    // A row that is written again later must still replace the started row.
    if (StoreUnavailable.from(error) === undefined) this.#running.delete(row.call_id);
    if (isInJournal) this.#inJournal--;
    else if (error === undefined) waiter?.resolve();
    else waiter?.reject(error);
  }

  /** Keeps the row, which is safe in the journal, for another attempt. */
  #keepRefused(entry: Entry, error: unknown): void {
    this.#refused.push(entry);
    this.#retryTimer ??= setTimeout(() => {
      this.#retryRefused();
      this.#startWriting();
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
