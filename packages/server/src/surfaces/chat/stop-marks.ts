import type { Logger } from "@toolrack/core";
import { Lookout } from "../../async/lookout.ts";
import type { ChatStore } from "../../store/chat/chat-store.ts";
import type { ActiveTurn } from "./active-turn.ts";

/** Stops the turns of this process that somebody stopped on another node. Looks only while there are turns. */
export class StopMarks {
  readonly #store: Pick<ChatStore, "findStopped">;
  readonly #turns = new Map<string, ActiveTurn>();
  readonly #lookout: Lookout;

  constructor(store: Pick<ChatStore, "findStopped">, logger: Logger) {
    this.#store = store;
    this.#lookout = new Lookout({
      look: () => this.#look(),
      failed: (error) =>
        logger.debug("It could not be looked for turns that were stopped on another node:", error),
    });
  }

  /** Until the turn has ended. */
  watch(turn: ActiveTurn): void {
    this.#turns.set(turn.message.id, turn);
    this.#lookout.start();
    void turn.done.then(() => {
      this.#turns.delete(turn.message.id);
      if (this.#turns.size === 0) void this.#lookout.stop();
    });
  }

  async #look(): Promise<void> {
    for (const id of await this.#store.findStopped([...this.#turns.keys()])) this.#turns.get(id)?.stop();
  }
}
