import type { Logger } from "@toolrack/core";
import { StoreUnavailable, type UnavailableReason } from "../database-errors.ts";
import { mostHeld } from "../keys.ts";
import type { CallRow } from "../schema.ts";
import type { CallJournal } from "./call-journal.ts";
import type { CallWriter } from "./call-writer.ts";

/** A finished call whose record could not be written. */
export interface HeldCall {
  readonly row: CallRow;
  /** Bytes of the record, with all texts of its result. */
  readonly bytes: number;
  /**
   * Whether `row` is the whole record. False when blobs belong to it: such a row is not added to the journal.
   */
  readonly isWhole: boolean;
  /** Tries once more to write the record. Rejects with `StoreUnavailable` while the store cannot take it. */
  write(): Promise<unknown>;
}

/** Milliseconds from one attempt to write the held records to the next. */
const RETRY = 1_000;
const LARGEST_BATCH = 100;

/**
 * Keeps in memory the records of calls that ended while the store was away, full or failing, and writes them
 * in their order as soon as the store takes records again. When too many are held, new calls are refused
 * before they run. A held record is dropped only when the database refuses it for good.
 */
export class WaitingRecords {
  readonly #logger: Pick<Logger, "warn" | "error">;
  readonly #journal: CallJournal;
  readonly #writer: Pick<CallWriter, "refused">;
  readonly #inJournal = new WeakSet<HeldCall>();
  /** True when no more records may be held: new calls are then refused before they run. */
  isFull = false;
  /**
   * True while records are held. New records are then added behind them without an attempt of their own,
   * because the store is known to take none.
   */
  isHolding = false;
  #queue: HeldCall[] = [];
  #bytes = 0;
  #why: StoreUnavailable | undefined;
  /** How many records were added since the store last took all of them. */
  #total = 0;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;

  /**
   * `journal`: gets a copy of each held record, where there is room, so that the record outlives the process.
   */
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

  /**
   * How many other records are safe in the writer's journal and were refused by the database. They do not
   * count as held.
   */
  get journaled(): number {
    return this.#writer.refused;
  }

  /** Why the store takes no records; undefined when none is held. */
  get reason(): UnavailableReason | undefined {
    return this.#queue.length === 0 ? undefined : this.#why?.reason;
  }

  /** `why` is left out for a call that is added behind others. */
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

  /** Tries once to write all held records. Never rejects. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
    });
    await this.#writing;
  }

  /**
   * To be called after `flush`. A record that is still held stays in the journal for the next process; one
   * that is not there is lost, which is logged.
   */
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

  /**
   * Resolves with the reason why the store cannot take the record yet, or with undefined when the record was
   * written or refused for good.
   */
  async #write(call: HeldCall): Promise<StoreUnavailable | undefined> {
    try {
      await call.write();
    } catch (error) {
      const unavailable = StoreUnavailable.from(error);
      if (unavailable !== undefined) return unavailable;
      // The database will never take this record: holding it would hold up all records behind it.
      this.#logger.error(`The call ${call.row.call_id} could not be recorded: ${String(error)}`);
    }
    this.#bytes -= call.bytes;
    this.#look();
    return undefined;
  }

  /** Updates the two flags, which every call reads and which change seldom. */
  #look(): void {
    this.isHolding = this.#queue.length > 0;
    this.isFull = this.#queue.length >= mostHeld.records || this.#bytes >= mostHeld.bytes;
  }
}

/** How many records wait in memory because the store cannot take them now, and why. */
export type HeldRecords = Pick<WaitingRecords, "records" | "bytes" | "journaled" | "isFull" | "reason">;

const MIB = 1024 * 1024;

function beginning(why: StoreUnavailable | undefined): string {
  const cause = why?.cause instanceof Error ? ` (${why.cause.message})` : "";
  return `The store cannot take the records of calls${cause}. They are kept in memory and written when it can, up to ${mostHeld.records} records or ${mostHeld.bytes / MIB} MiB; from then on calls are refused. GET /readyz says how many there are. ${why?.message ?? ""}`;
}

function fullText(records: number, bytes: number): string {
  return `${records} records of calls (${Math.ceil(bytes / MIB)} MiB) wait in memory for the store, which is as many as are kept. Calls are refused until they are written.`;
}
