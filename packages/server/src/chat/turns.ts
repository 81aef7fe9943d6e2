import { setTimeout as wait } from "node:timers/promises";
import type { ChatMessage } from "../store/index.ts";
import type { ChatServices } from "./services.ts";
import { assistantBody } from "./sessions.ts";
import {
  eventsBetween,
  isSettled,
  isTool,
  type MessagePart,
  shownApproval,
  type TurnEvent,
  TurnFeed,
} from "./turn.ts";

/** A turn of a session, while it lasts and for a while afterwards. */
export class ActiveTurn {
  /** The message that it makes. */
  readonly message: ChatMessage;
  /** What the message has so far. */
  readonly parts: MessagePart[];
  readonly feed = new TurnFeed();
  readonly #stopping = new AbortController();
  readonly #done = Promise.withResolvers<ChatMessage>();
  #isDone = false;
  /** For people, where it was stopped by something other than one of them. */
  stopMessage: string | undefined;

  constructor(message: ChatMessage) {
    this.message = message;
    this.parts = assistantBody(message).parts;
  }

  get isDone(): boolean {
    return this.#isDone;
  }

  /** The message as it was when the turn had ended. Never rejects. */
  get done(): Promise<ChatMessage> {
    return this.#done.promise;
  }

  /** Aborted when somebody stops the turn. */
  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  /** Ends it: the model's answer and its calls. */
  stop(message?: string): void {
    if (!this.stopping.aborted) this.stopMessage = message;
    this.#stopping.abort(message ?? "a person stopped the turn");
  }

  finish(message: ChatMessage): void {
    this.#isDone = true;
    this.#done.resolve(message);
  }
}

/** Turns that have ended and can still be read event by event. */
const MOST_RECENT = 100;
/** How long another process may take to stop a turn, and how often it is looked whether it has. */
const PATIENCE = 10_000;
const LOOKING = 250;
/** How often what another process has stored of a turn is looked at, in milliseconds. */
const FOLLOWING = 1_000;
const PAGE = 500;

/** The last turns of sessions: those of this process, and a way to those of others that share the store. */
export class ActiveTurns {
  readonly #services: Pick<ChatServices, "store" | "approvals" | "logger">;
  readonly #turns = new Map<string, ActiveTurn>();
  /** Turns of other processes that somebody reads here, by their messages. */
  readonly #followed = new Map<string, ActiveTurn>();

  constructor(services: Pick<ChatServices, "store" | "approvals" | "logger">) {
    this.#services = services;
    const { store, logger } = services;
    // Stops the turns of this process that somebody stopped on another node.
    store.follower.follow("stopped turns", {
      isNeeded: () => this.running.length > 0,
      refresh: async () => {
        const running = new Map(this.running.map((turn) => [turn.message.id, turn]));
        for (const id of await store.chat.findStopped([...running.keys()])) running.get(id)?.stop();
      },
      failed: (error) =>
        logger.debug("It could not be looked for turns that were stopped on another node:", error),
    });
  }

  /** Turns under way in this process. */
  get running(): ActiveTurn[] {
    return [...this.#turns.values()].filter(({ isDone }) => !isDone);
  }

  /** Only while it is under way. */
  runningOf(sessionId: string): ActiveTurn | undefined {
    const turn = this.#turns.get(sessionId);
    return turn?.isDone === false ? turn : undefined;
  }

  open(message: ChatMessage): ActiveTurn {
    const turn = new ActiveTurn(message);
    // Taken out and put back, a session is the last of the map.
    this.#turns.delete(message.sessionId);
    this.#turns.set(message.sessionId, turn);
    this.#dropOldest();
    // Of many at once, more are under way than are kept.
    void turn.done.then(() => this.#dropOldest());
    return turn;
  }

  /** The turn under way, also in another process, or else the last one of this process. */
  async watch(sessionId: string): Promise<ActiveTurn | undefined> {
    return this.runningOf(sessionId) ?? (await this.#follow(sessionId)) ?? this.#turns.get(sessionId);
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

  #dropOldest(): void {
    for (const [id, { isDone }] of this.#turns) {
      if (this.#turns.size <= MOST_RECENT) break;
      if (isDone) this.#turns.delete(id);
    }
  }

  /** The process that makes the turn sees the mark in a moment. One that has died is found out, and its turn settled. */
  async #stopElsewhere(sessionId: string): Promise<boolean> {
    const { chat } = this.#services.store;
    const messageId = await chat.requestStop(sessionId);
    if (messageId === undefined) return false;
    for (let waited = 0; waited < PATIENCE; waited += LOOKING) {
      if ((await chat.getMessage(messageId))?.status !== "running") break;
      await wait(LOOKING, undefined, { ref: false });
    }
    return true;
  }

  /**
   * The turn of a session that another process makes, told by what that process has stored. Its feed is to be followed at
   * once: nothing is looked at unless somebody reads. Undefined when there is none.
   */
  async #follow(sessionId: string): Promise<ActiveTurn | undefined> {
    const message = await this.#services.store.chat.getRunning(sessionId);
    if (message === undefined) return undefined;
    const known = this.#followed.get(message.id);
    if (known !== undefined) return known;
    const turn = new ActiveTurn(message);
    this.#followed.set(message.id, turn);
    void this.#keepFollowing(turn);
    return turn;
  }

  /** Never rejects. */
  async #keepFollowing(turn: ActiveTurn): Promise<void> {
    const shown = new Map<string, string>();
    do {
      await wait(FOLLOWING, undefined, { ref: false });
      await this.#look(turn, shown).catch((error) =>
        this.#services.logger.debug("A turn of another process could not be followed:", error),
      );
    } while (!turn.isDone && turn.feed.isFollowed);
    this.#followed.delete(turn.message.id);
  }

  async #look(turn: ActiveTurn, shown: Map<string, string>): Promise<void> {
    const { feed, parts } = turn;
    const { id: messageId, sessionId } = turn.message;
    const message = await this.#services.store.chat.getMessage(messageId);
    if (message !== undefined) {
      const { parts: stored } = assistantBody(message);
      const events = eventsBetween(parts, stored);
      parts.splice(0, parts.length, ...stored);
      for (const event of events) feed.publish(event);
    }
    if (parts.some((part) => isTool(part) && !isSettled(part)) || shown.size > 0) {
      for (const event of await this.#questions(sessionId, shown)) feed.publish(event);
    }
    if (message?.status === "running") return;
    const ended: ChatMessage = message ?? { ...turn.message, status: "interrupted" };
    const { end = { reason: "interrupted" }, usage } = assistantBody(ended);
    turn.finish(ended);
    feed.publish({ type: "end", sessionId, messageId, end, usage });
  }

  /** What is asked in the session, and what became of it. `shown`: the states that readers know, by question. */
  async #questions(sessionId: string, shown: Map<string, string>): Promise<TurnEvent[]> {
    const { approvals } = this.#services;
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
