import { setTimeout as wait } from "node:timers/promises";
import type { ChatMessage } from "../../store/chat/chat-store.ts";
import { ActiveTurn } from "./active-turn.ts";
import type { ChatParts } from "./chat-parts.ts";
import { StopMarks } from "./stop-marks.ts";
import type { MessagePart } from "./turn/message-part.ts";
import { TurnFollowers } from "./turn-followers.ts";

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
    this.#marks = new StopMarks(parts.store.chat, parts.logger);
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
