import { randomBytes } from "node:crypto";
import type { ClientDialog } from "./dialog.ts";
import { invalidParams } from "./errors.ts";
import { answerTimeout, type ClientRequest } from "./session.ts";

/** Continues a dialog in a later request of its client. */
type Resume = (request: ClientRequest) => void;

/** Who received a state, and for which method. The state is valid only for both of them. */
interface Binding {
  readonly identity: string;
  /** `tools/call` */
  readonly method: string;
}

interface WaitingDialog {
  readonly dialog: ClientDialog<unknown>;
  readonly binding: Binding;
  readonly resume: Resume;
  readonly timer: NodeJS.Timeout;
}

const STATE_BYTES = 32;

/**
 * Dialogs that wait while their client fetches answers. The client receives a random state, which works once and only
 * in this process, because the dialog ends with the process.
 */
export class WaitingDialogs {
  readonly #dialogs = new Map<string, WaitingDialog>();
  readonly #closing = new AbortController();

  /** Aborts when the server stops; open questions then stop waiting. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Keeps the dialog and returns its state for `take`. Cancels the dialog when the client does not come back in time. */
  keep(dialog: ClientDialog<unknown>, binding: Binding, resume: Resume): string {
    const state = randomBytes(STATE_BYTES).toString("base64url");
    const giveUp = () => {
      this.#dialogs.delete(state);
      dialog.cancel("the client did not come back with an answer");
    };
    this.#dialogs.set(state, { dialog, binding, resume, timer: setTimeout(giveUp, answerTimeout).unref() });
    return state;
  }

  /**
   * Removes and returns the dialog of a state. Throws an `RpcError` when the state is unknown, used, too old, or was
   * given to another caller or for another request.
   */
  take(state: unknown, binding: Binding, isMeant: (dialog: ClientDialog<unknown>) => boolean): WaitingDialog {
    const waiting = typeof state === "string" ? this.#dialogs.get(state) : undefined;
    const isTheirs =
      waiting?.binding.identity === binding.identity && waiting.binding.method === binding.method;
    if (waiting === undefined || typeof state !== "string" || !isTheirs || !isMeant(waiting.dialog)) {
      throw invalidParams("Invalid or expired requestState", { reason: "invalid_request_state" });
    }
    clearTimeout(waiting.timer);
    this.#dialogs.delete(state);
    return waiting;
  }

  close(): void {
    this.#closing.abort("the server is stopping");
    for (const { dialog, timer } of this.#dialogs.values()) {
      clearTimeout(timer);
      dialog.cancel("the server is stopping");
    }
    this.#dialogs.clear();
  }
}
