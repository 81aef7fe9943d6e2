import { v7 as uuid } from "uuid";
import type { GrantWatch } from "../../auth/grant-watch.ts";
import type { ChatParts } from "./chat-parts.ts";
import type { ChatService } from "./chat-service.ts";
import { fromFunctions } from "./completion-functions.ts";
import type { CompletionRequest } from "./completion-request.ts";
import { handOver, takeBack } from "./handoff.ts";
import type { LoopMemory } from "./loop-memory.ts";
import type { ModelUsage } from "./model/completion-chunk.ts";
import type { AnswerFacts } from "./model/delta-merger.ts";
import { type ModelMessage, type ModelToolCall, textOf } from "./model/model-message.ts";
import { requireChatGrant } from "./require-chat-grant.ts";
import type { ChatReach } from "./tools/reach.ts";
import { isTool, type MessagePart } from "./turn/message-part.ts";
import type { TurnEnd, TurnEvent } from "./turn/turn-event.ts";

/** What came of a request. */
export interface Completion {
  readonly id: string;
  readonly model: string;
  readonly sessionID: string;
  readonly parts: readonly MessagePart[];
  readonly usage: ModelUsage;
  /** What else the provider said of its last answer. */
  readonly facts: AnswerFacts;
  readonly end: TurnEnd;
  /** For the client to run. */
  readonly calls: readonly ModelToolCall[];
}

export interface CompletionOptions {
  readonly reach: ChatReach;
  /** The client went away, or changed its mind. */
  readonly signal: AbortSignal;
  readonly headers?: Readonly<Record<string, string | string[] | undefined>>;
  readonly emit?: (event: TurnEvent) => void;
  /** Awaited before calls are made: whether anybody still waits for what comes of them. */
  readonly attended?: () => Promise<void>;
  /** Awaited before the first call of a tool that does more than read, and maybe again. */
  readonly changing?: () => Promise<void>;
}

/** Answers one request of a client that keeps its conversation itself. The rack's tools are run in between. */
export class CompletionService {
  readonly #chat: ChatService;
  readonly #parts: Pick<ChatParts, "store" | "registry">;
  readonly #memory: LoopMemory;
  readonly #grants: GrantWatch;
  readonly #leaving = new Set<AbortController>();

  constructor(
    chat: ChatService,
    parts: Pick<ChatParts, "store" | "registry">,
    memory: LoopMemory,
    grants: GrantWatch,
  ) {
    this.#chat = chat;
    this.#parts = parts;
    this.#memory = memory;
    this.#grants = grants;
  }

  /** Throws `ModelMissing` and `ProviderError` for a model that cannot be had. */
  async complete(request: CompletionRequest, options: CompletionOptions): Promise<Completion> {
    requireChatGrant(options.reach.grant);
    const leaving = new AbortController();
    this.#leaving.add(leaving);
    const unwelcome = new AbortController();
    let why: string | undefined;
    const release = this.#grants.watch(options.reach.grant, (message) => {
      why = message;
      unwelcome.abort(message);
    });
    try {
      const signal = AbortSignal.any([options.signal, unwelcome.signal]);
      const completion = await this.#complete(request, { ...options, signal }, leaving.signal);
      if (why === undefined) return completion;
      return { ...completion, end: { reason: "error", code: "unauthorized", message: why } };
    } finally {
      release();
      this.#leaving.delete(leaving);
    }
  }

  /** Ends what is under way: the server stops. */
  close(): void {
    for (const leaving of this.#leaving) leaving.abort(new Error("the server is stopping"));
  }

  async #complete(
    given: CompletionRequest,
    options: CompletionOptions,
    leaving: AbortSignal,
  ): Promise<Completion> {
    const { reach, signal, headers, attended, changing, emit = () => {} } = options;
    const { grant, expert } = reach;
    const { request, handoffId } = fromFunctions(given, grant.id);
    const {
      model,
      messages,
      tools,
      stream: _stream,
      stream_options: _options,
      n: _n,
      toolrack: _own,
      ...body
    } = request;
    const chat = this.#chat;
    const { chat: store } = this.#parts.store;
    const endpoint = await chat.providers.resolve(model ?? undefined);
    const reader = { owner: grant.id, provider: endpoint.provider };
    const history = await takeBack(messages, reader, store);
    const sessionID = history.sessionID ?? uuid();
    // What came before may have happened in another process.
    if (history.sessionID !== undefined) await this.#memory.restoreAll(sessionID, grant.id);
    const offered = await chat.tools.getTools(reach, {
      budget: chat.toolBudget,
      query: firstWords(messages),
    });
    const parts: MessagePart[] = [];
    const told: ModelMessage[] = expert?.instructions
      ? [{ role: "system", content: expert.instructions }]
      : [];
    const loop = chat.loop({
      id: uuid(),
      sessionID,
      reach,
      endpoint,
      history: [...told, ...history.messages],
      body,
      offered,
      clientTools: tools ?? [],
      parts,
      limits: chat.limits,
      contextTokens: chat.contextTokens(endpoint),
      signal,
      leaving,
      ...(headers === undefined ? {} : { headers }),
      emit,
      save: async () => {
        await attended?.();
        if (parts.some((part) => this.#changes(part))) await changing?.();
      },
    });
    const end = await loop.run();
    // Nobody comes back to a session that the client does not know of.
    if (end.reason !== "client_tools") this.#parts.registry.resumeSession(sessionID);
    const owned = { owner: grant.id, sessionID, endpoint, handoffId };
    const calls = end.reason === "client_tools" ? await handOver(parts, owned, store) : [];
    const id = `chatcmpl-${uuid().replaceAll("-", "")}`;
    const { usage, facts } = loop;
    return { id, model: model || endpoint.model, sessionID, parts, usage, facts, end, calls };
  }

  /** Whether it is a call, made or about to be, that must not be made twice. */
  #changes(part: MessagePart): boolean {
    if (!isTool(part) || part.started !== true) return false;
    return this.#parts.registry.get(part.name)?.metadata.readOnly !== true;
  }
}

/** What a conversation is about is what it began with, so that the choice of tools stays the same all along. */
function firstWords(messages: readonly ModelMessage[]): string {
  const first = messages.find(({ role }) => role === "user");
  return first === undefined ? "" : textOf(first);
}
