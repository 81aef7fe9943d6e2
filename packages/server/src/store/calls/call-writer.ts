import { setTimeout as sleep } from "node:timers/promises";
import type { CallRow } from "../database/schema.ts";
import { StartQueue } from "./start-queue.ts";

/** Where rows go. */
export interface CallSink {
  /** Writes all rows or none. The started rows of the calls in `replaced` give way to them. */
  write(rows: readonly CallRow[], replaced: readonly string[]): Promise<void>;
  /** Writes one row that could not be written together with others; a finished call never fails for its id. */
  writeAlone(row: CallRow, isReplacing: boolean): Promise<void>;
  /** Whether the same rows may be taken a moment later. */
  isTransient(error: unknown): boolean;
}

interface Entry {
  readonly row: CallRow;
  /** Nobody waits for a started row. */
  readonly resolve?: () => void;
  readonly reject?: (error: unknown) => void;
}

const LARGEST_BATCH = 500;
/** A call that ends sooner than this, in milliseconds, is written once and not twice. */
const START_DELAY = 5;
const RETRY_DELAYS = [50, 200, 1_000, 4_000];

/**
 * Writes calls in batches: all that end in one turn of the event loop share a transaction, and all that end while it is
 * written share the next. A row that the database refuses does not take the others with it.
 */
export class CallWriter {
  readonly #sink: CallSink;
  readonly #starts = new StartQueue();
  /** Calls whose started row has been written, or is being written. */
  readonly #running = new Set<string>();
  #finishes: Entry[] = [];
  #timer: NodeJS.Timeout | undefined;
  #drain: Promise<void> | undefined;
  #isHurried = false;

  constructor(sink: CallSink) {
    this.#sink = sink;
  }

  /** Most calls end before their row is asked for. */
  started(callId: string, makeRow: () => CallRow): void {
    this.#starts.add(callId, performance.now() + START_DELAY, makeRow);
    this.#arm();
  }

  finished(row: CallRow): Promise<void> {
    this.#starts.end(row.call_id);
    return new Promise((resolve, reject) => {
      this.#finishes.push({ row, resolve, reject });
      this.#begin();
    });
  }

  /** Resolves when everything handed over so far has been written or refused. */
  async flush(): Promise<void> {
    this.#isHurried = true;
    this.#begin();
    while (this.#drain !== undefined) await this.#drain;
    this.#isHurried = false;
  }

  #begin(): void {
    this.#drain ??= this.#writeAll();
  }

  #arm(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#begin();
    }, START_DELAY);
  }

  async #writeAll(): Promise<void> {
    await new Promise(setImmediate);
    for (let batch = this.#take(); batch.length > 0; batch = this.#take()) await this.#writeBatch(batch);
    if (this.#starts.size > 0) this.#arm();
    this.#drain = undefined;
  }

  #take(): Entry[] {
    const batch: Entry[] = [];
    const now = this.#isHurried ? Number.POSITIVE_INFINITY : performance.now();
    for (const row of this.#starts.take(now, LARGEST_BATCH)) {
      this.#running.add(row.call_id);
      batch.push({ row });
    }
    const room = LARGEST_BATCH - batch.length;
    const finishes = this.#finishes;
    this.#finishes = finishes.length <= room ? [] : finishes.slice(room);
    for (let at = 0; at < finishes.length && at < room; at++) batch.push(finishes[at]!);
    return batch;
  }

  /** Never rejects: whoever waits for a row is told. */
  async #writeBatch(batch: readonly Entry[]): Promise<void> {
    const rows = batch.map(({ row }) => row);
    const replaced = batch.filter((entry) => this.#isReplacing(entry)).map(({ row }) => row.call_id);
    const error = await this.#persist(() => this.#sink.write(rows, replaced));
    if (error !== undefined && !this.#sink.isTransient(error)) return this.#writeEach(batch);
    for (const entry of batch) this.#settle(entry, error);
  }

  async #writeEach(batch: readonly Entry[]): Promise<void> {
    for (const entry of batch) {
      const isReplacing = this.#isReplacing(entry);
      this.#settle(entry, await this.#persist(() => this.#sink.writeAlone(entry.row, isReplacing)));
    }
  }

  /** Tries for some seconds. Answers with the last error when it was all in vain. */
  async #persist(write: () => Promise<void>): Promise<unknown> {
    for (let attempt = 0; ; attempt++) {
      try {
        await write();
        return undefined;
      } catch (error) {
        const delay = RETRY_DELAYS[attempt];
        if (delay === undefined || !this.#sink.isTransient(error)) return error;
        await sleep(delay);
      }
    }
  }

  #isReplacing({ row }: Entry): boolean {
    return row.state !== "running" && this.#running.has(row.call_id);
  }

  #settle({ row, resolve, reject }: Entry, error: unknown): void {
    if (resolve === undefined) return;
    this.#running.delete(row.call_id);
    if (error === undefined) resolve();
    else reject?.(error);
  }
}
