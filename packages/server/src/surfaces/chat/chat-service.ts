import { setTimeout as wait } from "node:timers/promises";
import { v7 as uuid } from "uuid";
import { masterGrant } from "../../auth/grant.ts";
import type { ChatMessage, ChatSession } from "../../store/chat/chat-store.ts";
import type { ActiveTurn } from "./active-turn.ts";
import { ActiveTurns } from "./active-turns.ts";
import { ChatError } from "./chat-error.ts";
import { type AssistantBody, assistantBody, toHistory, type UserContent } from "./chat-message-body.ts";
import type { ChatParts } from "./chat-parts.ts";
import { ChatSessions } from "./chat-sessions.ts";
import { CompletionService } from "./completion-service.ts";
import { LoopMemory } from "./loop-memory.ts";
import { usualChat } from "./model/chat-config.ts";
import type { ModelEndpoint } from "./model/endpoint.ts";
import type { Providers } from "./model/providers.ts";
import { requireChatGrant } from "./require-chat-grant.ts";
import { callIdsOf, firstWords, instructions } from "./session-history.ts";
import { type ChatReach, chatReach } from "./tools/reach.ts";
import { ToolsService } from "./tools/tools-service.ts";
import { isRepeatable } from "./turn/is-repeatable.ts";
import { isTool, type ToolPart } from "./turn/message-part.ts";
import { runToolCall } from "./turn/run-tool-call.ts";
import type { Turn, TurnLimits } from "./turn/turn.ts";
import type { TurnEnd, TurnEvent } from "./turn/turn-event.ts";
import { settleOpenCalls, TurnLoop } from "./turn/turn-loop.ts";
import { TurnRecovery } from "./turn-recovery.ts";
import { TurnWriter } from "./turn-writer.ts";

export interface NewMessage {
  readonly content: UserContent;
  /** For this turn only. */
  readonly model?: string;
  /** What carries a trace on, to the calls and to the provider: `traceparent`, `tracestate`, `baggage`. */
  readonly headers?: Turn["headers"];
}

/** How long turns may take to be written when the server ends. */
const PATIENCE = 10_000;

/** Conversations between people and models that use the rack's tools, kept in the store. */
export class ChatService {
  readonly tools: ToolsService;
  readonly providers: Providers;
  readonly sessions: ChatSessions;
  /** The same loop for conversations that the client keeps. */
  readonly completions: CompletionService;
  readonly #parts: ChatParts;
  readonly #turns: ActiveTurns;
  readonly #recovery: TurnRecovery;
  readonly #writer: TurnWriter;
  readonly #memory: LoopMemory;
  readonly #unsubscribe: () => void;
  #isClosing = false;
  #following: NodeJS.Timeout | undefined;

  constructor(parts: ChatParts) {
    this.#parts = parts;
    this.providers = parts.providers;
    this.tools = new ToolsService(parts.registry, parts.desk);
    this.#memory = new LoopMemory(parts);
    this.completions = new CompletionService(this, parts, this.#memory);
    this.sessions = new ChatSessions(parts.store.chat);
    this.#recovery = new TurnRecovery(parts);
    this.#writer = new TurnWriter(parts.store.chat, parts.logger);
    this.#turns = new ActiveTurns(parts);
    this.#unsubscribe = parts.approvals.addRepeater((callId) => this.#isRepeated(callId));
  }

  get limits(): TurnLimits {
    const { maxRounds, maxSeconds, maxTokens, maxAnswer } = { ...usualChat, ...this.#parts.config };
    return { maxRounds, maxSeconds, maxTokens, maxAnswer };
  }

  /** Tokens that the definitions of tools may take. */
  get toolBudget(): number {
    return this.#parts.config.toolBudget ?? usualChat.toolBudget;
  }

  /** Turns under way in this process. */
  get running(): number {
    return this.#turns.running.length;
  }

  contextTokens(endpoint: ModelEndpoint): number {
    return endpoint.contextTokens ?? this.#parts.config.contextTokens ?? usualChat.contextTokens;
  }

  /** A turn of it is stopped first. */
  async removeSession(id: string): Promise<void> {
    await this.stop(id);
    this.#turns.forget(id);
    await this.#parts.store.chat.removeSession(id);
  }

  /** A message that is being made is shown as it is now. */
  async listMessages(sessionId: string): Promise<ChatMessage[]> {
    const messages = await this.#parts.store.chat.listMessages(sessionId);
    const turn = this.#turns.runningOf(sessionId);
    if (turn === undefined) return messages;
    return messages.map((message) => (turn.message.id === message.id ? this.currentMessage(turn) : message));
  }

  /** The last turn of a session, if it runs or has ended a moment ago in this process. */
  turnOf(sessionId: string): ActiveTurn | undefined {
    return this.#turns.of(sessionId);
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
  reachOf(grant: ChatReach["grant"], expert: string | undefined): ChatReach {
    if (expert === undefined) return chatReach(grant);
    const found = this.#parts.experts?.(expert);
    const isOwn = found !== undefined && [found.name, found.id].some((name) => grant.mayUseExpert(name));
    if (isOwn) return chatReach(grant, found);
    throw new ChatError(
      "expert_not_found",
      `This token knows no expert "${expert}" any more. Begin another conversation.`,
    );
  }

  /**
   * Takes what a person says and has it answered: asks the model, makes the calls that it asks for, and goes on until it
   * has said all. Resolves as soon as the message is safe and the turn has begun; it goes on whoever listens. Who does not
   * say for whom does it for the owner of the process. Throws `ChatError` while another turn runs, `ModelMissing` and `ProviderError`.
   */
  async handleStream(
    session: ChatSession,
    message: NewMessage,
    grant: ChatReach["grant"] = masterGrant,
  ): Promise<ActiveTurn> {
    requireChatGrant(grant);
    if (this.#isClosing) throw new ChatError("stopping", "The server is stopping and takes no new work.");
    const reach = this.reachOf(grant, session.expert);
    const endpoint = await this.providers.resolve(message.model ?? session.model);
    const { store, registry } = this.#parts;
    const body: AssistantBody = { model: endpoint.model, parts: [] };
    const begun = await store.chat.beginTurn(session.id, [
      { id: uuid(), role: "user", status: "completed", body: { content: message.content } },
      { id: uuid(), role: "assistant", status: "running", body: { ...body } },
    ]);
    if (begun === undefined) {
      throw new ChatError(
        "chat_busy",
        "The last message of this conversation is still being answered. Wait, or stop it.",
      );
    }
    // Whoever says something has seen what came before, a stop for going in circles included.
    registry.resumeSession(session.id);
    const named = await this.sessions.named(session, message.content);
    const turn = this.#open(begun.at(-1)!);
    turn.feed.publish("turn", {
      type: "turn",
      sessionId: session.id,
      messageId: turn.message.id,
      userMessageId: begun[0]!.id,
    });
    void this.#answer(named, turn, reach, endpoint, message.headers);
    return turn;
  }

  /** Makes one call that a model asked for. */
  handleRunToolCall(part: ToolPart, turn: Turn, signal: AbortSignal): ReturnType<typeof runToolCall> {
    return runToolCall(part, turn, this.tools, signal);
  }

  /** Asks, calls, and asks again; see `TurnLoop`. */
  loop(turn: Turn): TurnLoop {
    const { approvals, retry } = this.#parts;
    return new TurnLoop(turn, {
      tools: this.tools,
      approvals,
      runCall: (part, current, _tools, signal) => this.handleRunToolCall(part, current, signal),
      ...(retry === undefined ? {} : { retry }),
    });
  }

  /**
   * Ends the turn of a session, its model's answer and its calls, in whichever process it is under way. Says whether there
   * was one, once it has ended.
   */
  stop(sessionId: string): Promise<boolean> {
    return this.#turns.stop(sessionId);
  }

  /** Takes up the turns that processes left which have ended: those that wait for a person go on, others are settled. */
  async recover(): Promise<void> {
    if (this.#isClosing) return;
    for (const message of await this.#parts.store.chat.claimOrphans()) {
      const found = await this.#recovery.examine(message);
      if (found.kind === "settled") {
        const body = { ...assistantBody(message), end: { reason: "interrupted" } } as const;
        await this.#writer.save(message, body, "interrupted");
        continue;
      }
      const turn = this.#open(message, assistantBody(message).parts);
      turn.feed.publish("turn", { type: "turn", sessionId: message.sessionId, messageId: message.id });
      void this.#goOn(turn, found.session, found.grant, found.waiting);
    }
  }

  /** Does the same every so many milliseconds, for processes that share the store and die. */
  follow(interval: number): void {
    this.#following ??= setInterval(() => {
      this.recover().catch((error) =>
        this.#parts.logger.debug("Turns of other processes could not be taken up:", error),
      );
    }, interval).unref();
  }

  /** Leaves every turn as it is, for the next start to take up. Resolves when all is written. */
  async close(): Promise<void> {
    this.#isClosing = true;
    clearInterval(this.#following);
    this.#unsubscribe();
    this.completions.close();
    const turns = this.#turns.running;
    for (const { leaving } of turns) leaving.abort(new Error("the server is stopping"));
    const written = Promise.all(turns.map(({ done }) => done));
    await Promise.race([written, wait(PATIENCE, undefined, { ref: false })]);
  }

  /** Whether a call is made again after a restart, when it waits for consent to what it calls; see `TurnRecovery`. */
  #isRepeated(callId: string): boolean {
    const calls = this.#turns.running.flatMap(({ parts }) => parts.filter(isTool));
    const call = calls.find((part) => part.callId === callId);
    return call !== undefined && isRepeatable(this.#parts.registry.get(call.name));
  }

  #open(message: ChatMessage, parts = assistantBody(message).parts): ActiveTurn {
    const turn = this.#turns.open(message, parts);
    // It was begun while the server began to stop.
    if (this.#isClosing) turn.leaving.abort(new Error("the server is stopping"));
    return turn;
  }

  /** Goes on with a turn that waits for people, once they have answered. */
  async #goOn(
    turn: ActiveTurn,
    session: ChatSession,
    grant: ChatReach["grant"],
    waiting: Parameters<TurnRecovery["decided"]>[1],
  ): Promise<void> {
    try {
      const emit = (event: TurnEvent) => turn.feed.publish(event.type, event);
      await this.#recovery.decided(turn, waiting, emit);
      const callIds = turn.parts.filter(isTool).map(({ callId }) => callId);
      await this.#memory.restore(session.id, grant.id, callIds);
      const { model } = assistantBody(turn.message);
      await this.#writer.save(turn.message, { model, parts: turn.parts }, "running");
      const endpoint = await this.providers.resolve(session.model || model);
      await this.#answer(session, turn, this.reachOf(grant, session.expert), endpoint);
    } catch (thrown) {
      const end = this.#writer.endOf(thrown, turn);
      if (end.reason !== "interrupted") settleOpenCalls(turn.parts);
      await this.#writer.conclude(turn, assistantBody(turn.message), end);
    }
  }

  /** Never rejects. */
  async #answer(
    session: ChatSession,
    active: ActiveTurn,
    reach: ChatReach,
    endpoint: ModelEndpoint,
    headers?: Turn["headers"],
  ): Promise<void> {
    const { message, parts, feed } = active;
    const { store } = this.#parts;
    let body: AssistantBody = { model: endpoint.model, parts };
    let end: TurnEnd;
    let changes = {};
    try {
      const earlier = (await store.chat.listMessages(session.id)).filter(
        ({ position }) => position < message.position,
      );
      const offered = await this.tools.getTools(reach, {
        budget: this.toolBudget,
        query: firstWords(earlier),
        chosen: session.state.tools,
      });
      const known = callIdsOf(earlier);
      const loop = this.loop({
        id: message.id,
        sessionID: session.id,
        reach,
        endpoint,
        history: [...instructions(session, reach), ...toHistory(earlier, endpoint.images)],
        body: {},
        offered,
        clientTools: [],
        parts,
        limits: this.limits,
        contextTokens: this.contextTokens(endpoint),
        compacted: session.state.compacted ?? [],
        callIdOf: (id) => known.get(id),
        signal: active.stopping.signal,
        leaving: active.leaving.signal,
        ...(headers === undefined ? {} : { headers }),
        emit: (event) => feed.publish(event.type, event),
        save: () => this.#writer.save(message, body, "running"),
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
    if (Object.keys(changes).length > 0) {
      const state = { ...session.state, ...changes };
      await this.sessions.update(session, { state }).catch((error) => this.#writer.complain(error));
    }
    await this.#writer.conclude(active, body, end);
  }
}
