import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { isRecord } from "../../helpers/index.ts";
import type { ClientDialog } from "./dialog.ts";
import { invalidParams } from "./errors.ts";
import { type ClientRequest, patience } from "./session.ts";

/** Goes on with a dialog in another request of its client. */
type Resume = (request: ClientRequest) => void;

interface Held {
  readonly dialog: ClientDialog<unknown>;
  readonly resume: Resume;
  readonly round: number;
  readonly timer: NodeJS.Timeout;
}

interface State {
  readonly id: string;
  readonly round: number;
  readonly expires: number;
}

/** To whom a state was given, and for what: it is worth nothing to anybody else, or for anything else. */
interface Binding {
  readonly identity: string;
  /** `tools/call` */
  readonly method: string;
}

const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Dialogs that wait while their client fetches answers. The client carries a sealed state, which names the dialog
 * and the round; it can neither be read nor changed, and dies with this process, as the dialog does.
 */
export class HeldDialogs {
  readonly #key = randomBytes(KEY_BYTES);
  readonly #held = new Map<string, Held>();
  readonly #ids = new WeakMap<ClientDialog<unknown>, string>();
  readonly #closing = new AbortController();

  /** Aborts when the server stops: what is being asked then is waited for no longer. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Keeps the dialog until `take` is given the state that this returns, or nobody comes for too long. */
  hold(dialog: ClientDialog<unknown>, binding: Binding, resume: Resume): string {
    const id = this.#ids.get(dialog) ?? randomBytes(NONCE_BYTES).toString("base64url");
    const before = this.#held.get(id);
    clearTimeout(before?.timer);
    const round = (before?.round ?? 0) + 1;
    const timer = setTimeout(() => this.#giveUp(id), patience).unref();
    this.#ids.set(dialog, id);
    this.#held.set(id, { dialog, resume, round, timer });
    return this.#seal({ id, round, expires: Date.now() + patience }, binding);
  }

  /**
   * The dialog that a client came back to. It is no longer given up for want of an answer, and the state is used up.
   * Throws when the state was changed, is too old, was used, or was given to others or for something else.
   */
  take(sealed: unknown, binding: Binding, isMeant: (dialog: ClientDialog<unknown>) => boolean): Held {
    const state = typeof sealed === "string" ? this.#open(sealed, binding) : undefined;
    const held = state && this.#held.get(state.id);
    const isGood = held?.round === state?.round && state !== undefined && Date.now() <= state.expires;
    if (!isGood || held === undefined || !isMeant(held.dialog)) {
      throw invalidParams("Invalid or expired requestState", { reason: "invalid_request_state" });
    }
    clearTimeout(held.timer);
    this.#held.set(state.id, { ...held, round: held.round + 1 });
    return held;
  }

  /** To be called when the dialog is over. */
  forget(dialog: ClientDialog<unknown>): void {
    const id = this.#ids.get(dialog);
    if (id === undefined) return;
    clearTimeout(this.#held.get(id)?.timer);
    this.#held.delete(id);
  }

  close(): void {
    this.#closing.abort("the server is stopping");
    for (const id of [...this.#held.keys()]) this.#giveUp(id, "the server is stopping");
  }

  #giveUp(id: string, reason = "the client did not come back with an answer"): void {
    const held = this.#held.get(id);
    if (held === undefined) return;
    clearTimeout(held.timer);
    this.#held.delete(id);
    held.dialog.cancel(reason);
  }

  #seal(state: State, binding: Binding): string {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv("aes-256-gcm", this.#key, nonce);
    cipher.setAAD(bytesOf(binding));
    const body = Buffer.concat([cipher.update(JSON.stringify(state), "utf8"), cipher.final()]);
    return Buffer.concat([nonce, cipher.getAuthTag(), body]).toString("base64url");
  }

  /** Undefined for whatever was not sealed here for this binding. */
  #open(sealed: string, binding: Binding): State | undefined {
    const bytes = Buffer.from(sealed, "base64url");
    // Decoding skips what is no base64; such a text was not made here.
    if (bytes.toString("base64url") !== sealed) return undefined;
    try {
      const decipher = createDecipheriv("aes-256-gcm", this.#key, bytes.subarray(0, NONCE_BYTES));
      decipher.setAAD(bytesOf(binding));
      decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
      const body = decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES));
      const state: unknown = JSON.parse(Buffer.concat([body, decipher.final()]).toString("utf8"));
      return isState(state) ? state : undefined;
    } catch {
      return undefined;
    }
  }
}

function isState(value: unknown): value is State {
  return isRecord(value) && typeof value.id === "string" && typeof value.expires === "number";
}

function bytesOf({ identity, method }: Binding): Buffer {
  return Buffer.from(JSON.stringify([identity, method]));
}
