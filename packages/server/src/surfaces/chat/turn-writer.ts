import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "@toolrack/core";
import type { ChatMessage, ChatStore } from "../../store/chat/chat-store.ts";
import type { ActiveTurn } from "./active-turn.ts";
import type { AssistantBody } from "./chat-message-body.ts";
import type { TurnEnd } from "./turn/turn-event.ts";

/** How many of its events a turn that has ended keeps; who has missed more is given the whole message. */
const LAST_EVENTS = 200;
/** How often the end of a turn is written when the store does not take it, and how long to wait in between. */
const ATTEMPTS = 5;
const PAUSE = 1_000;

/** Keeps what turns make. */
export class TurnWriter {
  readonly #store: ChatStore;
  readonly #logger: Logger;

  constructor(store: ChatStore, logger: Logger) {
    this.#store = store;
    this.#logger = logger;
  }

  /** Resolves when it is safely written. */
  save({ id }: ChatMessage, body: AssistantBody, status: ChatMessage["status"]): Promise<void> {
    return this.#store.saveMessage(id, { status, body: { ...body } });
  }

  /** Writes the end of a turn and tells of it. A turn that is only left stays as it is. Never rejects. */
  async conclude(turn: ActiveTurn, body: AssistantBody, ended: TurnEnd): Promise<void> {
    const { message, parts, feed, stopMessage } = turn;
    const end = ended.reason === "stopped" && stopMessage ? { ...ended, message: stopMessage } : ended;
    const isLeft = end.reason === "interrupted";
    const whole: AssistantBody = { ...body, parts, ...(isLeft ? {} : { end }) };
    const status = isLeft ? "running" : statusOf(end);
    await this.#saveSurely(turn, whole, status);
    turn.finish({ ...message, status, updatedAt: Date.now(), body: { ...whole } });
    const { id: messageId, sessionId } = message;
    feed.publish("end", { type: "end", sessionId, messageId, end, usage: body.usage });
    feed.keep(LAST_EVENTS);
  }

  /** Takes note of what nobody could foresee, and says what to tell about it. */
  endOf(thrown: unknown, { stopping, leaving }: ActiveTurn): TurnEnd {
    if (stopping.signal.aborted) return { reason: "stopped" };
    if (leaving.signal.aborted) return { reason: "interrupted" };
    this.complain(thrown);
    // What is meant for people has a code and a name of its own.
    const isForPeople = thrown instanceof Error && "code" in thrown && thrown.name !== "Error";
    const message = isForPeople
      ? thrown.message
      : "The server failed to answer this message. Its log says why.";
    return { reason: "error", message, code: "internal_error" };
  }

  complain(thrown: unknown): void {
    this.#logger.error("A turn of a conversation failed:", thrown);
  }

  /** A session whose end is not written would stay busy. */
  async #saveSurely(
    { message, leaving }: ActiveTurn,
    body: AssistantBody,
    status: ChatMessage["status"],
  ): Promise<void> {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      try {
        return await this.save(message, body, status);
      } catch (thrown) {
        this.complain(thrown);
        if (leaving.signal.aborted) return;
        await wait(PAUSE, undefined, { ref: false });
      }
    }
  }
}

function statusOf({ reason }: TurnEnd): ChatMessage["status"] {
  if (reason === "error" || reason === "stopped") return reason;
  return "completed";
}
