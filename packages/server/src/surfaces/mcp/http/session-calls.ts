import { IdTable } from "@toolrack/core";
import type { EndedCall } from "../../../calls/call-desk.ts";
import type { Exchange } from "../exchange.ts";

type Id = string | number;

/**
 * The calls of a session that were begun before the SDK was given their requests, by the ids of those. The SDK knows
 * nothing of them, so that whoever ends them looks here too.
 */
export class SessionCalls {
  readonly #byId = new IdTable<Exchange<EndedCall>, Id>();

  get size(): number {
    return this.#byId.size;
  }

  has(id: Id): boolean {
    return this.#byId.get(id) !== undefined;
  }

  /** Whether the request still waits for the answer of this call: one that was cancelled does not. */
  awaits(id: Id, exchange: Exchange<EndedCall>): boolean {
    return this.#byId.get(id) === exchange;
  }

  /** Only for an id that no call has. */
  add(id: Id, exchange: Exchange<EndedCall>): void {
    this.#byId.set(id, exchange);
  }

  /** To be called when the call has been answered, or cannot be any more. */
  delete(id: Id, exchange: Exchange<EndedCall>): void {
    if (this.awaits(id, exchange)) this.#byId.delete(id);
  }

  /** What the client cancels it does not wait for any more. */
  cancel(id: Id, reason: string): void {
    const exchange = this.#byId.get(id);
    this.#byId.delete(id);
    exchange?.cancel(reason);
  }

  cancelAll(reason: string): void {
    for (const exchange of this.#byId.values()) exchange.cancel(reason);
  }
}
