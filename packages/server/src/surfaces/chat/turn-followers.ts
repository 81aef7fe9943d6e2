import { setTimeout as wait } from "node:timers/promises";
import type { ChatMessage } from "../../store/chat/chat-store.ts";
import { ActiveTurn } from "./active-turn.ts";
import { assistantBody } from "./chat-message-body.ts";
import type { ChatParts } from "./chat-parts.ts";
import { eventsBetween } from "./turn/events-between.ts";
import { isSettled, isTool } from "./turn/message-part.ts";
import type { TurnEvent } from "./turn/turn-event.ts";
import { shownApproval } from "./turn/turn-loop.ts";

/** How often what is stored is looked at, in milliseconds. */
const LOOKING = 1_000;
const PAGE = 500;

/**
 * Turns that other processes make, followed by what those have stored. Nothing is looked at unless somebody reads: a
 * turn is let go of as soon as nobody does.
 */
export class TurnFollowers {
  readonly #parts: Pick<ChatParts, "store" | "approvals" | "logger">;
  readonly #turns = new Map<string, ActiveTurn>();

  constructor(parts: Pick<ChatParts, "store" | "approvals" | "logger">) {
    this.#parts = parts;
  }

  /** The turn of a session that is under way. Its feed is to be followed at once. Undefined when there is none. */
  async follow(sessionId: string): Promise<ActiveTurn | undefined> {
    const message = await this.#parts.store.chat.getRunning(sessionId);
    if (message === undefined) return undefined;
    const known = this.#turns.get(message.id);
    if (known !== undefined) return known;
    const turn = new ActiveTurn(message, assistantBody(message).parts);
    this.#turns.set(message.id, turn);
    void this.#keepFollowing(turn);
    return turn;
  }

  /** Never rejects. */
  async #keepFollowing(turn: ActiveTurn): Promise<void> {
    const shown = new Map<string, string>();
    do {
      await wait(LOOKING, undefined, { ref: false });
      await this.#look(turn, shown).catch((error) =>
        this.#parts.logger.debug("A turn of another process could not be followed:", error),
      );
    } while (!turn.isDone && turn.feed.isFollowed);
    this.#turns.delete(turn.message.id);
  }

  async #look(turn: ActiveTurn, shown: Map<string, string>): Promise<void> {
    const { feed, parts } = turn;
    const { id: messageId, sessionId } = turn.message;
    const message = await this.#parts.store.chat.getMessage(messageId);
    const tell = (event: TurnEvent) => feed.publish(event.type, event);
    if (message !== undefined) {
      const { parts: stored } = assistantBody(message);
      const events = eventsBetween(parts, stored);
      parts.splice(0, parts.length, ...stored);
      for (const event of events) tell(event);
    }
    if (parts.some((part) => isTool(part) && !isSettled(part)) || shown.size > 0) {
      for (const event of await this.#questions(sessionId, shown)) tell(event);
    }
    if (message?.status === "running") return;
    const ended: ChatMessage = message ?? { ...turn.message, status: "interrupted" };
    const { end = { reason: "interrupted" }, usage } = assistantBody(ended);
    turn.finish(ended);
    feed.publish("end", { type: "end", sessionId, messageId, end, usage });
  }

  /** What is asked in the session, and what became of it. */
  async #questions(sessionId: string, shown: Map<string, string>): Promise<TurnEvent[]> {
    const { approvals } = this.#parts;
    const { items: open } = await approvals.list({ state: "pending", session: sessionId, limit: PAGE });
    const ids = new Set(open.map(({ id }) => id));
    const gone = [...shown].filter(([id, state]) => state === "pending" && !ids.has(id)).map(([id]) => id);
    const decided = await Promise.all(gone.map((id) => approvals.get(id)));
    const changed = [...open, ...decided.filter((approval) => approval !== undefined)].filter(
      ({ id, state }) => shown.get(id) !== state,
    );
    for (const { id, state } of changed) shown.set(id, state);
    return changed.map((approval) => ({ type: "approval", approval: shownApproval(approval) }));
  }
}
