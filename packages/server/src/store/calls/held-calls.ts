import type { Logger } from "@toolrack/core";
import { StoreUnavailable, type UnavailableReason } from "../database-errors.ts";
import { mostHeld } from "../keys.ts";
import type { CallRow } from "../schema.ts";
import type { CallJournal } from "./call-journal.ts";
import type { CallWriter } from "./call-writer.ts";

/** A finished call whose record could not be written. */
export interface HeldCall {
  readonly row: CallRow;
  /** Size of the record with all texts of its result. */
  readonly bytes: number;
  /** Whether `row` is the whole record. A row without its blobs does not go to the journal. */
  readonly isWhole: boolean;
  /** Tries to write it. Rejects with `StoreUnavailable` while the store cannot take it. */
  write(): Promise<void>;
}

const RETRY_INTERVAL = 1_000;
const LARGEST_BATCH = 100;

/**
 * Keeps the records of calls in memory while the store is away, full or failing, and writes them in order as soon as it
 * can. Nothing is ever thrown away: when too many wait, calls are refused before they run.
 */
export class HeldCalls {
  readonly #logger: Pick<Logger, "warn" | "error">;
  readonly #journal: CallJournal;
  readonly #writer: Pick<CallWriter, "refused">;
  readonly #inJournal = new WeakSet<HeldCall>();
  #queue: HeldCall[] = [];
  #bytes = 0;
  #why: StoreUnavailable | undefined;
  /** How many were added since the queue was last empty. */
  #total = 0;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;

  /** `journal` gets the records too, as far as there is room, so that they outlive the process. */
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

  /** Records in the writer's journal that the database refuses. They do not count as held. */
  get journaled(): number {
    return this.#writer.refused;
  }

  /** While true, new calls are refused. */
  get isFull(): boolean {
    return this.#queue.length >= mostHeld.records || this.#bytes >= mostHeld.bytes;
  }

  /** Why the store takes no records; undefined when none wait. */
  get reason(): UnavailableReason | undefined {
    return this.#queue.length === 0 ? undefined : this.#why?.reason;
  }

  /** While true, new records are queued without trying the store first. */
  get isHolding(): boolean {
    return this.#queue.length > 0;
  }

  /** `why` may be left out while others wait. */
  add(call: HeldCall, why?: StoreUnavailable): void {
    const wasFull = this.isFull;
    this.#why = why ?? this.#why;
    this.#queue.push(call);
    this.#bytes += call.bytes;
    if (call.isWhole && this.#journal.append([call.row])) this.#inJournal.add(call);
    if (this.#total++ === 0) this.#logger.error(describeStart(this.#why));
    if (this.isFull && !wasFull) this.#logger.error(describeFull(this.#queue.length, this.#bytes));
    this.#startTimer();
  }

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

  /**
   * Must be called after `flush`. Records that are left are in the journal for the next process; lost ones are logged.
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

  #startTimer(): void {
    this.#timer ??= setTimeout(() => void this.flush(), RETRY_INTERVAL).unref();
  }

  async #writeAll(): Promise<void> {
    while (this.#queue.length > 0) {
      const batch = this.#queue.slice(0, LARGEST_BATCH);
      const failures = await Promise.all(batch.map((call) => this.#write(call)));
      const kept = batch.filter((_, at) => failures[at] !== undefined);
      this.#queue = [...kept, ...this.#queue.slice(batch.length)];
      const failure = failures.find((one) => one !== undefined);
      if (failure === undefined) continue;
      this.#why = failure;
      this.#startTimer();
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

  /** Returns why the store cannot take the record yet; undefined when it is done. */
  async #write(call: HeldCall): Promise<StoreUnavailable | undefined> {
    try {
      await call.write();
    } catch (error) {
      const unavailable = StoreUnavailable.from(error);
      if (unavailable !== undefined) return unavailable;
      // The store will never take it. Keeping it would block all records behind it.
      this.#logger.error(`The call ${call.row.call_id} could not be recorded: ${String(error)}`);
    }
    this.#bytes -= call.bytes;
    return undefined;
  }
}

/** What other folders may know of the waiting records. */
export type HeldRecords = Pick<HeldCalls, "records" | "bytes" | "journaled" | "isFull" | "reason">;

const MIB = 1024 * 1024;

function describeStart(why: StoreUnavailable | undefined): string {
  const cause = why?.cause instanceof Error ? ` (${why.cause.message})` : "";
  return `The store cannot take the records of calls${cause}. They are kept in memory and written when it can, up to ${mostHeld.records} records or ${mostHeld.bytes / MIB} MiB; from then on calls are refused. GET /readyz says how many there are. ${why?.message ?? ""}`;
}

function describeFull(records: number, bytes: number): string {
  return `${records} records of calls (${Math.ceil(bytes / MIB)} MiB) wait in memory for the store, which is as many as are kept. Calls are refused until they are written.`;
}
