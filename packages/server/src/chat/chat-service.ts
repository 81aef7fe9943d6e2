import { setTimeout as wait } from "node:timers/promises";
import type { Logger, ToolRegistry } from "@toolrack/core";
import { v7 as uuid } from "uuid";
import { type Grant, GrantWatch, masterGrant } from "../access/index.ts";
import type { ApprovalInbox, CallDesk, CallRecorder } from "../calls/index.ts";
import type {
  ChatMessage,
  ChatSession,
  Following,
  MessagePage,
  MessageQuery,
  Store,
} from "../store/index.ts";
import { CompletionService } from "./completion-service.ts";
import type { StreamOptions } from "./model/completion.ts";
import { type ChatConfig, type ModelEndpoint, type Providers, usualChat } from "./model/providers.ts";
import { type AssistantBody, assistantBody, ChatSessions, TurnWriter, type UserContent } from "./sessions.ts";
import { type ChatExpert, type ChatReach, chatReach, ToolsService } from "./tools.ts";
import { isTool, type ToolPart, type TurnEvent } from "./turn/events.ts";
import { runToolCall } from "./turn/tool-calls.ts";
import { isRepeatable, settleOpenCalls, type Turn, type TurnLimits, TurnLoop } from "./turn/turn-loop.ts";
import { TurnRecovery } from "./turn-recovery.ts";
import { type ActiveTurn, ActiveTurns, LoopMemory, TurnRunner } from "./turns.ts";

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
  /** The same loop for conversations that the client keeps. */
  readonly completions: CompletionService;
  readonly #parts: ChatParts;
  readonly #turns: ActiveTurns;
  readonly #recovery: TurnRecovery;
  readonly #writer: TurnWriter;
  readonly #runner: TurnRunner;
  readonly #memory: LoopMemory;
  readonly #grants: GrantWatch;
  readonly #unsubscribe: () => void;
  #isClosing = false;
  #following: Following | undefined;

  constructor(parts: ChatParts) {
    this.#parts = parts;
    this.providers = parts.providers;
    this.tools = new ToolsService(parts.registry, parts.desk);
    this.#memory = new LoopMemory(parts);
    this.#grants = new GrantWatch(parts.store, parts.logger);
    this.completions = new CompletionService(this, parts, this.#memory, this.#grants);
    this.sessions = new ChatSessions(parts.store.chat);
    this.#recovery = new TurnRecovery(parts);
    this.#writer = new TurnWriter(parts.store.chat, parts.logger);
    this.#runner = new TurnRunner(this, parts.store.chat, this.#writer);
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

  /** The last messages of a session, or those before one. A message that is being made is shown as it is now. */
  async listMessages(sessionId: string, query: MessageQuery = {}): Promise<MessagePage> {
    const page = await this.#parts.store.chat.pageMessages(sessionId, query);
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
   * say for whom does it for the owner of the process. Nobody but its owner says anything in a session: the calls are the
   * owner's. Throws `ChatError`, also while another turn runs, `ModelMissing` and `ProviderError`.
   */
  async handleStream(
    session: ChatSession,
    message: NewMessage,
    grant: ChatReach["grant"] = masterGrant,
  ): Promise<ActiveTurn> {
    requireChatGrant(grant);
    if (this.#isClosing) throw new ChatError("stopping", "The server is stopping and takes no new work.");
    if (session.owner !== grant.id) throw new ChatError("chat_forbidden", notYours);
    const reach = this.reachOf(grant, session.expert);
    const endpoint = await this.providers.resolve(message.model ?? session.model);
    const { store, registry } = this.#parts;
    const body: AssistantBody = { provider: endpoint.provider, model: endpoint.model, parts: [] };
    const begun = await store.chat.beginTurn(session.id, [
      { id: uuid(), role: "user", status: "completed", body: { content: message.content } },
      { id: uuid(), role: "assistant", status: "running", body: { ...body } },
    ]);
    if (begun === undefined) {
      // It may have been removed a moment ago.
      await this.sessions.require({ grant }, session.id);
      throw new ChatError(
        "chat_busy",
        "The last message of this conversation is still being answered. Wait, or stop it.",
      );
    }
    // Whoever says something has seen what came before, a stop for going in circles included.
    registry.resumeSession(session.id);
    const named = await this.sessions.named(session, message.content).catch((error) => {
      // A conversation without a title can be answered all the same.
      this.#writer.complain(error);
      return session;
    });
    const turn = this.#open(begun.at(-1)!, grant);
    turn.feed.publish("turn", {
      type: "turn",
      sessionId: session.id,
      messageId: turn.message.id,
      userMessageId: begun[0]!.id,
    });
    void this.#runner.run(named, turn, reach, endpoint, message.headers);
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

  /** To be called when a token was taken back here: ends what it has under way. */
  dropUnwelcome(): Promise<void> {
    return this.#grants.look();
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
      const turn = this.#open(message, found.grant);
      turn.feed.publish("turn", { type: "turn", sessionId: message.sessionId, messageId: message.id });
      void this.#goOn(turn, found.session, found.grant, found.waiting);
    }
  }

  /** Does the same every so many seconds, for processes that share the store and die. */
  follow(seconds: number): void {
    this.#following ??= this.#parts.store.follower.follow("left turns", {
      refresh: () => this.recover(),
      failed: (error) => this.#parts.logger.debug("Turns of other processes could not be taken up:", error),
      seconds,
    });
  }

  /** Leaves every turn as it is, for the next start to take up. Resolves when all is written. */
  async close(): Promise<void> {
    this.#isClosing = true;
    void this.#following?.stop();
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

  #open(message: ChatMessage, grant: Grant): ActiveTurn {
    const turn = this.#turns.open(message, assistantBody(message).parts);
    void turn.done.then(this.#grants.watch(grant, (why) => turn.stop(why)));
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
      const body = assistantBody(turn.message);
      await this.#writer.save(turn.message, { ...body, parts: turn.parts }, "running");
      const { provider, model } = body;
      const endpoint = await (provider === undefined
        ? this.providers.resolve(model)
        : this.providers.reopen(provider, model));
      await this.#runner.run(session, turn, this.reachOf(grant, session.expert), endpoint);
    } catch (thrown) {
      const end = this.#writer.endOf(thrown, turn);
      if (end.reason !== "interrupted") settleOpenCalls(turn.parts);
      await this.#writer.conclude(turn, assistantBody(turn.message), end);
    }
  }
}

/** Models are paid for: not everybody who may use a tool may use them. Throws `ChatError`. */
export function requireChatGrant({ mayChat }: Pick<Grant, "mayChat">): void {
  if (mayChat) return;
  throw new ChatError(
    "chat_forbidden",
    "This token may not talk to models. An admin can make one that may: toolrack tokens create NAME --chat.",
  );
}

type ChatErrorCode =
  | "chat_session_not_found"
  | "chat_busy"
  | "chat_cancelled"
  | "chat_forbidden"
  | "expert_not_found"
  | "stopping";

/** Something that cannot be done with a conversation. Every surface says so in its own form. */
export class ChatError extends Error {
  readonly code: ChatErrorCode;

  constructor(code: ChatErrorCode, message: string) {
    super(message);
    this.name = "ChatError";
    this.code = code;
  }
}

/** What conversations work with. */
export interface ChatParts {
  readonly registry: ToolRegistry;
  readonly desk: CallDesk;
  readonly recorder: Pick<CallRecorder, "flush">;
  readonly store: Pick<Store, "chat" | "calls" | "tokens" | "follower">;
  readonly approvals: ApprovalInbox;
  readonly providers: Providers;
  readonly config: ChatConfig;
  /** Without it there are no experts. */
  readonly experts?: (nameOrId: string) => ChatExpert | undefined;
  readonly logger: Logger;
  /** How a provider that failed is asked again. */
  readonly retry?: Pick<StreamOptions, "retries" | "backoff">;
}
