import { IdTable, type RackEvent, type ToolRegistry } from "@toolrack/core";
import { currentCall } from "../helpers/current-call.ts";
import { type Grant, masterGrant } from "./grants.ts";

/** Timers that a call set may make calls long after it has ended, but not for ever. */
const MOST_REMEMBERED = 10_000;

/** Callers that act for the operator of the workspace: the program itself, its command line, and its own token. */
const operators: ReadonlySet<string> = new Set(["", "cli", masterGrant.caller]);

/** Whoever made the first call of a chain. */
interface Origin {
  readonly caller: string;
  readonly isAdmin: boolean;
}

/**
 * Who is behind a call. A call that a tool makes names that tool as its caller, or whatever the tool says; rights and
 * rules are those of whoever made the first call of the chain.
 */
export class CallOrigins {
  readonly #active = new IdTable<Origin>();
  /** Two halves, of which the older one gives way whole: taking out the oldest one by one costs more than the call. */
  #ended = new IdTable<Origin>();
  #endedBefore = new IdTable<Origin>();
  readonly #unsubscribe: () => void;

  /** To be made before any call is. */
  constructor(registry: ToolRegistry) {
    this.#unsubscribe = registry.subscribe((event) => this.#listen(event));
  }

  /** The caller of the first call of the chain. Undefined when it is not known any more. */
  of(callId: string): string | undefined {
    return this.#find(callId)?.caller;
  }

  /**
   * Whether whoever made the first call has an admin grant. So has the program itself: its command line, and the code of
   * whoever uses it as a library and names no other caller. Nobody who is not known any more has one.
   */
  isAdmin(callId: string): boolean {
    return this.#find(callId)?.isAdmin === true;
  }

  /** To be called before the first call of a chain is made with a grant. */
  announce(callId: string, grant: Pick<Grant, "caller" | "admin">): void {
    this.#active.set(callId, { caller: grant.caller, isAdmin: grant.admin });
  }

  close(): void {
    this.#unsubscribe();
  }

  #find(callId: string): Origin | undefined {
    return this.#active.get(callId) ?? this.#ended.get(callId) ?? this.#endedBefore.get(callId);
  }

  #listen(event: RackEvent): void {
    if (
      event.type === "state" &&
      event.status === "pending" &&
      this.#active.get(event.callId) === undefined
    ) {
      // The listener runs inside the call that makes this one, also when that has ended and a timer of it goes on.
      const maker = event.parentCallId ?? currentCall.getStore()?.callId;
      const origin =
        maker === undefined
          ? { caller: event.caller, isAdmin: operators.has(event.caller) }
          : this.#find(maker);
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
