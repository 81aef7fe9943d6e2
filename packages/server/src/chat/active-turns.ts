import { setTimeout as wait } from "node:timers/promises";
import type { ChatMessage } from "../store/index.ts";
import type { ChatServices } from "./services.ts";
import { assistantBody } from "./sessions.ts";
import { approvalEvent, eventsBetween, isSettled, isTool, type MessagePart, TurnFeed } from "./turn.ts";

/** A turn of a session, while it lasts and for a while afterwards. */
export class ActiveTurn {
  /** The assistant message that the turn writes. */
  readonly message: ChatMessage;
  readonly parts: MessagePart[];
  readonly feed = new TurnFeed();
  readonly #stopping = new AbortController();
  readonly #done = Promise.withResolvers<ChatMessage>();
  isDone = false;
  /** Tells people why the turn was stopped. Set when something other than a person stopped it. */
  stopMessage: string | undefined;

  constructor(message: ChatMessage) {
    this.message = message;
    this.parts = assistantBody(message).parts;
  }

  /** Resolves to the message when the turn has ended. Never rejects. */
  get done(): Promise<ChatMessage> {
    return this.#done.promise;
  }

  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  /** Stops the model's answer and the calls. */
  stop(message?: string): void {
    if (!this.stopping.aborted) this.stopMessage = message;
    this.#stopping.abort(message ?? "a person stopped the turn");
  }

  /** Ends the turn and tells its readers. */
  finish(message: ChatMessage): void {
    this.isDone = true;
    this.#done.resolve(message);
    const { end = { reason: "interrupted" }, usage } = assistantBody(message);
    this.feed.publish({ type: "end", sessionId: message.sessionId, messageId: message.id, end, usage });
  }
}

/** At most this many finished turns are kept, so that their events can still be read. */
const MOST_RECENT = 100;
/** How long another process may take to stop its turn, in milliseconds. */
const STOP_TIMEOUT = 10_000;
/** How often the store is read to see whether that turn has ended, in milliseconds. */
const STOP_POLL_INTERVAL = 250;
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
    store.follower.follow("turns", {
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
    void turn.done.then(() => {
      const finished = [...this.#turns].filter(([, { isDone }]) => isDone);
      for (const [id] of finished.slice(0, -MOST_RECENT)) this.#turns.delete(id);
    });
    return turn;
  }

  /** The running turn of the session, in this process or another, or else its last turn in this process. */
  async watch(sessionId: string): Promise<ActiveTurn | undefined> {
    return this.runningOf(sessionId) ?? (await this.#follow(sessionId)) ?? this.#turns.get(sessionId);
  }

  forget(sessionId: string): void {
    this.#turns.delete(sessionId);
  }

  /**
   * Resolves to true after the turn has ended, to false when no turn was running anywhere. For a turn of
   * another process, stores a request to stop, which that process reads soon, and waits at most
   * `STOP_TIMEOUT`. `recover` settles the turn of a process that has died.
   */
  async stop(sessionId: string): Promise<boolean> {
    const turn = this.runningOf(sessionId);
    turn?.stop();
    if (turn !== undefined) return turn.done.then(() => true);
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
   * The turn of another process, with events made from what that process stored. The caller must follow the
   * turn's feed at once: the store is read only while somebody follows. Undefined when no other process runs
   * a turn.
   */
  async #follow(sessionId: string): Promise<ActiveTurn | undefined> {
    const { store, logger } = this.#services;
    const message = await store.chat.getRunning(sessionId);
    if (message === undefined) return undefined;
    const known = this.#followed.get(message.id);
    if (known !== undefined) return known;
    const turn = new ActiveTurn(message);
    this.#followed.set(message.id, turn);
    const shown = new Map<string, string>();
    const following = store.follower.follow("turn of another process", {
      refresh: async () => {
        await this.#readChanges(turn, shown);
        if (!turn.isDone && turn.feed.isFollowed) return;
        this.#followed.delete(message.id);
        void following.stop();
      },
      failed: (error) => logger.debug("A turn of another process could not be followed:", error),
    });
    return turn;
  }

  /** Publishes what changed in the store. `shown`: the state of each approval that readers were told last. */
  async #readChanges(turn: ActiveTurn, shown: Map<string, string>): Promise<void> {
    const { feed, parts } = turn;
    const message = await this.#services.store.chat.getMessage(turn.message.id);
    if (message !== undefined) {
      const { parts: stored } = assistantBody(message);
      const events = eventsBetween(parts, stored);
      parts.splice(0, parts.length, ...stored);
      for (const event of events) feed.publish(event);
    }
    if (parts.some((part) => isTool(part) && !isSettled(part)) || shown.size > 0)
      await this.#readQuestions(turn, shown);
    if (message?.status !== "running") turn.finish(message ?? { ...turn.message, status: "interrupted" });
  }

  async #readQuestions({ feed, message }: ActiveTurn, shown: Map<string, string>): Promise<void> {
    const { approvals } = this.#services;
    const query = { state: "pending", session: message.sessionId, limit: PAGE } as const;
    const { items: open } = await approvals.list(query);
    const gone = [...shown].filter(
      ([id, state]) => state === "pending" && open.every((one) => one.id !== id),
    );
    const decided = await Promise.all(gone.map(([id]) => approvals.get(id)));
    for (const approval of [...open, ...decided]) {
      if (approval === undefined || shown.get(approval.id) === approval.state) continue;
      shown.set(approval.id, approval.state);
      feed.publish(approvalEvent(approval));
    }
  }
}
