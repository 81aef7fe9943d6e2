import { setTimeout as wait } from "node:timers/promises";
import { type Logger, type RecalledCall, recallCalls } from "@toolrack/core";
import type { ChatMessage, ChatSession, ChatStore, Store, StoredCall } from "../store/index.ts";
import type { ChatParts, ChatService } from "./chat-service.ts";
import type { ModelEndpoint } from "./model/providers.ts";
import {
  type AssistantBody,
  assistantBody,
  callIdsOf,
  firstWords,
  instructions,
  TextSaver,
  TurnFollowers,
  type TurnWriter,
  toHistory,
} from "./sessions.ts";
import type { ChatReach } from "./tools.ts";
import { type MessagePart, type TurnEnd, TurnFeed } from "./turn/events.ts";
import { settleOpenCalls, type Turn } from "./turn/turn-loop.ts";

/** Turns that have ended and can still be read event by event. */
const MOST_RECENT = 100;
/** How long another process may take to stop a turn, and how often it is looked whether it has. */
const PATIENCE = 10_000;
const LOOKING = 250;

/** The last turns of sessions: those of this process, and a way to those of others that share the store. */
export class ActiveTurns {
  readonly #store: ChatParts["store"]["chat"];
  readonly #turns = new Map<string, ActiveTurn>();
  readonly #followers: TurnFollowers;
  readonly #marks: StopMarks;

  constructor(parts: Pick<ChatParts, "store" | "approvals" | "logger">) {
    this.#store = parts.store.chat;
    this.#followers = new TurnFollowers(parts);
    this.#marks = new StopMarks(parts.store, parts.logger);
  }

  /** Turns under way in this process. */
  get running(): ActiveTurn[] {
    return [...this.#turns.values()].filter(({ isDone }) => !isDone);
  }

  of(sessionId: string): ActiveTurn | undefined {
    return this.#turns.get(sessionId);
  }

  /** Only while it is under way. */
  runningOf(sessionId: string): ActiveTurn | undefined {
    const turn = this.#turns.get(sessionId);
    return turn?.isDone === false ? turn : undefined;
  }

  open(message: ChatMessage, parts: MessagePart[] = []): ActiveTurn {
    const turn = new ActiveTurn(message, parts);
    // Taken out and put back, a session is the last of the map.
    this.#turns.delete(message.sessionId);
    this.#turns.set(message.sessionId, turn);
    this.#marks.watch(turn);
    this.#letGo();
    // Of many at once, more are under way than are kept.
    void turn.done.then(() => this.#letGo());
    return turn;
  }

  /** The turn under way, also in another process, or else the last one of this process. */
  async watch(sessionId: string): Promise<ActiveTurn | undefined> {
    const here = this.runningOf(sessionId);
    return here ?? (await this.#followers.follow(sessionId)) ?? this.of(sessionId);
  }

  /** Says whether one was under way anywhere, once it has ended. */
  async stop(sessionId: string): Promise<boolean> {
    const turn = this.runningOf(sessionId);
    if (turn === undefined) return this.#stopElsewhere(sessionId);
    turn.stop();
    await turn.done;
    return true;
  }

  forget(sessionId: string): void {
    this.#turns.delete(sessionId);
  }

  #letGo(): void {
    for (const [id, { isDone }] of this.#turns) {
      if (this.#turns.size <= MOST_RECENT) break;
      if (isDone) this.#turns.delete(id);
    }
  }

  /** The process that makes the turn sees the mark in a moment. One that has died is found out, and its turn settled. */
  async #stopElsewhere(sessionId: string): Promise<boolean> {
    const messageId = await this.#store.requestStop(sessionId);
    if (messageId === undefined) return false;
    for (let waited = 0; waited < PATIENCE; waited += LOOKING) {
      if ((await this.#store.getMessage(messageId))?.status !== "running") break;
      await wait(LOOKING, undefined, { ref: false });
    }
    return true;
  }
}

/** A turn of a session, while it lasts and for a while afterwards. */
export class ActiveTurn {
  /** The message that it makes. */
  readonly message: ChatMessage;
  /** What the message has so far. */
  readonly parts: MessagePart[];
  readonly feed = new TurnFeed();
  readonly stopping = new AbortController();
  readonly leaving = new AbortController();
  readonly #done = Promise.withResolvers<ChatMessage>();
  #isDone = false;
  #stopMessage: string | undefined;

  constructor(message: ChatMessage, parts: MessagePart[]) {
    this.message = message;
    this.parts = parts;
  }

  get isDone(): boolean {
    return this.#isDone;
  }

  /** The message as it was when the turn had ended. Never rejects. */
  get done(): Promise<ChatMessage> {
    return this.#done.promise;
  }

  /** For people, where it was stopped by something other than one of them. */
  get stopMessage(): string | undefined {
    return this.#stopMessage;
  }

  /** Ends it: the model's answer and its calls. */
  stop(message?: string): void {
    if (!this.stopping.signal.aborted) this.#stopMessage = message;
    this.stopping.abort(message ?? "a person stopped the turn");
  }

  finish(message: ChatMessage): void {
    this.#isDone = true;
    this.#done.resolve(message);
  }
}

/** Has the last message of a session answered, and keeps what comes. */
export class TurnRunner {
  readonly #chat: ChatService;
  readonly #store: ChatStore;
  readonly #writer: TurnWriter;

  constructor(chat: ChatService, store: ChatStore, writer: TurnWriter) {
    this.#chat = chat;
    this.#store = store;
    this.#writer = writer;
  }

  /** Never rejects. */
  async run(
    session: ChatSession,
    active: ActiveTurn,
    reach: ChatReach,
    endpoint: ModelEndpoint,
    headers?: Turn["headers"],
  ): Promise<void> {
    const { message, parts, feed } = active;
    const chat = this.#chat;
    const { usage } = assistantBody(message);
    let body: AssistantBody = {
      provider: endpoint.provider,
      model: endpoint.model,
      parts,
      ...(usage && { usage }),
    };
    const saver = new TextSaver(() => this.#writer.save(message, body, "running"));
    let end: TurnEnd;
    let changes = {};
    try {
      const earlier = (await this.#store.listMessages(session.id)).filter(
        ({ position }) => position < message.position,
      );
      const offered = await chat.tools.getTools(reach, {
        budget: chat.toolBudget,
        query: firstWords(earlier),
        chosen: session.state.tools,
      });
      const known = callIdsOf(earlier);
      const loop = chat.loop({
        id: message.id,
        sessionID: session.id,
        reach,
        endpoint,
        history: [...instructions(session, reach), ...toHistory(earlier, endpoint.images)],
        body: {},
        offered,
        clientTools: [],
        parts,
        limits: chat.limits,
        usage,
        contextTokens: chat.contextTokens(endpoint),
        compacted: session.state.compacted ?? [],
        callIdOf: (id) => known.get(id),
        signal: active.stopping.signal,
        leaving: active.leaving.signal,
        ...(headers === undefined ? {} : { headers }),
        emit: (event) => {
          feed.publish(event.type, event);
          if (event.type === "usage") body = { ...body, usage: event.total };
          if ("text" in event) saver.touch();
        },
        save: () => saver.save(),
      });
      end = await loop.run();
      body = { ...body, usage: loop.usage };
      changes = {
        ...(offered.chosen === undefined ? {} : { tools: offered.chosen }),
        ...(loop.compacted.length === 0 ? {} : { compacted: loop.compacted }),
      };
    } catch (thrown) {
      end = this.#writer.endOf(thrown, active);
      if (end.reason !== "interrupted") settleOpenCalls(parts);
    }
    await saver.end();
    if (Object.keys(changes).length > 0) {
      const state = { ...session.state, ...changes };
      await chat.sessions.update(session, { state }).catch((error) => this.#writer.complain(error));
    }
    await this.#writer.conclude(active, body, end);
  }
}

/** Stops the turns of this process that somebody stopped on another node. Looks only while there are turns. */
class StopMarks {
  readonly #store: Pick<ChatStore, "findStopped">;
  readonly #turns = new Map<string, ActiveTurn>();

  constructor({ chat, follower }: Pick<Store, "chat" | "follower">, logger: Logger) {
    this.#store = chat;
    follower.follow("stopped turns", {
      isNeeded: () => this.#turns.size > 0,
      refresh: () => this.#look(),
      failed: (error) =>
        logger.debug("It could not be looked for turns that were stopped on another node:", error),
    });
  }

  /** Until the turn has ended. */
  watch(turn: ActiveTurn): void {
    this.#turns.set(turn.message.id, turn);
    void turn.done.then(() => this.#turns.delete(turn.message.id));
  }

  async #look(): Promise<void> {
    for (const id of await this.#store.findStopped([...this.#turns.keys()])) this.#turns.get(id)?.stop();
  }
}

/** As many as loop detection looks back. */
const MOST = 24;

/**
 * Gives loop detection its memory of a session back when another process had it before: from the records of the calls,
 * which are kept anyway.
 */
export class LoopMemory {
  readonly #parts: Pick<ChatParts, "registry" | "store" | "logger">;

  constructor(parts: Pick<ChatParts, "registry" | "store" | "logger">) {
    this.#parts = parts;
  }

  /** The memory of these calls, oldest first, and of no others. Never rejects. */
  async restore(sessionID: string, owner: string, callIds: readonly string[]): Promise<void> {
    const { registry, logger } = this.#parts;
    try {
      const calls = await Promise.all(callIds.slice(-MOST).map((callId) => this.#recall(callId)));
      const known = calls.filter((call) => call !== undefined);
      registry.restoreLoopState(sessionID, recallCalls(known), owner);
    } catch (error) {
      // A conversation goes on without it: a guard never becomes the cause of a failure.
      logger.warn("Loop detection does not remember a conversation that goes on:", error);
    }
  }

  /** The memory of all calls that were made in the session. Never rejects. */
  async restoreAll(sessionID: string, owner: string): Promise<void> {
    const { store, logger } = this.#parts;
    try {
      const { items } = await store.calls.list({ session: sessionID, top: true, limit: MOST });
      await this.restore(sessionID, owner, items.map(({ callId }) => callId).reverse());
    } catch (error) {
      logger.warn("Loop detection does not remember a conversation that goes on:", error);
    }
  }

  async #recall(callId: string): Promise<RecalledCall | undefined> {
    const { registry, store } = this.#parts;
    const record = await store.calls.get(callId);
    if (record === undefined || record.outcome === "running" || record.outcome === "interrupted")
      return undefined;
    const result = await this.#wholeResult(record);
    return result && { record, result, metadata: registry.get(record.toolName)?.metadata ?? {} };
  }

  async #wholeResult({ callId, result, resultSize, flags }: StoredCall) {
    if (flags?.truncated !== true) return result;
    // Another node may keep it; then nobody can tell what it repeats.
    const whole = await this.#parts.store.calls.readResult(callId, 0, resultSize).catch(() => undefined);
    return whole && { ...result, content: whole.text };
  }
}
