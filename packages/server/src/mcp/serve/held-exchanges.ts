import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import type { Exchange } from "./exchange.ts";

interface Held {
  readonly exchange: Exchange<unknown>;
  readonly round: number;
  readonly timer: NodeJS.Timeout;
}

interface State {
  readonly id: string;
  readonly round: number;
  readonly expires: number;
}

/** Whom a state was given to, and for what: it is worth nothing to anybody else, or for anything else. */
export interface Binding {
  readonly principal: string;
  /** `tools/call` */
  readonly method: string;
}

/** A client's way back to the exchange that waits for it. */
export interface HeldTicket<Result = unknown> {
  readonly exchange: Exchange<Result>;
  /** To be called before anything is done with it. Throws when somebody was faster. */
  use(): void;
}

/** How long a client may take to come back with an answer, in milliseconds. */
export const patience = 10 * 60_000;
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Exchanges that wait while their client fetches answers. The client carries a sealed state, which names the exchange
 * and the round; it can neither be read nor changed, and dies with this process, as the exchange does.
 */
export class HeldExchanges {
  readonly #key = randomBytes(KEY_BYTES);
  readonly #held = new Map<string, Held>();
  readonly #ids = new WeakMap<Exchange<unknown>, string>();
  readonly #closing = new AbortController();

  /** Aborts when the server stops: what is being asked then is waited for no longer. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Keeps the exchange until `take` is given the state that this answers, or nobody comes for too long. */
  hold(exchange: Exchange<unknown>, binding: Binding): string {
    const id = this.#ids.get(exchange) ?? randomBytes(NONCE_BYTES).toString("base64url");
    const before = this.#held.get(id);
    clearTimeout(before?.timer);
    const round = (before?.round ?? 0) + 1;
    const timer = setTimeout(() => this.#giveUp(id), patience).unref();
    this.#ids.set(exchange, id);
    this.#held.set(id, { exchange, round, timer });
    return this.#seal({ id, round, expires: Date.now() + patience }, binding);
  }

  /** What a client that came back may go on with. Throws when the state was changed, is too old, or was given to others. */
  take(sealed: string, binding: Binding): HeldTicket {
    const { id, round, expires } = this.#open(sealed, binding);
    const exchange = this.#waiting(id, round, expires).exchange;
    return { exchange, use: () => this.#use(id, round, expires) };
  }

  /** To be called when the exchange is over. */
  forget(exchange: Exchange<unknown>): void {
    const id = this.#ids.get(exchange);
    if (id === undefined) return;
    clearTimeout(this.#held.get(id)?.timer);
    this.#held.delete(id);
  }

  close(): void {
    this.#closing.abort("the server is stopping");
    for (const id of [...this.#held.keys()]) this.#giveUp(id, "the server is stopping");
  }

  /** The same answers cannot be given twice. */
  #use(id: string, round: number, expires: number): void {
    const held = this.#waiting(id, round, expires);
    clearTimeout(held.timer);
    this.#held.set(id, { ...held, round: round + 1 });
  }

  #waiting(id: string, round: number, expires: number): Held {
    const held = this.#held.get(id);
    if (held !== undefined && held.round === round && Date.now() <= expires) return held;
    throw new Error("The state is not one that is waited for.");
  }

  #giveUp(id: string, reason = "the client did not come back with an answer"): void {
    const held = this.#held.get(id);
    if (held === undefined) return;
    clearTimeout(held.timer);
    this.#held.delete(id);
    held.exchange.cancel(reason);
  }

  #seal(state: State, binding: Binding): string {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv("aes-256-gcm", this.#key, nonce);
    cipher.setAAD(bytesOf(binding));
    const body = Buffer.concat([cipher.update(JSON.stringify(state), "utf8"), cipher.final()]);
    return Buffer.concat([nonce, cipher.getAuthTag(), body]).toString("base64url");
  }

  #open(sealed: string, binding: Binding): State {
    // Decoding skips what is no base64; such a text was not made here.
    if (!/^[\w-]+$/.test(sealed)) throw new Error("The state is not one of this server.");
    const bytes = Buffer.from(sealed, "base64url");
    if (bytes.toString("base64url") !== sealed) throw new Error("The state is not one of this server.");
    const decipher = createDecipheriv("aes-256-gcm", this.#key, bytes.subarray(0, NONCE_BYTES));
    decipher.setAAD(bytesOf(binding));
    decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
    const body = decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES));
    return JSON.parse(Buffer.concat([body, decipher.final()]).toString("utf8")) as State; // Sealed by us.
  }
}

function bytesOf({ principal, method }: Binding): Buffer {
  return Buffer.from(JSON.stringify([principal, method]));
}
