import { setTimeout as wait } from "node:timers/promises";
import type { Reach } from "../http/wire/index.ts";
import type { ChatMessage, ChatSession } from "../store/index.ts";
import { StoreUnavailable } from "../store/index.ts";
import type { TurnEngine } from "./engine.ts";
import type { ModelEndpoint } from "./model.ts";
import type { ChatServices } from "./services.ts";
import {
  type AssistantBody,
  assistantBody,
  callIdsOf,
  firstWords,
  instructions,
  toHistory,
} from "./sessions.ts";
import { settleOpenCalls, type Turn, type TurnEnd } from "./turn.ts";
import type { ActiveTurn } from "./turns.ts";

/** How many of its events a turn that has ended keeps; a reader that has missed more is given the whole message. */
const LAST_EVENTS = 200;
/** How often the end of a turn is written when the store does not take it, and how long to wait in between. */
const ATTEMPTS = 5;
const PAUSE = 1_000;

/** Has the last message of a session answered, and keeps what comes. */
export class SessionRunner {
  readonly #engine: TurnEngine;
  readonly #services: Pick<ChatServices, "store" | "logger">;

  constructor(engine: TurnEngine, services: Pick<ChatServices, "store" | "logger">) {
    this.#engine = engine;
    this.#services = services;
  }

  /** Never rejects. */
  async run(
    session: ChatSession,
    active: ActiveTurn,
    reach: Reach,
    endpoint: ModelEndpoint,
    headers?: Turn["headers"],
  ): Promise<void> {
    const { message, parts, feed } = active;
    const { chat } = this.#services.store;
    const { provider, model } = endpoint;
    const { usage } = assistantBody(message);
    let body: AssistantBody = { provider, model, parts, ...(usage && { usage }) };
    const saver = new TextSaver(() => this.save(message, body, "running"));
    let end: TurnEnd;
    let state = session.state;
    try {
      const all = await chat.listMessages(session.id);
      const earlier = all.filter(({ position }) => position < message.position);
      const known = callIdsOf(earlier);
      const outcome = await this.#engine.run({
        id: message.id,
        sessionID: session.id,
        reach,
        endpoint,
        history: [...instructions(session, reach), ...toHistory(earlier, endpoint.images)],
        query: firstWords(earlier),
        chosen: state.tools,
        parts,
        usage,
        compacted: state.compacted ?? [],
        callIdOf: (id) => known.get(id),
        signal: active.stopping,
        headers,
        emit: (event) => {
          feed.publish(event);
          if (event.type === "usage") body = { ...body, usage: event.total };
          if ("text" in event) saver.touch();
        },
        save: () => saver.save(),
      });
      end = outcome.end;
      body = { ...body, usage: outcome.usage };
      if (outcome.chosen !== undefined) state = { ...state, tools: outcome.chosen };
      if (outcome.compacted.length > 0) state = { ...state, compacted: outcome.compacted };
    } catch (thrown) {
      end = this.endOf(thrown, active);
    }
    await saver.end();
    if (state !== session.state) {
      await chat.updateSession(session.id, { state }).catch((error) => this.complain(error));
    }
    await this.conclude(active, body, end);
  }

  /** Resolves when it is safely written. */
  save({ id }: ChatMessage, body: AssistantBody, status: ChatMessage["status"]): Promise<void> {
    return this.#services.store.chat.saveMessage(id, { status, body: { ...body } });
  }

  /** Writes the end of a turn and tells of it. A turn that is only left stays as it is. Never rejects. */
  async conclude(turn: ActiveTurn, body: AssistantBody, ended: TurnEnd): Promise<void> {
    const { message, parts, feed, stopMessage } = turn;
    const end = ended.reason === "stopped" && stopMessage ? { ...ended, message: stopMessage } : ended;
    const isLeft = end.reason === "interrupted";
    const whole: AssistantBody = { ...body, parts, ...(isLeft ? {} : { end }) };
    const status = isLeft ? "running" : statusOf(end);
    await this.#saveSurely(message, whole, status);
    turn.finish({ ...message, status, updatedAt: Date.now(), body: { ...whole } });
    const { id: messageId, sessionId } = message;
    feed.publish({ type: "end", sessionId, messageId, end, usage: body.usage });
    feed.keep(LAST_EVENTS);
  }

  /** Takes note of what nobody could foresee, settles the turn's calls, and says what to tell about it. */
  endOf(thrown: unknown, { stopping, parts }: ActiveTurn): TurnEnd {
    if (!stopping.aborted && this.#engine.leaving.aborted) return { reason: "interrupted" };
    settleOpenCalls(parts);
    if (stopping.aborted) return { reason: "stopped" };
    this.complain(thrown);
    if (thrown instanceof StoreUnavailable) {
      const { message, code, retryAfter } = thrown;
      return { reason: "error", message, code, retryAfter };
    }
    // What is meant for people has a code and a name of its own.
    const isForPeople = thrown instanceof Error && "code" in thrown && thrown.name !== "Error";
    const message = isForPeople
      ? thrown.message
      : "The server failed to answer this message. Its log says why.";
    return { reason: "error", message, code: "internal_error" };
  }

  complain(thrown: unknown): void {
    this.#services.logger.error("A turn of a conversation failed:", thrown);
  }

  /** A session whose end is not written would stay busy. */
  async #saveSurely(message: ChatMessage, body: AssistantBody, status: ChatMessage["status"]): Promise<void> {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      try {
        return await this.save(message, body, status);
      } catch (thrown) {
        this.complain(thrown);
        if (this.#engine.leaving.aborted) return;
        await wait(PAUSE, undefined, { ref: false });
      }
    }
  }
}

function statusOf({ reason }: TurnEnd): ChatMessage["status"] {
  return reason === "error" || reason === "stopped" ? reason : "completed";
}

/** How soon text that came is kept, in milliseconds. */
const EVERY = 1_000;
/** Of the time, saving takes no more than one part in so many. */
const SHARE = 20;

/**
 * Keeps an answer while it comes: about once a second, and less often where saving takes long. Saves never overtake each
 * other.
 */
export class TextSaver {
  readonly #write: () => Promise<void>;
  #saving: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #pause = EVERY;
  #underWay = 0;
  #isTouched = false;

  constructor(write: () => Promise<void>) {
    this.#write = write;
  }

  /** More has come, which is to be kept before long. A save of its own accord may fail: the next one has it too. */
  touch(): void {
    this.#isTouched = this.#underWay > 0;
    if (this.#isTouched) return;
    this.#timer ??= setTimeout(() => void this.save().catch(() => {}), this.#pause).unref();
  }

  /** Resolves when all that has come is kept. */
  save(): Promise<void> {
    this.#cancel();
    this.#underWay++;
    const saved = this.#saving.then(() => this.#measured());
    this.#saving = saved.catch(() => {});
    return saved;
  }

  /** Saves no more of its own accord. Resolves when nothing is under way. */
  async end(): Promise<void> {
    this.#cancel();
    await this.#saving;
    this.#cancel();
  }

  async #measured(): Promise<void> {
    const begin = performance.now();
    this.#isTouched = false;
    try {
      await this.#write();
    } finally {
      this.#underWay--;
      this.#pause = Math.max(EVERY, (performance.now() - begin) * SHARE);
      if (this.#isTouched) this.touch();
    }
  }

  #cancel(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
