import type { Logger, ToolCallRecord, ToolResult } from "@toolrack/core";
import { reasonOf } from "../helpers/index.ts";
import type { CallLine, CallStore } from "../store/index.ts";
import type { CallBook, CallFollower, LiveCall } from "./call-book.ts";

/**
 * Keeps every call of the rack in the store, also those that tools make and those of other surfaces: noted when it
 * begins, so that a crash leaves a trace, and kept when it ends. Whoever made one learns when its record is safe.
 */
export class CallRecorder implements CallFollower {
  readonly #book: CallBook;
  readonly #calls: CallStore;
  readonly #logger: Logger;
  /** Writes under way, in groups: who waits for them waits for those of its time, however many come after. */
  #group: WriteGroup = { open: 0, settled: undefined };
  readonly #awaited = new Set<WriteGroup>();
  readonly #unfollow: () => void;
  #failures = 0;

  constructor(book: CallBook, calls: CallStore, logger: Logger) {
    this.#book = book;
    this.#calls = calls;
    this.#logger = logger;
    this.#unfollow = book.follow(this);
    // As long as there is a store: it may be refused what was safe when the recorder was closed.
    calls.onRefused((callId, thrown) => this.#keptBack(callId, thrown));
  }

  /** How many records the store refused for good. */
  get failures(): number {
    return this.#failures;
  }

  /** What a call under way has said so far. */
  linesOf(callId: string): readonly CallLine[] {
    return this.#book.get(callId)?.lines?.all() ?? [];
  }

  /** Resolves when the records of all calls that have ended by now are safe, or refused. */
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
      this.#refused(call.callId, thrown);
    }
  }

  ended(call: LiveCall | undefined, record: ToolCallRecord, result: ToolResult): void {
    const group = this.#group;
    group.open++;
    try {
      const whole = record.flags?.truncated === true ? this.#wholeText(record) : undefined;
      this.#calls.finished(record, result, call?.replayOf, whole, call?.lines?.all()).then(
        (safety) => {
          this.#settle(group, call, record, safety === "safe");
          if (safety === "held") this.#endChain(record);
        },
        (thrown) => this.#refuse(group, call, record, thrown),
      );
    } catch (thrown) {
      this.#refuse(group, call, record, thrown);
    }
  }

  #settle(group: WriteGroup, call: LiveCall | undefined, record: ToolCallRecord, recorded: boolean): void {
    group.open--;
    if (group.open === 0 && group.settled !== undefined) {
      this.#awaited.delete(group);
      group.settled.resolve();
    }
    call?.settle?.({ record, recorded });
  }

  #refuse(group: WriteGroup, call: LiveCall | undefined, record: ToolCallRecord, thrown: unknown): void {
    this.#refused(record.callId, thrown);
    this.#settle(group, call, record, false);
  }

  /** What a call makes is not refused where calls are handed in, so the call itself ends when no more can be held. */
  #endChain({ parentCallId }: ToolCallRecord): void {
    if (parentCallId === undefined || !this.#calls.held.isFull) return;
    this.#book.registry.cancel(
      parentCallId,
      "the store cannot take the records of its calls, and no more are kept",
    );
  }

  /** The caller is given a part of a long result; the store is given all of it, for reading on. */
  #wholeText({ callId }: ToolCallRecord): string | undefined {
    return this.#book.registry.readResult(callId, { limit: Number.POSITIVE_INFINITY })?.text;
  }

  #refused(callId: string, thrown: unknown): void {
    this.#failures++;
    this.#logger.error(`The call ${callId} could not be recorded: ${reasonOf(thrown)}`);
  }

  /** Its caller has been told that the record is safe, and so it is. */
  #keptBack(callId: string, thrown: unknown): void {
    this.#failures++;
    this.#logger.error(
      `The database refuses the record of call ${callId}: ${reasonOf(thrown)}. It stays in the journal, is tried again every second, and is brought in at the next start at the latest.`,
    );
  }
}

interface WriteGroup {
  open: number;
  /** Set once somebody waits for it; then no write joins it any more. */
  settled: PromiseWithResolvers<void> | undefined;
}
