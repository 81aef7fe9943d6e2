import type { Logger, ToolCallRecord, ToolResult } from "@toolrack/core";
import { reasonOf } from "../helpers/index.ts";
import type { CallLine, CallStore, CallTrace } from "../store/index.ts";
import type { CallBook, CallFollower, LiveCall } from "./call-book.ts";

/**
 * Stores every call of the rack, nested calls included: an entry when the call begins, so that a crash leaves
 * a trace, and the record when it ends. Tells the call (`LiveCall.settle`) whether its record is stored.
 */
export class CallRecorder implements CallFollower {
  readonly #book: CallBook;
  readonly #calls: CallStore;
  readonly #logger: Logger;
  /**
   * The current group of writes under way. `flush` begins a new group and waits for the earlier ones, so it
   * does not wait for writes that begin after it.
   */
  #group: WriteGroup = { open: 0, settled: undefined };
  readonly #awaited = new Set<WriteGroup>();
  readonly #unfollow: () => void;
  #failures = 0;

  constructor(book: CallBook, calls: CallStore, logger: Logger) {
    this.#book = book;
    this.#calls = calls;
    this.#logger = logger;
    this.#unfollow = book.follow(this);
    // Stays subscribed after `close`: the database may later refuse a record that is already safe in the
    // journal.
    calls.onRefused((callId, thrown) => {
      // The caller was told that the record is safe, and it is: the journal has it.
      const consequence =
        "It stays in the journal, is tried again every second, and is brought in at the next start at the latest.";
      this.#refused(`The database refuses the record of call ${callId}: ${reasonOf(thrown)}. ${consequence}`);
    });
  }

  /**
   * How often the store refused to record the beginning or the end of a call. A record in the journal may
   * still be stored later.
   */
  get failures(): number {
    return this.#failures;
  }

  linesOf(callId: string): readonly CallLine[] {
    return this.#book.get(callId)?.lines?.all() ?? [];
  }

  /** Resolves when the records of all calls that have ended by now are stored or refused. */
  async flush(): Promise<void> {
    if (this.#group.open > 0) {
      this.#group.settled = Promise.withResolvers();
      this.#awaited.add(this.#group);
      this.#group = { open: 0, settled: undefined };
    }
    await Promise.all(Array.from(this.#awaited, ({ settled }) => settled?.promise));
  }

  close(): Promise<void> {
    this.#unfollow();
    return this.flush();
  }

  begun(call: LiveCall): void {
    try {
      this.#calls.started(call);
    } catch (thrown) {
      this.#refused(`The call ${call.callId} could not be recorded: ${reasonOf(thrown)}`);
    }
  }

  ended(call: LiveCall | undefined, ended: ToolCallRecord, result: ToolResult, trace?: CallTrace): void {
    const record = call?.resumedAt === undefined ? ended : sinceItsBeginning(ended, call);
    if (call?.isLeft) return void call.settle?.({ record, recorded: false, trace });
    if (call?.isRecorded !== undefined) {
      const { isRecorded: recorded } = call;
      this.#calls.lanes.release(record.callId);
      // Calls that it made here are on record before it is answered.
      void this.flush().then(() => call.settle?.({ record, recorded, trace }));
      return;
    }
    const group = this.#group;
    group.open++;
    const settle = (safety: "safe" | "held" | "taken" | "refused") => {
      group.open--;
      if (group.open === 0 && group.settled !== undefined) {
        this.#awaited.delete(group);
        group.settled.resolve();
      }
      const isTaken = safety === "taken";
      call?.settle?.({ record, recorded: safety === "safe", trace, ...(isTaken && { isTaken }) });
      if (safety === "held") this.#endChain(record);
    };
    const refuse = (thrown: unknown) => {
      this.#refused(`The call ${record.callId} could not be recorded: ${reasonOf(thrown)}`);
      settle("refused");
    };
    try {
      // The caller gets a part of a long result; the store gets all of it, so that the rest can be
      // read later.
      const page = { limit: Number.POSITIVE_INFINITY };
      const isCut = record.flags?.truncated === true;
      const whole = isCut ? this.#book.registry.readResult(record.callId, page)?.text : undefined;
      const owner = call?.owner ?? this.#book.ownerOfRefused(record);
      const rootCallId = call === undefined ? this.#book.rootUnder(record.parentCallId) : call.rootCallId;
      const { replayOf, via, expert, lane, lines } = call ?? {};
      this.#calls
        .finished(record, result, {
          replayOf,
          whole,
          log: lines?.all(),
          owner,
          rootCallId,
          trace,
          via,
          expert,
          lane,
        })
        .then(settle, refuse);
    } catch (thrown) {
      refuse(thrown);
    }
  }

  /** A nested call is never refused. So its parent is cancelled when the store can hold no more records. */
  #endChain({ parentCallId }: ToolCallRecord): void {
    if (parentCallId === undefined || !this.#calls.held.isFull) return;
    this.#book.registry.cancel(
      parentCallId,
      "the store cannot take the records of its calls, and no more are kept",
    );
  }

  #refused(problem: string): void {
    this.#failures++;
    this.#logger.error(problem);
  }
}

/** The record of a call that another process began: it counts from there. */
function sinceItsBeginning(
  record: ToolCallRecord,
  { timestamp, resumedAt = timestamp }: LiveCall,
): ToolCallRecord {
  const earlier = resumedAt - timestamp;
  return { ...record, timestamp, duration: record.duration + earlier };
}

interface WriteGroup {
  open: number;
  /** Set once `flush` waits for this group; no write is added to the group after that. */
  settled: PromiseWithResolvers<void> | undefined;
}
