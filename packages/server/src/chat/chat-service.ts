import { setTimeout as wait } from "node:timers/promises";
import { v7 as uuid } from "uuid";
import { type Grant, GrantWatch, masterGrant } from "../access/index.ts";
import type { Reach } from "../http/wire/index.ts";
import type { ChatMessage, ChatSession, Following, MessagePage, MessageQuery } from "../store/index.ts";
import { Completions } from "./completions.ts";
import { TurnEngine } from "./engine.ts";
import { LoopMemory } from "./loop-memory.ts";
import type { Providers } from "./providers.ts";
import { ChatError, type ChatServices, requireChatGrant } from "./services.ts";
import { SessionRunner } from "./session-runner.ts";
import { type AssistantBody, assistantBody, ChatSessions, type UserContent } from "./sessions.ts";
import { chatReach, type ToolsService } from "./tools.ts";
import { isTool, type OpenTurn, type ToolPart, type Turn, type TurnLimits } from "./turn.ts";
import { isRepeatable, TurnRecovery, type WaitingCall } from "./turn-recovery.ts";
import { type ActiveTurn, ActiveTurns } from "./turns.ts";

export interface NewMessage {
  readonly content: UserContent;
  /** For this turn only. */
  readonly model?: string;
  /** What carries a trace on, to the calls and to the provider: `traceparent`, `tracestate`, `baggage`. */
  readonly headers?: Turn["headers"];
}

const notYours =
  "This conversation belongs to another token, and only that one says something in it. An admin may read, stop and delete it. Begin a conversation of your own.";

/** How long turns may take to be written when the server ends. */
const PATIENCE = 10_000;

/** Conversations between people and models that use the rack's tools, kept in the store. */
export class ChatService {
  readonly tools: ToolsService;
  readonly providers: Providers;
  readonly sessions: ChatSessions;
  /** The same engine for conversations that the client keeps. */
  readonly completions: Completions;
  readonly #services: ChatServices;
  readonly #engine: TurnEngine;
  readonly #turns: ActiveTurns;
  readonly #recovery: TurnRecovery;
  readonly #runner: SessionRunner;
  readonly #memory: LoopMemory;
  readonly #grants: GrantWatch;
  readonly #unsubscribe: () => void;
  #following: Following | undefined;

  constructor(services: ChatServices) {
    this.#services = services;
    this.#engine = new TurnEngine(services);
    this.tools = this.#engine.tools;
    this.providers = services.providers;
    this.sessions = new ChatSessions(services.store.chat);
    this.#memory = new LoopMemory(services);
    this.#grants = new GrantWatch(services.store, services.logger);
    this.completions = new Completions(this.#engine, services, this.#memory, this.#grants);
    this.#runner = new SessionRunner(this.#engine, services);
    this.#turns = new ActiveTurns(services);
    this.#recovery = new TurnRecovery(services, this.#engine.leaving);
    this.#unsubscribe = services.approvals.addRepeater((callId) => this.#isRepeated(callId));
  }

  get limits(): TurnLimits {
    return this.#engine.limits;
  }

  /** Tokens that the definitions of tools may take. */
  get toolBudget(): number {
    return this.#engine.toolBudget;
  }

  /** Turns under way in this process. */
  get running(): number {
    return this.#turns.running.length;
  }

  /** A turn of it is stopped first. */
  async removeSession(id: string): Promise<void> {
    await this.stop(id);
    this.#turns.forget(id);
    await this.#services.store.chat.removeSession(id);
  }

  /** The last messages of a session, or those before one. A message that is being made is shown as it is now. */
  async listMessages(sessionId: string, query: MessageQuery = {}): Promise<MessagePage> {
    const page = await this.#services.store.chat.pageMessages(sessionId, query);
    const turn = this.#turns.runningOf(sessionId);
    if (turn === undefined) return page;
    const items = page.items.map((message) =>
      turn.message.id === message.id ? this.currentMessage(turn) : message,
    );
    return { ...page, items };
  }

  /**
   * The turn of a session for somebody who reads what happens: the one under way, also in another process, or else the
   * last one of this process. Of a turn elsewhere is told what is stored, as soon as its feed is followed.
   */
  watch(sessionId: string): Promise<ActiveTurn | undefined> {
    return this.#turns.watch(sessionId);
  }

  /** The message that a turn makes, as it is now. */
  currentMessage({ message, parts }: ActiveTurn): ChatMessage {
    return { ...message, body: { ...message.body, parts } };
  }

  /** The reach of a session: that of its owner, as the expert that it was begun with. Throws `ChatError`. */
  reachOf(grant: Grant, expert: string | undefined): Reach {
    if (expert === undefined) return chatReach(grant);
    const found = this.#services.experts?.(expert);
    const isOwn = found !== undefined && [found.name, found.id].some((name) => grant.mayUseExpert(name));
    if (isOwn) return chatReach(grant, found);
    const message = `This token knows no expert "${expert}" any more. Begin another conversation.`;
    throw new ChatError("expert_not_found", message);
  }

  /**
   * Takes what a person says and has it answered: asks the model, makes the calls that it asks for, and goes on until it
   * has said all. Resolves as soon as the message is safe and the turn has begun; it goes on whoever listens. Without a
   * grant it is done for the owner of the process. Nobody but its owner says anything in a session: the calls are the
   * owner's. Throws `ChatError`, also while another turn runs, `ModelMissing` and `ProviderError`.
   */
  async handleStream(
    session: ChatSession,
    { content, model, headers }: NewMessage,
    grant: Grant = masterGrant,
  ): Promise<ActiveTurn> {
    requireChatGrant(grant);
    if (this.#engine.leaving.aborted)
      throw new ChatError("stopping", "The server is stopping and takes no new work.");
    if (session.owner !== grant.id) throw new ChatError("chat_forbidden", notYours);
    const reach = this.reachOf(grant, session.expert);
    const endpoint = await this.providers.resolve(model ?? session.model);
    const { store, registry } = this.#services;
    const body: AssistantBody = { provider: endpoint.provider, model: endpoint.model, parts: [] };
    const begun = await store.chat.beginTurn(session.id, [
      { id: uuid(), role: "user", status: "completed", body: { content } },
      { id: uuid(), role: "assistant", status: "running", body: { ...body } },
    ]);
    if (begun === undefined) {
      // It may have been removed a moment ago.
      await this.sessions.require({ grant }, session.id);
      const message = "The last message of this conversation is still being answered. Wait, or stop it.";
      throw new ChatError("chat_busy", message);
    }
    // Whoever says something has seen what came before, a stop for going in circles included.
    registry.resumeSession(session.id);
    const named = await this.sessions.named(session, content).catch((error) => {
      // A conversation without a title can be answered all the same.
      this.#runner.complain(error);
      return session;
    });
    const turn = this.#open(begun.at(-1)!, grant, begun[0]!.id);
    void this.#runner.run(named, turn, reach, endpoint, headers);
    return turn;
  }

  /** Makes one call that a model asked for. */
  handleRunToolCall(part: ToolPart, turn: OpenTurn, signal: AbortSignal): ReturnType<TurnEngine["makeCall"]> {
    return this.#engine.makeCall(part, turn, signal);
  }

  /**
   * Ends the turn of a session, its model's answer and its calls, in whichever process it is under way. Says whether there
   * was one, once it has ended.
   */
  stop(sessionId: string): Promise<boolean> {
    return this.#turns.stop(sessionId);
  }

  /** To be called when a token was taken back here: ends what it has under way. */
  endWithdrawn(): Promise<void> {
    return this.#grants.look();
  }

  /** Takes up the turns that processes left which have ended: those that wait for a person go on, others are settled. */
  async recover(): Promise<void> {
    if (this.#engine.leaving.aborted) return;
    for (const message of await this.#services.store.chat.claimOrphans()) {
      const found = await this.#recovery.examine(message);
      if (found === "settled") {
        const body = { ...assistantBody(message), end: { reason: "interrupted" } } as const;
        await this.#runner.save(message, body, "interrupted");
        continue;
      }
      const { session, grant, waiting } = found;
      void this.#goOn(this.#open(message, grant), session, grant, waiting);
    }
  }

  /** Does the same every so many seconds, for processes that share the store and die. */
  follow(seconds: number): void {
    const { store, logger } = this.#services;
    this.#following ??= store.follower.follow("left turns", {
      refresh: () => this.recover(),
      failed: (error) => logger.debug("Turns of other processes could not be taken up:", error),
      seconds,
    });
  }

  /** Leaves every turn as it is, for the next start to take up. Resolves when all is written. */
  async close(): Promise<void> {
    void this.#following?.stop();
    this.#unsubscribe();
    this.#engine.close();
    const written = Promise.all(this.#turns.running.map(({ done }) => done));
    await Promise.race([written, wait(PATIENCE, undefined, { ref: false })]);
  }

  /** Whether a call is made again after a restart, when it waits for consent to what it calls; see `TurnRecovery`. */
  #isRepeated(callId: string): boolean {
    const calls = this.#turns.running.flatMap(({ parts }) => parts.filter(isTool));
    const call = calls.find((part) => part.callId === callId);
    return call !== undefined && isRepeatable(this.#services.registry.get(call.name));
  }

  /** `userMessageId`: the message that is answered, unless the turn is taken up again. */
  #open(message: ChatMessage, grant: Grant, userMessageId?: string): ActiveTurn {
    const turn = this.#turns.open(message);
    void turn.done.then(this.#grants.watch(grant, (why) => turn.stop(why)));
    const { sessionId, id: messageId } = message;
    turn.feed.publish({ type: "turn", sessionId, messageId, ...(userMessageId && { userMessageId }) });
    return turn;
  }

  /** Goes on with a turn that waits for people, once they have answered. */
  async #goOn(
    turn: ActiveTurn,
    session: ChatSession,
    grant: Grant,
    waiting: readonly WaitingCall[],
  ): Promise<void> {
    const body = assistantBody(turn.message);
    try {
      await this.#recovery.decided(turn, waiting);
      const callIds = turn.parts.filter(isTool).map(({ callId }) => callId);
      await this.#memory.restore(session.id, grant.id, callIds);
      await this.#runner.save(turn.message, { ...body, parts: turn.parts }, "running");
      const { provider, model } = body;
      const endpoint = await (provider === undefined
        ? this.providers.resolve(model)
        : this.providers.reopen(provider, model));
      await this.#runner.run(session, turn, this.reachOf(grant, session.expert), endpoint);
    } catch (thrown) {
      await this.#runner.conclude(turn, body, this.#runner.endOf(thrown, turn));
    }
  }
}
