import type { Logger } from "@toolrack/core";
import { StoreUnavailable, type UnavailableReason } from "../database-errors.ts";
import { mostHeld } from "../keys.ts";
import type { CallRow } from "../schema.ts";
import type { CallJournal } from "./call-journal.ts";
import type { CallWriter } from "./call-writer.ts";

/** A finished call whose record could not be written. */
export interface HeldCall {
  readonly row: CallRow;
  /** Of the record with all texts of its result. */
  readonly bytes: number;
  /** Whether `row` is all there is to write. A row without its blobs is not worth keeping in the journal. */
  readonly isWhole: boolean;
  /** Tries once more. Rejects with `StoreUnavailable` while the store cannot take it. */
  write(): Promise<unknown>;
}

/** Milliseconds from one attempt to write what is held to the next. */
const RETRY = 1_000;
const LARGEST_BATCH = 100;

/**
 * Keeps the records of calls that ran while the store is away, full or failing, and writes them in their order as soon
 * as it takes records again. Nothing that was added is ever thrown away: the bound is kept by refusing calls before they
 * run.
 */
export class WaitingRecords {
  readonly #logger: Pick<Logger, "warn" | "error">;
  readonly #journal: CallJournal;
  readonly #writer: Pick<CallWriter, "refused">;
  readonly #inJournal = new WeakSet<HeldCall>();
  /** True when no more are to be taken: whoever would make a call is refused. */
  isFull = false;
  /** While it holds some, others are added behind them rather than tried first: one that waits tells all. */
  isHolding = false;
  #queue: HeldCall[] = [];
  #bytes = 0;
  #why: StoreUnavailable | undefined;
  /** How many were held since the store last took everything. */
  #total = 0;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;

  /** `journal` has what is held as well, where there is room for it, so that it outlives the process. */
  constructor(
    journal: CallJournal,
    writer: Pick<CallWriter, "refused">,
    logger: Pick<Logger, "warn" | "error">,
  ) {
    this.#logger = logger;
    this.#writer = writer;
    this.#journal = journal;
  }

  get records(): number {
    return this.#queue.length;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Others that are safe in the journal, and that the database has refused so far. They do not count as held. */
  get journaled(): number {
    return this.#writer.refused;
  }

  /** Why the store takes none; undefined when nothing waits. */
  get reason(): UnavailableReason | undefined {
    return this.#queue.length === 0 ? undefined : this.#why?.reason;
  }

  /** `why` is left out for a call that joins others. */
  add(call: HeldCall, why?: StoreUnavailable): void {
    const wasFull = this.isFull;
    this.#why = why ?? this.#why;
    this.#queue.push(call);
    this.#bytes += call.bytes;
    this.#look();
    if (call.isWhole && this.#journal.append([call])) this.#inJournal.add(call);
    if (this.#total++ === 0) this.#logger.error(beginning(this.#why));
    if (this.isFull && !wasFull) this.#logger.error(fullText(this.#queue.length, this.#bytes));
    this.#arm();
  }

  /** The record of a held call, as it is going to be written. */
  find(callId: string): CallRow | undefined {
    return this.#queue.find(({ row }) => row.call_id === callId)?.row;
  }

  /** Tries to write everything once. Never rejects. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
    });
    await this.#writing;
  }

  /** To be called after `flush`. What is left is in the journal for the next process, or lost, which is said. */
  close(): void {
    clearTimeout(this.#timer);
    this.#journal.close(this.#queue.length > 0);
    const lost = this.#queue.filter((call) => !this.#inJournal.has(call));
    if (lost.length === 0) return;
    const ids = lost.slice(0, 20).map(({ row }) => row.call_id);
    const others = lost.length > ids.length ? ` and ${lost.length - ids.length} others` : "";
    this.#logger.error(
      `The records of ${lost.length} calls could not be written anywhere before the process ended, and are lost: ${ids.join(", ")}${others}. ${this.#why?.message ?? ""}`,
    );
  }

  #arm(): void {
    this.#timer ??= setTimeout(() => void this.flush(), RETRY).unref();
  }

  async #writeAll(): Promise<void> {
    while (this.#queue.length > 0) {
      const batch = this.#queue.slice(0, LARGEST_BATCH);
      const failures = await Promise.all(batch.map((call) => this.#write(call)));
      const kept = batch.filter((_, at) => failures[at] !== undefined);
      this.#queue = [...kept, ...this.#queue.slice(batch.length)];
      this.#look();
      const failure = failures.find((one) => one !== undefined);
      if (failure === undefined) continue;
      this.#why = failure;
      this.#arm();
      return;
    }
    if (this.#total === 0) return;
    this.#journal.clear();
    this.#logger.warn(
      `The store takes records again: the ${this.#total} that were kept in memory are written.`,
    );
    this.#total = 0;
    this.#why = undefined;
  }

  /** Answers why the store cannot take it yet; undefined when nothing is left to be done for it. */
  async #write(call: HeldCall): Promise<StoreUnavailable | undefined> {
    try {
      await call.write();
    } catch (error) {
      const unavailable = StoreUnavailable.from(error);
      if (unavailable !== undefined) return unavailable;
      // It is never going to be taken: keeping it would keep all behind it too.
      this.#logger.error(`The call ${call.row.call_id} could not be recorded: ${String(error)}`);
    }
    this.#bytes -= call.bytes;
    this.#look();
    return undefined;
  }

  /** How things stand is asked for with every call, and changes seldom. */
  #look(): void {
    this.isHolding = this.#queue.length > 0;
    this.isFull = this.#queue.length >= mostHeld.records || this.#bytes >= mostHeld.bytes;
  }
}

/** Records that wait in memory because the store cannot take them now. */
export type HeldRecords = Pick<WaitingRecords, "records" | "bytes" | "journaled" | "isFull" | "reason">;

const MIB = 1024 * 1024;

function beginning(why: StoreUnavailable | undefined): string {
  const cause = why?.cause instanceof Error ? ` (${why.cause.message})` : "";
  return `The store cannot take the records of calls${cause}. They are kept in memory and written when it can, up to ${mostHeld.records} records or ${mostHeld.bytes / MIB} MiB; from then on calls are refused. GET /readyz says how many there are. ${why?.message ?? ""}`;
}

function fullText(records: number, bytes: number): string {
  return `${records} records of calls (${Math.ceil(bytes / MIB)} MiB) wait in memory for the store, which is as many as are kept. Calls are refused until they are written.`;
}
