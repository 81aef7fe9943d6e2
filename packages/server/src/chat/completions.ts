import { v7 as uuid } from "uuid";
import type { GrantWatch } from "../access/index.ts";
import type { Reach } from "../http/wire/index.ts";
import type { CompletionRequest } from "./completion-request.ts";
import type { TurnEngine } from "./engine.ts";
import { fromFunctions, functionWithoutCall } from "./functions.ts";
import { handOver, takeBack } from "./handoff.ts";
import type { LoopMemory } from "./loop-memory.ts";
import {
  type ModelEndpoint,
  type ModelMessage,
  type ModelToolCall,
  type ModelUsage,
  textOf,
} from "./model.ts";
import { type ChatServices, requireChatGrant } from "./services.ts";
import { isTool, type MessagePart, type Turn, type TurnEnd, type TurnEvent } from "./turn.ts";

/** What came of a request. */
export interface Completion {
  readonly id: string;
  readonly model: string;
  readonly sessionID: string;
  readonly parts: readonly MessagePart[];
  readonly usage: ModelUsage;
  /** What else the provider said of its last answer. */
  readonly facts: Readonly<Record<string, unknown>>;
  readonly end: TurnEnd;
  /** For the client to run. */
  readonly calls: readonly ModelToolCall[];
}

interface CompletionOptions extends Pick<Turn, "headers"> {
  readonly reach: Reach;
  /** The client went away, or changed its mind. */
  readonly signal: AbortSignal;
  readonly emit: (event: TurnEvent) => void;
  /** Awaited before calls are made: whether anybody still waits for what comes of them. */
  readonly attended: () => Promise<void>;
  /** Awaited before the first call of a tool that does more than read, and maybe again. */
  readonly changing: () => Promise<void>;
}

/** Answers requests of clients that keep their conversations themselves. The rack's tools are run in between. */
export class Completions {
  readonly #engine: TurnEngine;
  readonly #services: ChatServices;
  readonly #memory: LoopMemory;
  readonly #grants: GrantWatch;

  constructor(engine: TurnEngine, services: ChatServices, memory: LoopMemory, grants: GrantWatch) {
    this.#engine = engine;
    this.#services = services;
    this.#memory = memory;
    this.#grants = grants;
  }

  /** Throws `ModelMissing` and `ProviderError` for a model that cannot be had. */
  async complete(request: CompletionRequest, options: CompletionOptions): Promise<Completion> {
    const { grant } = options.reach;
    requireChatGrant(grant);
    const withdrawn = new AbortController();
    const release = this.#grants.watch(grant, (message) => withdrawn.abort(message));
    try {
      const signal = AbortSignal.any([options.signal, withdrawn.signal]);
      const completion = await this.#complete(request, { ...options, signal });
      if (!withdrawn.signal.aborted) return completion;
      const end = {
        reason: "error",
        code: "unauthorized",
        message: String(withdrawn.signal.reason),
      } as const;
      return { ...completion, end };
    } finally {
      release();
    }
  }

  async #complete(given: CompletionRequest, options: CompletionOptions): Promise<Completion> {
    const { reach, signal, headers, attended, changing, emit } = options;
    const { grant, expert } = reach;
    const { providers, registry, store } = this.#services;
    const { request, handoffId } = fromFunctions(given, grant.id);
    const { model, messages, tools, stream: _s, stream_options: _o, n: _n, toolrack: _t, ...body } = request;
    const endpoint = await providers.resolve(model ?? undefined);
    const history = await takeBack(messages, { owner: grant.id, provider: endpoint.provider }, store.chat);
    const sessionID = history.sessionID ?? uuid();
    // What came before may have happened in another process.
    if (history.sessionID !== undefined) await this.#memory.restoreAll(sessionID, grant.id);
    const parts: MessagePart[] = [];
    const told: ModelMessage[] = expert?.instructions
      ? [{ role: "system", content: expert.instructions }]
      : [];
    const { end, usage, facts } = await this.#engine.run({
      id: uuid(),
      sessionID,
      reach,
      endpoint,
      history: [...told, ...history.messages],
      body,
      clientTools: tools ?? [],
      query: firstWords(messages),
      parts,
      signal,
      headers,
      emit,
      save: async () => {
        await attended();
        if (parts.some((part) => this.#changes(part))) await changing();
      },
    });
    const isHandedOver = end.reason === "client_tools";
    // Nobody comes back to a session that the client does not know of.
    if (!isHandedOver) registry.resumeSession(sessionID);
    const handover = { owner: grant.id, sessionID, endpoint, handoffId };
    const calls = isHandedOver ? await handOver(parts, handover, store.chat) : [];
    const id = `chatcmpl-${uuid().replaceAll("-", "")}`;
    return { id, model: model || endpoint.model, sessionID, parts, usage, facts, end, calls };
  }

  /** Whether it is a call, made or about to be, that must not be made twice. */
  #changes(part: MessagePart): boolean {
    if (!isTool(part) || part.started !== true) return false;
    return this.#services.registry.get(part.name)?.metadata.readOnly !== true;
  }
}

/** What a conversation is about is what it began with, so that the choice of tools stays the same all along. */
function firstWords(messages: readonly ModelMessage[]): string {
  const first = messages.find(({ role }) => role === "user");
  return first === undefined ? "" : textOf(first);
}

/** What a request asks for that cannot be done; undefined for one that is in order. */
export function unsupported(
  { messages, tools, functions }: CompletionRequest,
  { toolCalls }: Pick<ModelEndpoint, "toolCalls">,
): string | undefined {
  if (tools?.length && Array.isArray(functions) && functions.length > 0) {
    return "`functions` is the older form of `tools`: send one of them, and best `tools`.";
  }
  const orphan = functionWithoutCall(messages);
  if (orphan >= 0) {
    return `messages[${orphan}] has the role \`function\`, but the message before it has no \`function_call\` that it could answer.`;
  }
  if (toolCalls !== "tags") return undefined;
  // Elsewhere the provider knows what it takes.
  const strange = tools?.find(({ type }) => type !== "function" && type !== "custom")?.type;
  if (strange === undefined) return undefined;
  return `This model is told of tools by text, which is known how for tools of the types \`function\` and \`custom\`, but not for \`${strange}\`.`;
}
