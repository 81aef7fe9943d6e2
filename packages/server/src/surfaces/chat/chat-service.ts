import type { Logger, ToolRegistry } from "@toolrack/core";
import { v7 as uuid } from "uuid";
import type { ApprovalInbox } from "../../approvals/approval-inbox.ts";
import type { CallDesk } from "../../calls/call-desk.ts";
import type { ChatMessage, ChatSession } from "../../store/chat/chat-store.ts";
import type { Page, Store } from "../../store/store.ts";
import { ActiveTurn } from "./active-turn.ts";
import { ChatError } from "./chat-error.ts";
import {
  type AssistantBody,
  assistantBody,
  toHistory,
  type UserContent,
  userContent,
} from "./chat-message-body.ts";
import { CompletionService } from "./completion-service.ts";
import { type ChatConfig, usualChat } from "./model/chat-config.ts";
import type { ModelEndpoint } from "./model/endpoint.ts";
import { type ModelMessage, textOf } from "./model/model-message.ts";
import type { Providers } from "./model/providers.ts";
import type { StreamOptions } from "./model/stream-completion.ts";
import { type ChatExpert, type ChatReach, chatReach } from "./tools/reach.ts";
import { ToolsService } from "./tools/tools-service.ts";
import { isTool, type ToolPart } from "./turn/message-part.ts";
import { runToolCall } from "./turn/run-tool-call.ts";
import type { Turn, TurnLimits } from "./turn/turn.ts";
import type { TurnEnd, TurnEvent } from "./turn/turn-event.ts";
import { TurnLoop } from "./turn/turn-loop.ts";
import { TurnRecovery } from "./turn-recovery.ts";

export interface ChatParts {
  readonly registry: ToolRegistry;
  readonly desk: CallDesk;
  readonly store: Pick<Store, "chat" | "calls" | "tokens">;
  readonly approvals: ApprovalInbox;
  readonly providers: Providers;
  readonly config: ChatConfig;
  /** Without it there are no experts. */
  readonly experts?: (nameOrId: string) => ChatExpert | undefined;
  readonly logger: Logger;
  /** How a provider that failed is asked again. */
  readonly retry?: Pick<StreamOptions, "retries" | "backoff">;
}

export interface NewSession {
  readonly title?: string;
  readonly model?: string;
  readonly system?: string;
}

export interface NewMessage {
  readonly content: UserContent;
  /** For this turn only. */
  readonly model?: string;
}

/** Turns that have ended and can still be read event by event. */
const MOST_RECENT = 200;
const TITLE_LENGTH = 80;

/** Conversations between people and models that use the rack's tools, kept in the store. */
export class ChatService {
  readonly tools: ToolsService;
  readonly providers: Providers;
  /** The same loop for conversations that the client keeps. */
  readonly completions: CompletionService;
  readonly #parts: ChatParts;
  readonly #turns = new Map<string, ActiveTurn>();
  readonly #recovery: TurnRecovery;
  #isClosing = false;
  #following: NodeJS.Timeout | undefined;

  constructor(parts: ChatParts) {
    this.#parts = parts;
    this.providers = parts.providers;
    this.tools = new ToolsService(parts.registry, parts.desk);
    this.completions = new CompletionService(this, parts);
    this.#recovery = new TurnRecovery(parts);
  }

  get limits(): TurnLimits {
    const { maxRounds, maxSeconds, maxTokens } = { ...usualChat, ...this.#parts.config };
    return { maxRounds, maxSeconds, maxTokens };
  }

  /** Tokens that the definitions of tools may take. */
  get toolBudget(): number {
    return this.#parts.config.toolBudget ?? usualChat.toolBudget;
  }

  /** Turns under way. */
  get running(): number {
    return [...this.#turns.values()].filter(({ isDone }) => !isDone).length;
  }

  contextTokens(endpoint: ModelEndpoint): number {
    return endpoint.contextTokens ?? this.#parts.config.contextTokens ?? usualChat.contextTokens;
  }

  createSession({ grant, expert }: ChatReach, wanted: NewSession = {}): Promise<ChatSession> {
    const { title = "", model = "", system } = wanted;
    return this.#parts.store.chat.addSession({
      id: uuid(),
      owner: grant.id,
      title,
      model,
      ...(expert === undefined ? {} : { expert: expert.name }),
      state: system === undefined ? {} : { system },
    });
  }

  /** Who is no admin has their own. Throws `ChatError`, in the same words for one of others and one that never was. */
  async requireSession({ grant }: Pick<ChatReach, "grant">, id: string): Promise<ChatSession> {
    const session = await this.#parts.store.chat.getSession(id);
    if (session !== undefined && (grant.admin || session.owner === grant.id)) return session;
    throw new ChatError("chat_session_not_found", `This token knows no conversation "${id}".`);
  }

  listSessions(
    { grant }: Pick<ChatReach, "grant">,
    query: { limit?: number; cursor?: string },
  ): Promise<Page<ChatSession>> {
    return this.#parts.store.chat.listSessions({ ...query, ...(grant.admin ? {} : { owner: grant.id }) });
  }

  async updateSession(
    id: string,
    changes: { title?: string; model?: string },
  ): Promise<ChatSession | undefined> {
    return this.#parts.store.chat.updateSession(id, changes);
  }

  /** A turn of it is stopped first. */
  async removeSession(id: string): Promise<void> {
    await this.stop(id);
    this.#turns.delete(id);
    await this.#parts.store.chat.removeSession(id);
  }

  /** A message that is being made is shown as it is now. */
  async listMessages(sessionId: string): Promise<ChatMessage[]> {
    const messages = await this.#parts.store.chat.listMessages(sessionId);
    const turn = this.turnOf(sessionId);
    if (turn === undefined || turn.isDone) return messages;
    return messages.map((message) => (turn.message.id === message.id ? this.currentMessage(turn) : message));
  }

  /** The last turn of a session, if it runs or has ended a moment ago in this process. */
  turnOf(sessionId: string): ActiveTurn | undefined {
    return this.#turns.get(sessionId);
  }

  /** The message that a turn makes, as it is now. */
  currentMessage({ message, parts }: ActiveTurn): ChatMessage {
    return { ...message, body: { ...message.body, parts } };
  }

  /** The reach of a session: that of its owner, as the expert that it was begun with. Throws `ChatError`. */
  reachOf(grant: ChatReach["grant"], expert: string | undefined): ChatReach {
    if (expert === undefined) return chatReach(grant);
    const found = this.#parts.experts?.(expert);
    if (found !== undefined) return chatReach(grant, found);
    throw new ChatError(
      "expert_not_found",
      `There is no expert "${expert}" any more. Begin another conversation.`,
    );
  }

  /**
   * Takes what a person says and has it answered: asks the model, makes the calls that it asks for, and goes on until it
   * has said all. Resolves as soon as the message is safe and the turn has begun; it goes on whoever listens. Throws
   * `ChatError` while another turn runs, `ModelMissing` and `ProviderError`.
   */
  async handleStream(
    session: ChatSession,
    grant: ChatReach["grant"],
    message: NewMessage,
  ): Promise<ActiveTurn> {
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
    const titled =
      session.title === ""
        ? await store.chat.updateSession(session.id, { title: titleOf(message.content) })
        : session;
    const turn = this.#open(begun.at(-1)!);
    turn.feed.publish("turn", {
      sessionId: session.id,
      messageId: turn.message.id,
      userMessageId: begun[0]!.id,
    });
    void this.#answer(titled ?? session, turn, reach, endpoint);
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

  /** Ends the turn of a session, its model's answer and its calls. Says whether there was one, once it has ended. */
  async stop(sessionId: string): Promise<boolean> {
    const turn = this.#turns.get(sessionId);
    if (turn === undefined || turn.isDone) return false;
    turn.stopping.abort("a person stopped the turn");
    await turn.done;
    return true;
  }

  /** Takes up the turns that processes left which have ended: those that wait for a person go on, others are settled. */
  async recover(): Promise<void> {
    const { store } = this.#parts;
    for (const message of await store.chat.claimOrphans()) {
      const found = await this.#recovery.examine(message);
      if (found.kind === "settled") {
        await this.#save(message, assistantBody(message), "interrupted");
        continue;
      }
      const turn = this.#open(message, assistantBody(message).parts);
      turn.feed.publish("turn", { sessionId: message.sessionId, messageId: message.id });
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
    this.completions.close();
    const turns = [...this.#turns.values()];
    for (const { leaving } of turns) leaving.abort(new Error("the server is stopping"));
    await Promise.all(turns.map(({ done }) => done));
  }

  #open(message: ChatMessage, parts = assistantBody(message).parts): ActiveTurn {
    const turn = new ActiveTurn(message, parts);
    // Taken out and put back, a session is the last of the map.
    this.#turns.delete(message.sessionId);
    this.#turns.set(message.sessionId, turn);
    for (const [id, { isDone }] of this.#turns) {
      if (this.#turns.size <= MOST_RECENT) break;
      if (isDone) this.#turns.delete(id);
    }
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
      await this.#save(turn.message, { ...assistantBody(turn.message), parts: turn.parts }, "running");
      const { model } = assistantBody(turn.message);
      const endpoint = await this.providers.resolve(session.model || model);
      await this.#answer(session, turn, this.reachOf(grant, session.expert), endpoint);
    } catch (thrown) {
      await this.#conclude(turn, session, assistantBody(turn.message), this.#endOf(thrown, turn));
    }
  }

  /** Never rejects. */
  async #answer(
    session: ChatSession,
    active: ActiveTurn,
    reach: ChatReach,
    endpoint: ModelEndpoint,
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
        emit: (event) => feed.publish(event.type, event),
        save: () => this.#save(message, body, "running"),
      });
      end = await loop.run();
      body = { ...body, usage: loop.usage };
      changes = {
        ...(offered.chosen === undefined ? {} : { tools: offered.chosen }),
        ...(loop.compacted.length === 0 ? {} : { compacted: loop.compacted }),
      };
    } catch (thrown) {
      end = this.#endOf(thrown, active);
    }
    if (Object.keys(changes).length > 0) {
      const state = { ...session.state, ...changes };
      await store.chat.updateSession(session.id, { state }).catch((error) => this.#complain(error));
    }
    await this.#conclude(active, session, body, end);
  }

  async #conclude(
    active: ActiveTurn,
    session: ChatSession,
    body: AssistantBody,
    end: TurnEnd,
  ): Promise<void> {
    const { message, parts, feed } = active;
    const isLeft = end.reason === "interrupted";
    const whole: AssistantBody = { ...body, parts, ...(isLeft ? {} : { end }) };
    const status = isLeft ? "running" : statusOf(end);
    await this.#save(message, whole, status).catch((error) => this.#complain(error));
    active.finish({ ...message, status, updatedAt: Date.now(), body: { ...whole } });
    feed.publish("end", {
      type: "end",
      sessionId: session.id,
      messageId: message.id,
      end,
      usage: body.usage,
    });
  }

  #save({ id }: ChatMessage, body: AssistantBody, status: ChatMessage["status"]): Promise<void> {
    return this.#parts.store.chat.saveMessage(id, { status, body: { ...body } });
  }

  #endOf(thrown: unknown, { stopping, leaving }: ActiveTurn): TurnEnd {
    if (stopping.signal.aborted) return { reason: "stopped" };
    if (leaving.signal.aborted) return { reason: "interrupted" };
    this.#complain(thrown);
    const isForPeople = thrown instanceof Error && "code" in thrown && thrown.name !== "Error";
    const message = isForPeople
      ? thrown.message
      : "The server failed to answer this message. Its log says why.";
    return { reason: "error", message, code: "internal_error" };
  }

  #complain(thrown: unknown): void {
    this.#parts.logger.error("A turn of a conversation failed:", thrown);
  }
}

function statusOf({ reason }: TurnEnd): ChatMessage["status"] {
  if (reason === "error" || reason === "stopped") return reason;
  return "completed";
}

function instructions({ state }: ChatSession, { expert }: ChatReach): ModelMessage[] {
  const said = [expert?.instructions, state.system].filter((text) => text !== undefined && text !== "");
  return said.length === 0 ? [] : [{ role: "system", content: said.join("\n\n") }];
}

/** What a conversation is about is what it began with: the choice of tools must not change with every message. */
function firstWords(messages: readonly ChatMessage[]): string {
  const first = messages.find(({ role }) => role === "user");
  return first === undefined ? "" : textOf({ content: userContent(first) });
}

function callIdsOf(messages: readonly ChatMessage[]): Map<string, string> {
  const answers = messages.filter(({ role }) => role === "assistant");
  const calls = answers.flatMap((message) => assistantBody(message).parts.filter(isTool));
  return new Map(calls.map(({ id, callId }) => [id, callId]));
}

function titleOf(content: UserContent): string {
  const text = textOf({ content }).trim().replaceAll(/\s+/g, " ");
  return text.length <= TITLE_LENGTH ? text : `${[...text].slice(0, TITLE_LENGTH - 1).join("")}…`;
}
