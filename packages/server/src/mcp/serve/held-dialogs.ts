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
  readonly #held = new Map<string, Held>();
  readonly #closing = new AbortController();

  /** Aborts when the server stops: what is being asked then is waited for no longer. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Keeps the dialog until `take` is given the state that this returns, or nobody comes for too long. */
  hold(dialog: ClientDialog<unknown>, binding: Binding, resume: Resume): string {
    const state = randomBytes(STATE_BYTES).toString("base64url");
    const giveUp = () => {
      this.#held.delete(state);
      dialog.cancel("the client did not come back with an answer");
    };
    this.#held.set(state, { dialog, binding, resume, timer: setTimeout(giveUp, patience).unref() });
    return state;
  }

  /**
   * The dialog that a client came back to, which is no longer held. Throws an `RpcError` when the state is none, was
   * used, is too old, or was given to others or for something else.
   */
  take(state: unknown, binding: Binding, isMeant: (dialog: ClientDialog<unknown>) => boolean): Held {
    const held = typeof state === "string" ? this.#held.get(state) : undefined;
    const isTheirs = held?.binding.identity === binding.identity && held.binding.method === binding.method;
    if (held === undefined || typeof state !== "string" || !isTheirs || !isMeant(held.dialog)) {
      throw invalidParams("Invalid or expired requestState", { reason: "invalid_request_state" });
    }
    clearTimeout(held.timer);
    this.#held.delete(state);
    return held;
  }

  close(): void {
    this.#closing.abort("the server is stopping");
    for (const { dialog, timer } of this.#held.values()) {
      clearTimeout(timer);
      dialog.cancel("the server is stopping");
    }
    this.#held.clear();
  }
}
