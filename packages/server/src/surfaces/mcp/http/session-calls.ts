import { IdTable } from "@toolrack/core";
import type { EndedCall } from "../../../calls/call-desk.ts";
import type { Exchange } from "../exchange.ts";

type Id = string | number;

interface Twin {
  readonly id: Id;
  readonly exchange: Exchange<EndedCall>;
}

const none: readonly Twin[] = Object.freeze([]);

/**
 * The calls of a session that were begun before the SDK was given their requests, by the ids of those. The SDK knows
 * nothing of them, so that whoever ends them looks here too.
 */
export class SessionCalls {
  readonly #byId = new IdTable<Exchange<EndedCall>, Id>();
  /** No client should, but some use an id again while a call of that id is under way. */
  #twins = none;

  get size(): number {
    return this.#byId.size + this.#twins.length;
  }

  add(id: Id, exchange: Exchange<EndedCall>): void {
    if (this.#byId.get(id) === undefined) this.#byId.set(id, exchange);
    else this.#twins = [...this.#twins, { id, exchange }];
  }

  /** To be called when the call has been answered, or cannot be any more. */
  delete(id: Id, exchange: Exchange<EndedCall>): void {
    if (this.#byId.get(id) === exchange) this.#byId.delete(id);
    else this.#twins = this.#twins.filter((twin) => twin.exchange !== exchange);
  }

  /** All of this id: which of them the client means, it alone knows. */
  cancel(id: Id, reason: string): void {
    this.#byId.get(id)?.cancel(reason);
    for (const twin of this.#twins) if (twin.id === id) twin.exchange.cancel(reason);
  }

  cancelAll(reason: string): void {
    for (const exchange of this.#byId.values()) exchange.cancel(reason);
    for (const { exchange } of this.#twins) exchange.cancel(reason);
  }
}
