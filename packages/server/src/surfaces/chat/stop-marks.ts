import type { Logger } from "@toolrack/core";
import type { ChatStore } from "../../store/chat/chat-store.ts";
import type { ActiveTurn } from "./active-turn.ts";

/** How often it is looked for marks, in milliseconds. */
const LOOKING = 1_000;

/** Stops the turns of this process that somebody stopped on another node. Looks only while there are turns. */
export class StopMarks {
  readonly #store: Pick<ChatStore, "findStopped">;
  readonly #logger: Logger;
  readonly #turns = new Map<string, ActiveTurn>();
  #timer: NodeJS.Timeout | undefined;
  #isLooking = false;

  constructor(store: Pick<ChatStore, "findStopped">, logger: Logger) {
    this.#store = store;
    this.#logger = logger;
  }

  /** Until the turn has ended. */
  watch(turn: ActiveTurn): void {
    this.#turns.set(turn.message.id, turn);
    this.#timer ??= setInterval(() => void this.#look(), LOOKING).unref();
    void turn.done.then(() => {
      this.#turns.delete(turn.message.id);
      if (this.#turns.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    });
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      for (const id of await this.#store.findStopped([...this.#turns.keys()])) this.#turns.get(id)?.stop();
    } catch (error) {
      this.#logger.debug("It could not be looked for turns that were stopped on another node:", error);
    } finally {
      this.#isLooking = false;
    }
  }
}
