import { randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { RpcParams } from "../wire/index.ts";
import { invalidParams } from "./answers.ts";
import { answerTimeout, type ClientRequest } from "./session.ts";

/** The members of a `ClientDialog` that are used while it waits for the client's answers. */
interface Waiting {
  readonly subject: string;
  readonly input: RpcParams;
  cancel(reason: string): void;
}

/**
 * The request that was answered with questions. Only its caller can continue the dialog, by the same method.
 */
type Asker = Pick<ClientRequest, "method" | "caller">;

interface WaitingDialog {
  readonly dialog: Waiting;
  readonly identity: string;
  readonly method: string;
  readonly resume: (request: ClientRequest) => void;
  readonly timer: NodeJS.Timeout;
}

const STATE_BYTES = 32;

/**
 * Dialogs whose request was answered with questions. They wait until the client repeats the request with
 * answers and with the random `requestState` that it received. The state works once and only in this process,
 * because the dialog ends with the process. It has nothing in it that could be forged: only a name and random bytes.
 */
export class WaitingDialogs {
  readonly #dialogs = new Map<string, WaitingDialog>();
  readonly #prefix: string;
  readonly #closing = new AbortController();
  /** Aborts when the server stops. Questions to clients with a session then stop waiting for an answer. */
  readonly closing: AbortSignal = this.#closing.signal;

  /** `node`: the id of this node, where others share its database. They send a request with its state on to it. */
  constructor(node?: string) {
    this.#prefix = node === undefined ? "" : `${node}.`;
  }

  /**
   * Keeps the dialog and returns its `requestState`. Cancels the dialog when the client does not send a
   * request with that state in time.
   */
  keep(dialog: Waiting, { method, caller }: Asker, resume: WaitingDialog["resume"]): string {
    const state = this.#prefix + randomBytes(STATE_BYTES).toString("base64url");
    const giveUp = () => {
      this.#dialogs.delete(state);
      dialog.cancel("the client did not come back with an answer");
    };
    const timer = setTimeout(giveUp, answerTimeout).unref();
    this.#dialogs.set(state, { dialog, identity: caller.identity, method, resume, timer });
    return state;
  }

  /**
   * Continues the dialog that a request names by its `requestState`. Throws an `RpcError` when the state is
   * unknown, used, too old, or was given to another caller or for another request. A request with other
   * arguments is refused too, because the work runs with the arguments of the first request.
   */
  resume(request: ClientRequest, subject: string, input: RpcParams = {}): void {
    const { method, caller, params } = request;
    const state = String(params.requestState);
    const waiting = this.#dialogs.get(state);
    const isTheirs = waiting?.identity === caller.identity && waiting.method === method;
    const isMeant =
      isTheirs && waiting.dialog.subject === subject && isDeepStrictEqual(waiting.dialog.input, input);
    if (!isMeant) throw invalidParams("Invalid or expired requestState", { reason: "invalid_request_state" });
    clearTimeout(waiting.timer);
    this.#dialogs.delete(state);
    waiting.resume(request);
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
