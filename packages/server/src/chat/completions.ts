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

export interface Completion {
  readonly id: string;
  readonly model: string;
  readonly sessionID: string;
  readonly parts: readonly MessagePart[];
  readonly usage: ModelUsage;
  /** Other members of the provider's last answer. */
  readonly facts: Readonly<Record<string, unknown>>;
  readonly end: TurnEnd;
  /** Calls for the client to run. */
  readonly calls: readonly ModelToolCall[];
}

interface CompletionOptions extends Pick<Turn, "headers"> {
  readonly reach: Reach;
  /** Aborted when the client cancels or disconnects. */
  readonly signal: AbortSignal;
  readonly emit: (event: TurnEvent) => void;
  /** Awaited before calls are made. Rejects when nobody waits for the answer any more. */
  readonly attended: () => Promise<void>;
  /** Awaited before calls of tools that are not read-only; may be called several times. */
  readonly changing: () => Promise<void>;
}

/** Answers requests of clients that keep their conversations themselves, and runs the rack's tools for them. */
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

  /** Throws `ModelMissing` and `ProviderError` when the model is not available. */
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
    // Earlier calls of the session may have run in another process.
    if (history.sessionID !== undefined) await this.#memory.restoreAll(sessionID, grant.id);
    const parts: MessagePart[] = [];
    const systemMessages: ModelMessage[] = expert?.instructions
      ? [{ role: "system", content: expert.instructions }]
      : [];
    const { end, usage, facts } = await this.#engine.run({
      id: uuid(),
      sessionID,
      reach,
      endpoint,
      history: [...systemMessages, ...history.messages],
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
    // The client does not know the session unless it was handed calls, so loop detection can forget it.
    if (!isHandedOver) registry.resumeSession(sessionID);
    const handover = { owner: grant.id, sessionID, endpoint, handoffId };
    const calls = isHandedOver ? await handOver(parts, handover, store.chat) : [];
    const id = `chatcmpl-${uuid().replaceAll("-", "")}`;
    return { id, model: model || endpoint.model, sessionID, parts, usage, facts, end, calls };
  }

  /** Whether the part is a call that must not be made twice. */
  #changes(part: MessagePart): boolean {
    if (!isTool(part) || part.started !== true) return false;
    return this.#services.registry.get(part.name)?.metadata.readOnly !== true;
  }
}

/** The query for choosing tools is the first message, so that the choice stays the same for the whole conversation. */
function firstWords(messages: readonly ModelMessage[]): string {
  const first = messages.find(({ role }) => role === "user");
  return first === undefined ? "" : textOf(first);
}

/** Why a request cannot be served; undefined when it can. */
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
  // Only these types can be described as text. For models with native tool calls the provider decides.
  const unsupportedType = tools?.find(({ type }) => type !== "function" && type !== "custom")?.type;
  if (unsupportedType === undefined) return undefined;
  return `This model is told of tools by text, which works for tools of the types \`function\` and \`custom\`, but not for \`${unsupportedType}\`.`;
}
