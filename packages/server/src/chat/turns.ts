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
  /** The message that the turn writes. */
  readonly message: ChatMessage;
  readonly parts: MessagePart[];
  readonly feed = new TurnFeed();
  readonly #stopping = new AbortController();
  readonly #done = Promise.withResolvers<ChatMessage>();
  #isDone = false;
  /** For people, when something other than a person stopped the turn. */
  stopMessage: string | undefined;

  constructor(message: ChatMessage) {
    this.message = message;
    this.parts = assistantBody(message).parts;
  }

  get isDone(): boolean {
    return this.#isDone;
  }

  /** The message at the end of the turn. Never rejects. */
  get done(): Promise<ChatMessage> {
    return this.#done.promise;
  }

  /** Aborted when somebody stops the turn. */
  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  /** Stops the model's answer and the calls. */
  stop(message?: string): void {
    if (!this.stopping.aborted) this.stopMessage = message;
    this.#stopping.abort(message ?? "a person stopped the turn");
  }

  finish(message: ChatMessage): void {
    this.#isDone = true;
    this.#done.resolve(message);
  }
}

/** Finished turns that can still be read event by event. */
const MOST_RECENT = 100;
/** How long another process may take to stop a turn, and how often the store is checked for it. */
const STOP_TIMEOUT = 10_000;
const STOP_POLL_INTERVAL = 250;
/** How often the stored turn of another process is read, in milliseconds. */
const POLL_INTERVAL = 1_000;
const PAGE = 500;

/** The latest turns of sessions in this process, and access to turns of other processes on the same store. */
export class ActiveTurns {
  readonly #services: Pick<ChatServices, "store" | "approvals" | "logger">;
  readonly #turns = new Map<string, ActiveTurn>();
  /** Turns of other processes that are read here, by message id. */
  readonly #followed = new Map<string, ActiveTurn>();

  constructor(services: Pick<ChatServices, "store" | "approvals" | "logger">) {
    this.#services = services;
    const { store, logger } = services;
    // Stops turns of this process for which another node stored a stop request.
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

  get running(): ActiveTurn[] {
    return [...this.#turns.values()].filter(({ isDone }) => !isDone);
  }

  /** Undefined when the session has no running turn. */
  runningOf(sessionId: string): ActiveTurn | undefined {
    const turn = this.#turns.get(sessionId);
    return turn?.isDone === false ? turn : undefined;
  }

  open(message: ChatMessage): ActiveTurn {
    const turn = new ActiveTurn(message);
    // Deleting first moves the session to the end of the map.
    this.#turns.delete(message.sessionId);
    this.#turns.set(message.sessionId, turn);
    this.#dropOldest();
    // Running turns are never dropped, so there may be too many when one ends.
    void turn.done.then(() => this.#dropOldest());
    return turn;
  }

  /** The running turn, also of another process, or else the last one of this process. */
  async watch(sessionId: string): Promise<ActiveTurn | undefined> {
    return this.runningOf(sessionId) ?? (await this.#follow(sessionId)) ?? this.#turns.get(sessionId);
  }

  /** Resolves after the turn has ended; false when none was running anywhere. */
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

  /**
   * Stores a stop request, which the process of the turn sees in a moment. If that process has died, the turn is
   * settled here.
   */
  async #stopElsewhere(sessionId: string): Promise<boolean> {
    const { chat } = this.#services.store;
    const messageId = await chat.requestStop(sessionId);
    if (messageId === undefined) return false;
    for (let waited = 0; waited < STOP_TIMEOUT; waited += STOP_POLL_INTERVAL) {
      if ((await chat.getMessage(messageId))?.status !== "running") break;
      await wait(STOP_POLL_INTERVAL, undefined, { ref: false });
    }
    return true;
  }

  /**
   * The turn of another process, with events made from what that process stored. Follow its feed at once: the store is
   * read only while somebody follows. Undefined when there is no such turn.
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
      await wait(POLL_INTERVAL, undefined, { ref: false });
      await this.#readChanges(turn, shown).catch((error) =>
        this.#services.logger.debug("A turn of another process could not be followed:", error),
      );
    } while (!turn.isDone && turn.feed.isFollowed);
    this.#followed.delete(turn.message.id);
  }

  async #readChanges(turn: ActiveTurn, shown: Map<string, string>): Promise<void> {
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

  /** Events for new questions and new answers. `shown`: the states that readers know, by question. */
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
