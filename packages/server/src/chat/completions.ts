import { v7 as uuid } from "uuid";
import type { GrantWatch } from "../access/index.ts";
import { handOver, takeBack } from "./client-calls.ts";
import type { CompletionRequest } from "./completion-request.ts";
import type { TurnEngine } from "./engine.ts";
import { restoreLoopMemory } from "./loop-memory.ts";
import { type ModelEndpoint, type ModelMessage, topicOf } from "./model.ts";
import { fromFunctions, functionWithoutCall } from "./older-functions.ts";
import { type ChatServices, requireChatGrant } from "./services.ts";
import { isTool, type MessagePart, type Turn, type TurnEnd } from "./turn.ts";

/**
 * `facts`: members of the provider's last answer that are passed on to the client. `calls`: the calls that
 * the client must run.
 */
export type Completion = Awaited<ReturnType<typeof complete>>;

export interface CompletionOptions extends Pick<Turn, "reach" | "headers" | "emit"> {
  /** Aborted when the client cancels or disconnects. */
  readonly signal: AbortSignal;
  /**
   * Awaited before calls are made. Waits while no client is connected, and rejects when none can come back.
   */
  readonly attended: () => Promise<void>;
  /** Awaited before calls of tools that are not read-only; may be called several times. */
  readonly changing: () => Promise<void>;
}

/**
 * Answers a request of a client that keeps its conversation itself, and runs the rack's tools for it. Throws
 * `ModelMissing` and `ProviderError` when the model is not available.
 */
export async function complete(
  given: CompletionRequest,
  options: CompletionOptions,
  { engine, services, grants }: { engine: TurnEngine; services: ChatServices; grants: GrantWatch },
) {
  const { reach, headers, attended, changing, emit } = options;
  const { grant, expert } = reach;
  requireChatGrant(grant);
  const withdrawn = new AbortController();
  using watching = new DisposableStack();
  watching.defer(grants.watch(grant, (message) => withdrawn.abort(message)));
  const { providers, registry, store } = services;
  /** Whether the part is a call that was begun and may change something. */
  const changes = (part: MessagePart) =>
    isTool(part) && part.started === true && registry.get(part.name)?.metadata.readOnly !== true;
  const { request, handoffId } = fromFunctions(given, grant.id);
  const { model, messages, tools, stream: _s, stream_options: _o, n: _n, toolrack: _t, ...body } = request;
  const endpoint = await providers.resolve(model ?? undefined);
  const history = await takeBack(messages, { owner: grant.id, provider: endpoint.provider }, store.chat);
  const sessionID = history.sessionID ?? uuid();
  // Earlier calls of the session may have run in another process, so loop detection here does not know them.
  if (history.sessionID !== undefined) await restoreLoopMemory(services, sessionID, grant.id);
  const parts: MessagePart[] = [];
  const system: ModelMessage[] = expert?.instructions
    ? [{ role: "system", content: expert.instructions }]
    : [];
  const outcome = await engine.run({
    id: uuid(),
    sessionID,
    reach,
    endpoint,
    history: [...system, ...history.messages],
    body,
    clientTools: tools ?? [],
    query: topicOf(messages),
    parts,
    signal: AbortSignal.any([options.signal, withdrawn.signal]),
    headers,
    emit,
    save: async () => {
      await attended();
      if (parts.some(changes)) await changing();
    },
  });
  const { usage, facts } = outcome;
  const isHandedOver = outcome.end.reason === "client_tools";
  // Only a client that was handed calls comes back to the session; otherwise loop detection can forget it.
  if (!isHandedOver) registry.resumeSession(sessionID);
  const handover = { owner: grant.id, sessionID, endpoint, handoffId };
  const calls = isHandedOver ? await handOver(parts, handover, store.chat) : [];
  const end: TurnEnd = withdrawn.signal.aborted
    ? { reason: "error", code: "unauthorized", message: String(withdrawn.signal.reason) }
    : outcome.end;
  const id = `chatcmpl-${uuid().replaceAll("-", "")}`;
  return { id, model: model || endpoint.model, sessionID, parts, usage, facts, end, calls };
}

/** Why a request cannot be served; undefined when it can. */
export function unsupported(
  { messages, tools, functions }: CompletionRequest,
  { toolCalls }: Pick<ModelEndpoint, "toolCalls">,
): string | undefined {
  if (tools?.length && functions?.length)
    return "`functions` is the older form of `tools`: send one of them, and best `tools`.";
  const orphan = functionWithoutCall(messages);
  if (orphan >= 0) {
    return `messages[${orphan}] has the role \`function\`, but the message before it has no \`function_call\` that it could answer.`;
  }
  // Only tools of these two types can be described as text. For models with native tool calls the provider
  // decides which types it accepts.
  const unfit = tools?.find(({ type }) => type !== "function" && type !== "custom")?.type;
  if (toolCalls !== "tags" || unfit === undefined) return undefined;
  return `This model is told of tools by text, which works for tools of the types \`function\` and \`custom\`, but not for \`${unfit}\`.`;
}
