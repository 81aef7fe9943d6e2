import type { JsonSchemaObject } from "@toolrack/core";
import { v7 as uuid } from "uuid";
import type { GrantWatch } from "../access/index.ts";
import { s } from "../http/wire/index.ts";
import { type ChatParts, type ChatService, requireChatGrant } from "./chat-service.ts";
import { fromFunctions, functionWithoutCall } from "./completion-runs.ts";
import { handOver, takeBack } from "./handoff.ts";
import type { AnswerFacts, ModelUsage } from "./model/deltas.ts";
import {
  type ModelEndpoint,
  type ModelMessage,
  type ModelTool,
  type ModelToolCall,
  textOf,
} from "./model/providers.ts";
import type { ChatReach } from "./tools.ts";
import { isTool, type MessagePart, type TurnEnd, type TurnEvent } from "./turn/events.ts";
import type { LoopMemory } from "./turns.ts";

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

interface CompletionOptions {
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

const open = { additionalProperties: true };
const functionCall = s.object({ name: s.text(), arguments: s.text() }, open);
/** Of a `ModelMessage`: what else it holds is passed on as it is. */
const message: JsonSchemaObject = s.object(
  {
    role: s.choice(["system", "developer", "user", "assistant", "tool", "function"]),
    "content?": {
      type: ["string", "array", "null"],
      items: s.object({ type: s.text(), "text?": s.text() }, open),
    },
    "tool_calls?": s.nullable(
      s.list(
        s.object(
          {
            id: s.text(),
            "function?": functionCall,
            "custom?": s.object({ name: s.text(), input: s.text() }, open),
          },
          { ...open, anyOf: [{ required: ["function"] }, { required: ["custom"] }] },
        ),
      ),
    ),
    "function_call?": s.nullable(functionCall),
    "tool_call_id?": s.nullable(s.text()),
    "name?": s.nullable(s.text()),
  },
  open,
);

const functionChoice: JsonSchemaObject = {
  ...s.object({ name: s.text() }, open),
  type: ["string", "object", "null"],
  description: "The older form of `tool_choice`.",
};

const requestMembers = {
  "model?": s.nullable(
    s.text({ maxLength: 200, description: "As `GET /v1/models` lists it. Default: the config's." }),
  ),
  messages: s.list<ModelMessage>(message, { minItems: 1 }),
  "tools?": s.nullable<readonly ModelTool[]>(
    s.list(s.object({ type: s.text() }, open), {
      maxItems: 1024,
      description: "Tools that the client runs itself, beside those of the rack.",
    }),
  ),
  "functions?": s.nullable(
    s.list(s.object({ name: s.text({ minLength: 1 }) }, open), {
      maxItems: 1024,
      description: "The older form of `tools`: calls come back as `function_call`, one at a time.",
    }),
  ),
  "function_call?": functionChoice,
  "stream?": s.nullable(s.boolean()),
  "stream_options?": s.nullable(s.object({ "include_usage?": s.boolean() }, open)),
  "n?": s.nullable(
    s.integer({ minimum: 1, maximum: 1, description: "Only 1: tools are run for one answer." }),
  ),
  "toolrack?": s.closed(
    {
      "events?": s.boolean("Tell of the tools that are run; see the guide."),
      "expert?": s.text({ minLength: 1, maxLength: 128, description: "Offer this expert's tools only." }),
    },
    "What only the rack understands; it is not sent to the provider.",
  ),
} as const;

/** A request to `/v1/chat/completions`. What is not named here goes to the provider as it is. */
export type CompletionRequest = s.Values<typeof requestMembers> & { readonly [key: string]: unknown };

export const completionRequestSchema: s.Schema<CompletionRequest> = s.object(requestMembers, open);

/** Whether the client reads the answer as JSON, so that nothing but the last word of the model may be in it. */
export function wantsJson({ response_format }: CompletionRequest): boolean {
  const { type } = Object(response_format);
  return type === "json_object" || type === "json_schema";
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
