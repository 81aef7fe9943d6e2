import { setTimeout as wait } from "node:timers/promises";
import type { Reach } from "../http/wire/index.ts";
import type { ChatMessage, ChatSession } from "../store/index.ts";
import type { ActiveTurn } from "./active-turns.ts";
import { takeBack } from "./client-calls.ts";
import { type TurnEngine, unexpectedEnd } from "./engine.ts";
import { ChatError } from "./errors.ts";
import type { ModelEndpoint } from "./model.ts";
import { toProviderRequest } from "./response-request.ts";
import type { ChatServices } from "./services.ts";
import { type AssistantBody, assistantBody, callIdsOf, originOf, toHistory } from "./sessions.ts";
import { type MessagePart, settleOpenCalls, type Turn, type TurnEnd, type TurnEvent } from "./turn.ts";

/** How many of its events a finished turn keeps. A reader that missed more events gets the whole message. */
const LAST_EVENTS = 200;
/** How many times the end of a turn is written, at most, while the store fails. */
const ATTEMPTS = 5;
/** Milliseconds between two attempts to write the end of a turn. */
const PAUSE = 1_000;

export interface RunOptions {
  /** Trace headers for the calls and the provider: `traceparent`, `tracestate`, `baggage`. */
  readonly headers?: Turn["headers"];
  /** Awaited before calls are made. Given the parts of the answer so far. */
  readonly beforeCalls?: ((parts: readonly MessagePart[]) => Promise<void>) | undefined;
}

/** Runs the turn that answers a session's last message, and stores the answer. */
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
    { headers, beforeCalls }: RunOptions = {},
  ): Promise<void> {
    const { message, parts, feed } = active;
    const { chat } = this.#services.store;
    const { provider, model } = endpoint;
    const { usage, settings, wanted, requests = [] } = assistantBody(message);
    const kept = { wanted, ...(usage && { usage }), ...(settings && { settings }) };
    let body: AssistantBody = { provider, model, parts, requests, ...kept };
    const saver = new TextSaver(() => this.save(message, body, "running"));
    let end: TurnEnd;
    let { state } = session;
    try {
      const all = await chat.listMessages(session.id);
      const earlier = all.filter(({ position }) => position < message.position);
      const said = toHistory(session, reach, earlier, { ...endpoint, instructions: settings?.instructions });
      const { messages: history } = await takeBack(said, { owner: session.owner, provider }, chat);
      const asked = settings && toProviderRequest(settings);
      const known = callIdsOf(earlier);
      const outcome = await this.#engine.run({
        id: message.id,
        sessionID: session.id,
        reach,
        endpoint,
        history,
        ...(asked && { body: asked.body, clientTools: asked.tools ?? [] }),
        chosen: state.tools,
        parts,
        usage,
        compacted: state.compacted ?? [],
        callIdOf: (id) => known.get(id),
        handoffId: originOf(message),
        signal: active.stopping,
        headers,
        emit: (event) => {
          feed.publish(event);
          if (event.type === "usage") body = { ...body, usage: event.total };
          if (event.type === "model") body = withRequest(body, event);
          if ("text" in event) saver.touch();
        },
        save: async () => {
          await saver.save();
          await beforeCalls?.(parts);
        },
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

  save({ id }: ChatMessage, body: AssistantBody, status: ChatMessage["status"]): Promise<void> {
    return this.#services.store.chat.saveMessage(id, { status, body: { ...body } });
  }

  /**
   * Stores and publishes the end of a turn. An interrupted turn is stored as running, so that recovery finds
   * it. Never rejects.
   */
  async conclude(turn: ActiveTurn, body: AssistantBody, ended: TurnEnd): Promise<void> {
    const { message, parts, feed, stopMessage } = turn;
    const { reason } = ended;
    const end = reason === "stopped" && stopMessage ? { ...ended, message: stopMessage } : ended;
    const isLeft = reason === "interrupted";
    const whole: AssistantBody = { ...body, parts, ...(isLeft ? {} : { end }) };
    const status = isLeft ? "running" : reason === "error" || reason === "stopped" ? reason : "completed";
    // Retries, because a session stays busy until the end of its turn is stored.
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      const saving = this.save(message, whole, status).then(() => true);
      const isOver = await saving.catch((thrown) => {
        this.complain(thrown);
        return this.#engine.leaving.aborted;
      });
      if (isOver) break;
      await wait(PAUSE, undefined, { ref: false });
    }
    turn.finish({ ...message, status, updatedAt: Date.now(), body: { ...whole } });
    feed.keep(LAST_EVENTS);
  }

  /**
   * Turns a thrown error into the end of the turn. Logs all but refusals, which are not the server's failure. Settles the
   * open calls, unless the server is stopping.
   */
  endOf(thrown: unknown, { stopping, parts }: ActiveTurn): TurnEnd {
    if (!stopping.aborted && this.#engine.leaving.aborted) return { reason: "interrupted" };
    settleOpenCalls(parts);
    if (stopping.aborted) return { reason: "stopped" };
    if (!(thrown instanceof ChatError)) this.complain(thrown);
    return unexpectedEnd(thrown);
  }

  complain(thrown: unknown): void {
    this.#services.logger.error("A turn of a conversation failed:", thrown);
  }
}

/** The body of a message whose turn has asked one more model, which is the one that writes it from now on. */
function withRequest(body: AssistantBody, { type: _type, ...facts }: ModelAsked): AssistantBody {
  const { provider, model } = facts;
  return { ...body, provider, model, requests: [...(body.requests ?? []), facts] };
}

type ModelAsked = Extract<TurnEvent, { type: "model" }>;

/** Shortest time between two saves, in milliseconds. */
const SAVE_INTERVAL = 1_000;
/** After a save, the next scheduled save waits this many times as long as the save took. */
const SHARE = 20;

/** Saves an answer while it streams: about once a second, less often when saving is slow. Saves never overlap. */
export class TextSaver {
  readonly #write: () => Promise<void>;
  #saving: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #isSaving = false;
  /** When the next scheduled save may begin. */
  #earliest = 0;

  constructor(write: () => Promise<void>) {
    this.#write = write;
  }

  /** Schedules a save. A failure of a scheduled save is ignored, because the next save includes its text. */
  touch(delay = Math.max(SAVE_INTERVAL, this.#earliest - performance.now())): void {
    this.#timer ??= setTimeout(() => {
      this.#cancel();
      // Another save may have begun or ended in the meantime.
      const left = this.#isSaving ? SAVE_INTERVAL : this.#earliest - performance.now();
      if (left > 0) this.touch(left);
      else this.save().catch(() => {});
    }, delay).unref();
  }

  /** Resolves when all text so far is saved. */
  save(): Promise<void> {
    this.#cancel();
    const saved = this.#saving.then(async () => {
      const begin = performance.now();
      this.#isSaving = true;
      await this.#write().finally(() => {
        this.#isSaving = false;
        const end = performance.now();
        this.#earliest = end + Math.max(SAVE_INTERVAL, (end - begin) * SHARE);
      });
    });
    this.#saving = saved.catch(() => {});
    return saved;
  }

  /** Cancels the scheduled save. Resolves when no save is running. */
  async end(): Promise<void> {
    this.#cancel();
    await this.#saving;
  }

  #cancel(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
