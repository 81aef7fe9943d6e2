import { AsyncLocalStorage } from "node:async_hooks";
import { IdTable, type RackEvent, type ToolContext, type ToolRegistry } from "@toolrack/core";

/** Timers that a call set may make calls long after it has ended, but not for ever. */
const MOST_REMEMBERED = 10_000;

/**
 * Who is behind a call. A call that a tool makes names that tool as its caller, or whatever the tool says; rights and
 * rules are those of whoever made the first call of the chain.
 */
export class CallOrigins {
  readonly #active = new IdTable<string>();
  /** Two halves, of which the older one gives way whole: taking out the oldest one by one costs more than the call. */
  #ended = new IdTable<string>();
  #endedBefore = new IdTable<string>();
  readonly #unsubscribe: () => void;

  /** To be made before any call is. */
  constructor(registry: ToolRegistry) {
    this.#unsubscribe = registry.subscribe((event) => this.#listen(event));
  }

  /** The caller of the first call of the chain. Undefined when it is not known any more. */
  of(callId: string): string | undefined {
    return this.#active.get(callId) ?? this.#ended.get(callId) ?? this.#endedBefore.get(callId);
  }

  close(): void {
    this.#unsubscribe();
  }

  #listen(event: RackEvent): void {
    if (
      event.type === "state" &&
      event.status === "pending" &&
      this.#active.get(event.callId) === undefined
    ) {
      // The listener runs inside the call that makes this one, also when that has ended and a timer of it goes on.
      const maker = event.parentCallId ?? currentCall.getStore()?.callId;
      const origin = maker === undefined ? event.caller : this.of(maker);
      if (origin !== undefined) this.#active.set(event.callId, origin);
    }
    if (event.type === "record") this.#end(event.record.callId);
  }

  #end(callId: string): void {
    const origin = this.#active.get(callId);
    if (origin === undefined) return;
    this.#active.delete(callId);
    this.#ended.set(callId, origin);
    if (this.#ended.size < MOST_REMEMBERED / 2) return;
    this.#endedBefore = this.#ended;
    this.#ended = new IdTable();
  }
}

/** The call inside which code runs, for contracts whose functions are not handed a context. */
export const currentCall = new AsyncLocalStorage<ToolContext>();
