import { randomBytes } from "node:crypto";
import type { ClientDialog } from "./dialog.ts";
import { invalidParams } from "./errors.ts";
import { type ClientRequest, patience } from "./session.ts";

/** Goes on with a dialog in another request of its client. */
type Resume = (request: ClientRequest) => void;

/** To whom a state was given, and for what: it is worth nothing to anybody else, or for anything else. */
interface Binding {
  readonly identity: string;
  /** `tools/call` */
  readonly method: string;
}

interface Held {
  readonly dialog: ClientDialog<unknown>;
  readonly binding: Binding;
  readonly resume: Resume;
  readonly timer: NodeJS.Timeout;
}

const STATE_BYTES = 32;

/**
 * Dialogs that wait while their client fetches answers. The client is given a state, which says nothing and cannot be
 * guessed; it is good once, and dies with this process, as the dialog does.
 */
export class HeldDialogs {
  readonly #byState = new Map<string, Held>();
  readonly #states = new Map<ClientDialog<unknown>, string | undefined>();
  readonly #closing = new AbortController();

  /** Aborts when the server stops: what is being asked then is waited for no longer. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Keeps the dialog until `take` is given the state that this returns, or nobody comes for too long. */
  hold(dialog: ClientDialog<unknown>, binding: Binding, resume: Resume): string {
    this.#release(dialog);
    const state = randomBytes(STATE_BYTES).toString("base64url");
    const giveUp = () => this.#giveUp(dialog, "the client did not come back with an answer");
    this.#byState.set(state, { dialog, binding, resume, timer: setTimeout(giveUp, patience).unref() });
    this.#states.set(dialog, state);
    return state;
  }

  /**
   * The dialog that a client came back to, which is no longer given up for want of an answer. Throws an `RpcError` when
   * the state is none, was used, is too old, or was given to others or for something else.
   */
  take(state: unknown, binding: Binding, isMeant: (dialog: ClientDialog<unknown>) => boolean): Held {
    const held = typeof state === "string" ? this.#byState.get(state) : undefined;
    const isTheirs = held?.binding.identity === binding.identity && held.binding.method === binding.method;
    if (held === undefined || !isTheirs || !isMeant(held.dialog)) {
      throw invalidParams("Invalid or expired requestState", { reason: "invalid_request_state" });
    }
    this.#release(held.dialog);
    this.#states.set(held.dialog, undefined);
    return held;
  }

  /** To be called when the dialog is over. */
  forget(dialog: ClientDialog<unknown>): void {
    this.#release(dialog);
    this.#states.delete(dialog);
  }

  close(): void {
    this.#closing.abort("the server is stopping");
    for (const dialog of [...this.#states.keys()]) this.#giveUp(dialog, "the server is stopping");
  }

  #giveUp(dialog: ClientDialog<unknown>, reason: string): void {
    this.forget(dialog);
    dialog.cancel(reason);
  }

  #release(dialog: ClientDialog<unknown>): void {
    const state = this.#states.get(dialog);
    if (state === undefined) return;
    clearTimeout(this.#byState.get(state)?.timer);
    this.#byState.delete(state);
  }
}
