import { setTimeout as wait } from "node:timers/promises";
import type { ToolState } from "@toolrack/core";
import { v7 as uuid } from "uuid";
import { type Grant, GrantWatch, masterGrant } from "../access/index.ts";
import { CallRefused } from "../calls/index.ts";
import type { Reach } from "../http/wire/index.ts";
import type {
  ChatMessage,
  ChatSession,
  Following,
  MessagePage,
  MessageQuery,
  NewChatMessage,
} from "../store/index.ts";
import { type ActiveTurn, ActiveTurns } from "./active-turns.ts";
import type { CompletionRequest } from "./completion-request.ts";
import { type Completion, type CompletionOptions, complete } from "./completions.ts";
import { TurnEngine, usageOf, type Verdict } from "./engine.ts";
import { ChatError } from "./errors.ts";
import type { ModelEndpoint, ModelUsage } from "./model.ts";
import * as notices from "./model-messages.ts";
import type { OpenTurn } from "./model-request.ts";
import type { Providers } from "./providers.ts";
import { isReturn, type ResponseItem } from "./response-items.ts";
import type { ResponseSettings } from "./response-request.ts";
import { type ChatServices, requireChatGrant, type TurnLimits } from "./services.ts";
import { type RunOptions, SessionRunner } from "./session-runner.ts";
import { type AssistantBody, assistantBody, ChatSessions, type UserContent } from "./sessions.ts";
import { chatReach, stateOf, ToolsService } from "./tools.ts";
import { failed, isTool, stateEvent, type ToolPart } from "./turn.ts";
import { isRepeatable, restoreLoopMemory, TurnRecovery, type WaitingCall } from "./turn-recovery.ts";

export interface NewMessage extends RunOptions {
  readonly content: UserContent;
  /** Overrides the session's model for this turn. */
  readonly model?: string;
  /** The position from which on earlier messages give way to this one. */
  readonly from?: number;
  /** For a response: what the model reads, where `content` is what people read. */
  readonly items?: readonly ResponseItem[];
  /** Set when the message belongs to a response of the Responses API: the settings of its request. */
  readonly settings?: ResponseSettings;
  /** Messages that a new session begins with. */
  readonly earlier?: readonly NewChatMessage[];
}

const notYours =
  "This conversation belongs to another token, and only that one says something in it. An admin may read, stop and delete it. Begin a conversation of your own.";

const CLOSE_TIMEOUT = 10_000;

/** Conversations between people and models that use the rack's tools, kept in the store. */
export class ChatService {
  readonly tools: ToolsService;
  readonly providers: Providers;
  readonly sessions: ChatSessions;
  readonly #services: ChatServices;
  readonly #engine: TurnEngine;
  readonly #turns: ActiveTurns;
  readonly #recovery: TurnRecovery;
  readonly #runner: SessionRunner;
  readonly #grants: GrantWatch;
  readonly #unsubscribe: () => void;
  #following: Following | undefined;

  constructor(services: ChatServices) {
    this.#services = services;
    this.tools = new ToolsService(services.registry, services.service);
    this.#engine = new TurnEngine(services, this.tools, (...call) => this.handleRunToolCall(...call));
    this.providers = services.providers;
    this.sessions = new ChatSessions(services.store.chat, services.registry);
    this.#grants = new GrantWatch(services.store, services.logger);
    this.#runner = new SessionRunner(this.#engine, services);
    this.#turns = new ActiveTurns(services);
    this.#recovery = new TurnRecovery(services, this.#engine.leaving);
    this.#unsubscribe = services.approvals.addRepeater((callId) => this.#isRepeated(callId));
  }

  get limits(): TurnLimits {
    return this.#engine.limits;
  }

  get toolBudget(): number {
    return this.#engine.toolBudget;
  }

  /** Whether a request to `/v1` that comes again is recognised although its client does not say so. */
  get joinsRepeats(): boolean {
    return this.#services.config.joinRepeats ?? true;
  }

  /** Stops a running turn of the session first. */
  async removeSession(id: string): Promise<void> {
    await this.stop(id);
    this.#turns.forget(id);
    await this.#services.store.chat.removeSession(id);
  }

  /**
   * The last messages of a session, or those before a given message. A message that this process is still
   * writing has the parts written so far.
   */
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
   * The turn of a session whose events a reader can follow: the running turn, in this process or another, or
   * else the last turn of this process. Events of a turn in another process are read from the store, and only
   * while somebody follows its feed.
   */
  watch(sessionId: string): Promise<ActiveTurn | undefined> {
    return this.#turns.watch(sessionId);
  }

  currentMessage({ message, parts }: ActiveTurn): ChatMessage {
    return { ...message, body: { ...message.body, parts } };
  }

  /**
   * The tools that a session may use: those of the grant, or with an expert exactly the expert's. Throws
   * `ChatError` for an expert that does not exist or that the grant does not allow.
   */
  reachOf(grant: Grant, expert: string | undefined): Reach {
    if (expert === undefined) return chatReach(grant);
    const found = this.#services.experts?.(expert);
    if (found && [found.name, found.id].some((name) => grant.mayUseExpert(name)))
      return chatReach(grant, found);
    const message = `This token knows no expert "${expert}" any more. Begin another conversation.`;
    throw new ChatError("expert_not_found", message);
  }

  /**
   * Stores a person's message and starts the turn that answers it. Resolves once the message is stored and
   * the turn has begun; the turn goes on even if nobody reads it. `grant`: the caller's; default: that of the
   * owner of the process. Only the token that owns a session may write in it, because the calls are made with
   * that token's grant. Throws `ProviderError` and `ChatError`, the last also while another
   * turn of the session runs.
   */
  async handleStream(
    session: ChatSession,
    given: NewMessage,
    grant: Grant = masterGrant,
  ): Promise<ActiveTurn> {
    requireChatGrant(grant);
    const { model } = given;
    if (this.#engine.leaving.aborted)
      throw new ChatError("stopping", "The server is stopping and takes no new work.");
    if (session.owner !== grant.id) throw new ChatError("chat_forbidden", notYours);
    const reach = this.reachOf(grant, session.expert);
    const wanted = model ?? session.model;
    const endpoint = await this.providers.resolve(wanted);
    const { store, registry } = this.#services;
    // Secrets of the workspace are stored nowhere else, and no provider has to know them.
    const {
      content,
      items,
      settings,
      earlier = [],
    } = registry.mask({
      content: given.content,
      items: given.items,
      settings: given.settings,
      earlier: given.earlier,
    });
    const { provider } = endpoint;
    const asked = { provider, model: endpoint.model, wanted };
    const body: AssistantBody = { ...asked, parts: [], ...(settings && { settings }) };
    const said: readonly NewChatMessage[] = [
      ...earlier,
      { id: uuid(), role: "user", status: "completed", body: { content, ...(items && { items }) } },
      { id: uuid(), role: "assistant", status: "running", body: { ...body } },
    ];
    const begun = await store.chat.beginTurn(session.id, said, given.from);
    if (begun === undefined) {
      // The session may have been removed a moment ago.
      await this.sessions.require({ grant }, session.id);
      const message = "The last message of this conversation is still being answered. Wait, or stop it.";
      throw new ChatError("chat_busy", message);
    }
    // A client that brings the outputs of its tools goes on with the same turn.
    if (items && isReturn(items)) await restoreLoopMemory(this.#services, session.id, grant.id);
    // A person who writes again has seen that loop detection stopped the turn, so calls may go on.
    else registry.resumeSession(session.id);
    const named = await this.sessions.named(session, content).catch((error) => {
      // A missing title must not keep the message from being answered.
      this.#runner.complain(error);
      return session;
    });
    const turn = this.#open(begun.at(-1)!, grant, begun.at(-2)!.id);
    void this.#runner.run(named, turn, reach, endpoint, given);
    return turn;
  }

  /** Answers a client that keeps its conversation itself. Throws `ChatError` and `ProviderError`. */
  complete(request: CompletionRequest, options: CompletionOptions): Promise<Completion> {
    const parts = { engine: this.#engine, services: this.#services, grants: this.#grants };
    return complete(request, options, parts);
  }

  /**
   * Makes a call that the model asked for and stores the outcome in its part. The turn engine brings every call here.
   * Failures become text for the model, not rejections. Returns the verdict of loop detection.
   */
  async handleRunToolCall(part: ToolPart, turn: OpenTurn, signal: AbortSignal): Promise<Verdict | undefined> {
    const { id, callId, round, name } = part;
    const { reach, sessionID, headers, offered, clientTools, emit } = turn;
    const settle = (state: ToolState) => {
      part.state = state;
      emit(stateEvent(part));
    };
    if (name === "") {
      settle(failed(part, notices.noName));
      return undefined;
    }
    const given = offered.tools.length + clientTools.length;
    const written = turn.unmasked.get(id) ?? part.arguments;
    if (part.masked && !turn.unmasked.has(id)) {
      settle(failed(part, notices.maskedArguments));
      return undefined;
    }
    const call = offered.restore({ id, name, arguments: written });
    try {
      const ended = await this.tools.runTools(call.name, call.arguments, {
        reach,
        given,
        callId,
        sessionID,
        messageID: `${turn.id}.${round}`,
        signal,
        ...(headers && { headers }),
        ...(turn.isPassingSession === true && { isPassingSession: true }),
        watcher: {
          state: (state) => {
            if (state.status === "pending" || state.status === "running") settle(state);
          },
          progress: (update) => emit({ type: "progress", callId, update }),
        },
      });
      settle(explained(stateOf(ended), ended.result.error?.code, part));
      const loop = ended.record.flags?.loop;
      if (loop !== undefined) emit({ type: "loop", callId, verdict: loop });
      return loop;
    } catch (thrown) {
      if (!(thrown instanceof CallRefused)) throw thrown;
      const isUnknown = thrown.code === "tool_not_found";
      settle(failed(part, isUnknown ? this.tools.unknown(reach, name, given) : thrown.message));
      return undefined;
    }
  }

  /** Counts a request to a model that was no part of a turn. */
  noteUsage(grant: Grant, endpoint: ModelEndpoint, usage: ModelUsage): void {
    this.#services.store.usage.add(usageOf(grant.caller, endpoint, usage));
  }

  /**
   * Stops the turn of a session and its calls, in whichever process the turn runs. Resolves to true after the
   * turn has ended, or after some seconds when another process does not stop it; to false when no turn was
   * running.
   */
  stop(sessionId: string): Promise<boolean> {
    return this.#turns.stop(sessionId);
  }

  /** Stops the turns of withdrawn tokens. Must be called after a token was withdrawn. */
  endWithdrawn(): Promise<void> {
    return this.#grants.look();
  }

  /**
   * Takes over the turns of processes that have ended. A turn with calls that wait for approval goes on; any
   * other turn is stored as interrupted.
   */
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
      void this.#resume(this.#open(message, grant), session, grant, waiting);
    }
  }

  /** Calls `recover` at this interval, for turns of other processes on the same store that have died. */
  follow(seconds: number): void {
    const { store, logger } = this.#services;
    this.#following ??= store.follower.follow("nodes", {
      refresh: () => this.recover(),
      failed: (error) => logger.debug("Turns of other processes could not be taken up:", error),
      seconds,
    });
  }

  /**
   * Interrupts running turns, which `recover` takes over after the next start. Resolves when they are stored,
   * or after `CLOSE_TIMEOUT`.
   */
  async close(): Promise<void> {
    void this.#following?.stop();
    this.#unsubscribe();
    this.#engine.close();
    const written = Promise.all(this.#turns.running.map(({ done }) => done));
    await Promise.race([written, wait(CLOSE_TIMEOUT, undefined, { ref: false })]);
  }

  /** Whether a call is made again after a restart if an inner call waits for approval; see `TurnRecovery`. */
  #isRepeated(callId: string): boolean {
    const calls = this.#turns.running.flatMap(({ parts }) => parts.filter(isTool));
    const call = calls.find((part) => part.callId === callId);
    return call !== undefined && isRepeatable(this.#services.registry.get(call.name));
  }

  /** `userMessageId`: the id of the message that the turn answers; not given when a turn is resumed. */
  #open(message: ChatMessage, grant: Grant, userMessageId?: string): ActiveTurn {
    const turn = this.#turns.open(message);
    void turn.done.then(this.#grants.watch(grant, (why) => turn.stop(why)));
    const { sessionId, id: messageId } = message;
    turn.feed.publish({ type: "turn", sessionId, messageId, ...(userMessageId && { userMessageId }) });
    return turn;
  }

  /** Continues a turn once people have answered the questions about its calls. */
  async #resume(
    turn: ActiveTurn,
    session: ChatSession,
    grant: Grant,
    waiting: readonly WaitingCall[],
  ): Promise<void> {
    const body = assistantBody(turn.message);
    try {
      await this.#recovery.decided(turn, waiting);
      const callIds = turn.parts.filter(isTool).map(({ callId }) => callId);
      await restoreLoopMemory(this.#services, session.id, grant.id, callIds);
      await this.#runner.save(turn.message, { ...body, parts: turn.parts }, "running");
      const endpoint = await this.providers.reopen(body.provider, body.model, body.wanted);
      await this.#runner.run(session, turn, this.reachOf(grant, session.expert), endpoint);
    } catch (thrown) {
      await this.#runner.conclude(turn, body, this.#runner.endOf(thrown, turn));
    }
  }
}

/** Tells the model at which place its arguments stop being JSON, because the history shows it only valid JSON. */
function explained(state: ToolState, code: string | undefined, { arguments: written }: ToolPart): ToolState {
  if (state.status !== "error" || code !== "invalid_arguments") return state;
  try {
    JSON.parse(written);
    return state;
  } catch (thrown) {
    const position = /position (\d+)/.exec(String(thrown))?.[1];
    // A JSON error without a position quotes the text itself, or says that the text ended too early.
    if (position === undefined) return state;
    const at = Number(position);
    const there = notices.writtenThere(written.slice(Math.max(0, at - 60), at), written.slice(at, at + 40));
    return { ...state, error: `${state.error} ${there}` };
  }
}
