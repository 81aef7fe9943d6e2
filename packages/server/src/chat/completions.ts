import { randomUUID } from "node:crypto";
import type { GrantWatch } from "../access/index.ts";
import { whenAborted } from "../helpers/index.ts";
import type { AnswerFacts } from "./answer-chunks.ts";
import { takeBack } from "./client-calls.ts";
import { type CompletionRequest, fromFunctions } from "./completion-request.ts";
import { type TurnEngine, unexpectedEnd } from "./engine.ts";
import { ChatError } from "./errors.ts";
import { type ModelEndpoint, type ModelMessage, noUsage } from "./model.ts";
import { connectionClosed } from "./model-messages.ts";
import { type ChatServices, requireChatGrant } from "./services.ts";
import { type MessagePart, settleOpenCalls, type Turn, type TurnEnd, type TurnEvent } from "./turn.ts";
import { restoreLoopMemory } from "./turn-recovery.ts";

/**
 * `facts`: members of the provider's last answer that are passed on to the client. `calls`: the calls that
 * the client must run. `hasActed`: a tool that does more than read has begun, so that clients must not be
 * given a status at which they send the request again.
 */
export type Completion = Awaited<ReturnType<typeof complete>>;

export interface CompletionOptions extends Pick<Turn, "reach" | "headers" | "emit"> {
  /** The model of the request. */
  readonly endpoint: ModelEndpoint;
  /** Aborted when the client cancels or disconnects. */
  readonly signal: AbortSignal;
  /**
   * Awaited before calls are made. Waits while no client is connected. Rejects when none can come back, and with
   * `ChatError` when another process has made the calls of this request.
   */
  readonly beforeCalls: (parts: readonly MessagePart[]) => Promise<void>;
  /** Whether a tool that does more than read has begun. */
  readonly hasActed: () => boolean;
}

/**
 * Answers a request of a client that keeps its conversation itself, and runs the rack's tools for it. Throws
 * `ChatError` and `ProviderError` when the model is not available.
 */
export async function complete(
  given: CompletionRequest,
  options: CompletionOptions,
  { engine, services, grants }: { engine: TurnEngine; services: ChatServices; grants: GrantWatch },
) {
  const { reach, headers, endpoint } = options;
  const { grant, expert } = reach;
  requireChatGrant(grant);
  // `AbortSignal.any` and its weak references take several times as long as a controller with a listener.
  const stopping = new AbortController();
  whenAborted(options.signal, () => stopping.abort(options.signal.reason));
  /** Why the token is no longer valid; empty while it is. */
  let withdrawn = "";
  using watching = new DisposableStack();
  watching.defer(
    grants.watch(grant, (message) => {
      withdrawn = message;
      stopping.abort(message);
    }),
  );
  const { registry, store, logger } = services;
  const { request, handoffId } = fromFunctions(given, grant.id);
  const { model, messages, tools, stream: _s, stream_options: _o, n: _n, toolrack: _t, ...body } = request;
  const history = await takeBack(messages, { owner: grant.id, provider: endpoint.provider }, store.chat);
  const sessionID = history.sessionID ?? randomUUID();
  // Earlier calls of the session may have run in another process, so loop detection here does not know them.
  if (history.sessionID !== undefined) await restoreLoopMemory(services, sessionID, grant.id);
  const parts: MessagePart[] = [];
  const system: ModelMessage[] = expert?.instructions
    ? [{ role: "system", content: expert.instructions }]
    : [];
  let used = noUsage;
  const emit = (event: TurnEvent) => {
    if (event.type === "usage") used = event.total;
    options.emit(event);
  };
  const turn: Turn = {
    id: randomUUID(),
    sessionID,
    isPassingSession: true,
    reach,
    endpoint,
    history: [...system, ...history.messages],
    body,
    clientTools: tools ?? [],
    handoffId,
    parts,
    signal: stopping.signal,
    headers,
    emit,
    save: () => options.beforeCalls(parts),
  };
  const { usage, facts, calls, ...outcome } = await engine.run(turn).catch((thrown) => {
    const isRepeated = thrown instanceof ChatError;
    if (!options.hasActed() && !isRepeated) throw thrown;
    if (!isRepeated) logger.error("A request to /v1 failed after it had run tools:", thrown);
    settleOpenCalls(parts);
    const facts: AnswerFacts = {};
    return { end: unexpectedEnd(thrown), usage: used, facts, calls: [], endpoint };
  });
  // Only a client that was handed calls comes back to the session; otherwise loop detection can forget it.
  if (calls.length === 0) registry.resumeSession(sessionID);
  const id = completionId();
  const completion = { id, model: model || outcome.endpoint.model, sessionID, parts, usage, facts, calls };
  if (withdrawn !== "") {
    const end: TurnEnd = { reason: "error", code: "unauthorized", message: withdrawn };
    // Nobody asks again with a token that is withdrawn.
    return { ...completion, end, hasActed: false };
  }
  return { ...completion, ...settled(outcome.end, options) };
}

/** How a turn ended, as its client is told, and whether the turn has made a call that may have changed something. */
export function settled(end: TurnEnd, { signal, hasActed }: CompletionOptions) {
  const cut: TurnEnd = { reason: "error", code: "chat_cancelled", message: connectionClosed };
  const isCut = hasActed() && signal.aborted && end.reason === "stopped";
  // A turn that ended because the same request had run its tools in another process has this code too.
  return { end: isCut ? cut : end, hasActed: hasActed() || end.code === cut.code };
}

/** An id for an answer, in the form of OpenAI's. */
export function completionId(): string {
  // Nothing is sorted by it, and this takes a fraction of the time of other ids.
  return `chatcmpl-${randomUUID().replaceAll("-", "")}`;
}
