import type { Logger } from "@toolrack/core";
import type { ChatStore } from "../../store/chat/chat-store.ts";
import { ChatError } from "./chat-error.ts";
import { callsWereCancelled, type RequestIdentity } from "./completion-runs.ts";

/** How long it is known that a request made calls, wherever it did, in milliseconds. */
const MARKED = 600_000;

/**
 * Says in the store which requests have begun to change something, for the processes that do not know what became of
 * them: another node of the store, or the next start. Only of requests that may come again.
 */
export class CompletionMarks {
  readonly #store: Pick<ChatStore, "addHandoff" | "getHandoff">;
  readonly #logger: Logger;

  constructor(store: Pick<ChatStore, "addHandoff" | "getHandoff">, logger: Logger) {
    this.#store = store;
    this.#logger = logger;
  }

  /** Resolves when it is safely written. Never rejects: this process knows of the request anyway. */
  async add(identity: RequestIdentity): Promise<void> {
    try {
      const messages = [{ at: Date.now() }];
      await this.#store.addHandoff({ id: idOf(identity), owner: identity.owner, sessionId: "", messages });
    } catch (error) {
      this.#logger.warn("That a request to /v1 makes calls could not be kept for other processes:", error);
    }
  }

  /** To be asked for a request that no run of this process answers. Throws `ChatError` for one that made calls. */
  async refuseRepeated(identity: RequestIdentity | undefined): Promise<void> {
    if (identity === undefined || !(identity.isRepeated || identity.isKeyed)) return;
    const mark = await this.#store.getHandoff(idOf(identity), identity.owner);
    // It was written by `add`.
    const [written] = (mark?.messages ?? []) as readonly { readonly at: number }[];
    if (written === undefined || Date.now() - written.at > MARKED) return;
    throw new ChatError("chat_cancelled", callsWereCancelled);
  }
}

/** No id of a handoff, which has hexadecimal digits only. */
function idOf({ hash }: RequestIdentity): string {
  return `run_${hash}`;
}
