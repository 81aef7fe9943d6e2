import { v7 as uuid } from "uuid";
import { skillToolInfo } from "../skills/index.ts";
import { type AnswerFacts, DeltaMerger } from "./answer-chunks.ts";
import { Compactor, tokensOf } from "./compactor.ts";
import { toModelMessages, withoutImages } from "./messages.ts";
import {
  addUsage,
  calledIn,
  type ModelMessage,
  type ModelTool,
  type ModelToolCall,
  type ModelUsage,
  nameOf,
  newCallId,
  parsedJson,
  tokenShare,
} from "./model.ts";
import * as notices from "./model-messages.ts";
import { streamCompletion } from "./provider.ts";
import type { ChatServices } from "./services.ts";
import { readTagAnswer, TagFilter, toTagMessages } from "./tag-calls.ts";
import type { OfferedTools } from "./tools.ts";
import {
  appendText,
  callEvent,
  type Echo,
  failed,
  isSettled,
  isTool,
  nextRound,
  stateEvent,
  type ToolPart,
  type Turn,
  type TurnLimits,
} from "./turn.ts";

/** Finish reasons of a complete answer. */
const wholeFinishes = new Set(["tool_calls", "function_call", "stop"]);
/** One answer may have at most this many calls, because each of them is stored and gets a result. */
const MOST_BEGUN = 1_000;
/** At most this many calls of one answer are run. The model is told to repeat the others. */
const MOST_CALLS = 128;

/** A turn in progress. */
export interface OpenTurn extends Turn {
  readonly clientTools: readonly ModelTool[];
  readonly offered: OfferedTools;
  readonly limits: TurnLimits;
  /** Aborted when the server stops. The turn ends as interrupted, and its calls stay open for recovery. */
  readonly leaving: AbortSignal;
  readonly retry: ChatServices["retry"];
  readonly compactor: Compactor;
  /** The ids that the model gave to the calls of this conversation. */
  readonly callIds: Set<string>;
  usage: ModelUsage;
  /** Members of the provider's last answer that are passed on to the client, such as `system_fingerprint`. */
  facts: AnswerFacts;
}

/** `contextTokens`: the context window of the model. */
export function openTurn(
  turn: Turn,
  contextTokens: number,
  setting: Pick<OpenTurn, "offered" | "limits" | "leaving" | "retry">,
): OpenTurn {
  const { history, parts, clientTools = [], compacted } = turn;
  const usage = turn.usage ?? { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
  const earlier = history.flatMap(({ tool_calls }) => tool_calls ?? []);
  const callIds = new Set([...earlier, ...parts.filter(isTool)].map(({ id }) => id));
  const callIdOf = (id: string) =>
    parts.filter(isTool).find((part) => part.id === id)?.callId || turn.callIdOf?.(id);
  const definitions = setting.offered.costs.reduce((sum, { tokens }) => sum + tokens, 0);
  // Even if the tool definitions fill the context window, messages keep a quarter of it.
  const room = Math.max(contextTokens - definitions, contextTokens / 4);
  const compactor = new Compactor(room, callIdOf, compacted);
  return { ...turn, ...setting, clientTools, compactor, callIds, usage, facts: {} };
}

/**
 * Sends the conversation to the model and appends its answer to the turn's parts. Throws `ProviderError`,
 * `AnswerOverLimit` or the signal's reason; parts that arrived before are kept. In the result, `finish` is
 * the provider's finish reason; when the provider gave none, it is `cut` for an answer with calls and `stop`
 * for any other. `isClientCallCut`: the answer broke off inside a call of a client's tool, so that the client
 * cannot run the call.
 */
export async function ask(turn: OpenTurn, signal: AbortSignal, isFirst: boolean) {
  const { endpoint, emit, limits, parts } = turn;
  const round = nextRound(parts);
  const messages = messagesOf(turn);
  const merger = new DeltaMerger();
  const { maxAnswer, maxTokens } = limits;
  /** Characters of the answer so far. */
  let characters = 0;
  /** Estimated tokens of the answer so far. */
  let tokens = 0;
  const filter = endpoint.toolCalls === "tags" ? new TagFilter() : undefined;
  const count = () => {
    const usage = merger.usage ?? estimatedUsage(messages, Math.ceil(tokens));
    turn.usage = addUsage(turn.usage, usage);
    emit({ type: "usage", round, usage, total: turn.usage });
  };
  /** The text about an exceeded limit, if any. An endless answer would fill the memory and the store. */
  const limitExceeded = () => {
    if (characters > maxAnswer) return notices.answerLimit(maxAnswer);
    if (merger.begun > MOST_BEGUN) return notices.callLimit(MOST_BEGUN);
    const used = turn.usage.total_tokens + Math.ceil(tokens);
    return used > maxTokens ? notices.tokenLimit(used, maxTokens) : undefined;
  };
  const stream = streamCompletion(endpoint, requestBody(turn, messages, isFirst), {
    ...turn.retry,
    signal: AbortSignal.any([signal, turn.leaving]),
    headers: traceHeaders(turn.headers),
    onRetry: (retry) => emit({ type: "retry", ...retry }),
  });
  for await (const piece of stream) {
    const left = Math.max(0, maxAnswer - characters);
    const { text, reasoning, refusal, logprobs } = piece;
    const { written, kept } = merger.add(piece);
    const added = text + reasoning + refusal + written;
    characters += added.length + kept;
    tokens += tokenShare(added);
    const over = limitExceeded();
    const fitting = (words: string) => (over === undefined ? words : words.slice(0, left).toWellFormed());
    appendText(turn, "reasoning", round, fitting(reasoning));
    appendText(turn, "refusal", round, fitting(refusal));
    appendText(
      turn,
      "text",
      round,
      filter === undefined ? fitting(text) : filter.add(fitting(text)),
      logprobs,
    );
    if (over === undefined) continue;
    count();
    throw new AnswerOverLimit(over);
  }
  turn.signal.throwIfAborted();
  count();
  turn.facts = merger.facts;
  const tagged = filter && readTagAnswer(merger.text, turn.offered, turn.clientTools);
  if (tagged !== undefined) appendText(turn, "text", round, filter?.rest(tagged.text) ?? "");
  const calls = tagged?.calls ?? merger.calls();
  // An answer with calls but without a finish reason was cut off.
  const finish = tagged?.isCut ? "length" : (merger.finishReason ?? (calls.length === 0 ? "stop" : "cut"));
  const made = calls.map((call, at) => {
    const echo = echoOf(call, at === 0 ? merger : undefined, endpoint.provider);
    return addCall(turn, call, { round, echo, finish, isTooMany: at >= MOST_CALLS });
  });
  await turn.save?.();
  const isClientCallCut = made.some((part) => part.client && !isSettled(part) && isHalf(part, finish));
  return { finish, calls: calls.length, isClientCallCut };
}

function messagesOf({ history, parts, endpoint, emit, compactor }: OpenTurn): ModelMessage[] {
  const turnMessages = toModelMessages(parts, endpoint.images, endpoint.provider);
  const { messages, out } = compactor.apply([...history, ...turnMessages]);
  if (out.length > 0) emit({ type: "compacted", ids: out });
  return endpoint.images ? messages : messages.map(withoutImages);
}

function requestBody(
  { endpoint, body = {}, offered, clientTools }: OpenTurn,
  messages: readonly ModelMessage[],
  isFirst: boolean,
): Record<string, unknown> {
  // When the client and the rack have a tool of the same name, the client's wins.
  const names = new Set(clientTools.map(nameOf));
  const tools = [...clientTools, ...offered.tools.filter((tool) => !names.has(nameOf(tool)))];
  const { tool_choice, parallel_tool_calls, ...rest } = body;
  const asked = { ...rest, model: endpoint.model, stream: true, stream_options: { include_usage: true } };
  if (endpoint.toolCalls === "tags") {
    return { ...asked, messages: toTagMessages(messages, tool_choice === "none" ? [] : tools) };
  }
  if (tools.length === 0) return { ...asked, messages };
  // A forced tool choice holds for the first request only, or the turn would never end.
  const isForced = tool_choice !== undefined && tool_choice !== "auto" && tool_choice !== "none";
  const choice = isForced && !isFirst ? undefined : tool_choice;
  // JSON leaves out undefined members.
  return { ...asked, messages, tools, tool_choice: choice, parallel_tool_calls };
}

function addCall(
  { offered, parts, emit, callIds, clientTools }: OpenTurn,
  call: ModelToolCall,
  answer: { round: number; echo: Echo | undefined; finish: string; isTooMany: boolean },
): ToolPart {
  const { name, written } = calledIn(call);
  const own = clientTools.find((tool) => nameOf(tool) === name);
  const info = offered.infos.get(name);
  const kind = kindOf(call, own);
  // Some providers reuse call ids in later answers; here an id must be unique in the conversation.
  const id = callIds.has(call.id) ? newCallId() : call.id;
  callIds.add(id);
  const part: ToolPart = {
    type: "tool",
    round: answer.round,
    id,
    callId: own === undefined ? uuid() : "",
    name,
    displayName: info?.displayName ?? info?.title ?? name,
    arguments: written,
    ...(kind === "function" ? {} : { kind }),
    ...(own === undefined ? {} : { client: true }),
    ...(answer.echo === undefined ? {} : { echo: answer.echo }),
    ...(info !== undefined && skillToolInfo(info) !== undefined && { envelope: true }),
    state: { status: "pending", input: {}, raw: written },
  };
  parts.push(part);
  emit(callEvent(part));
  // A call that was cut off is not run: repaired arguments could make a call that the model never meant.
  const isCut = own === undefined && isHalf(part, answer.finish);
  if (!isCut && !answer.isTooMany) return part;
  part.state = failed(part, isCut ? notices.cutArguments(name) : notices.tooManyCalls(MOST_CALLS));
  emit(stateEvent(part));
  return part;
}

/**
 * The extra members of a call and of its message that the provider needs back. `merger`: holds those of the
 * message; given only for the first call of the message.
 */
function echoOf(call: ModelToolCall, merger: DeltaMerger | undefined, provider: string): Echo | undefined {
  const { id: _id, type: _type, function: _function, custom: _custom, ...more } = call;
  const { reasoningField: reasoning, reasoningDetails: details = [] } = merger ?? {};
  const echo = {
    ...(Object.keys(more).length === 0 ? {} : { call: more }),
    ...(details.length === 0 ? {} : { message: { reasoning_details: details } }),
    ...(reasoning === undefined ? {} : { reasoning }),
  };
  return Object.keys(echo).length === 0 ? undefined : { provider, ...echo };
}

/**
 * The type of a call: `custom` only when the provider sent it in that form; otherwise the type that the
 * client declared for its tool, because providers mix up those types, or `function`.
 */
function kindOf({ custom }: ModelToolCall, own: ModelTool | undefined): string {
  if (custom !== undefined) return "custom";
  return own === undefined || own.type === "custom" ? "function" : own.type;
}

/**
 * Whether the call may be incomplete: the answer has no finish reason of a complete answer, and the arguments
 * are not JSON. Any text is valid input for a `custom` tool, so for its calls only the finish reason counts.
 */
function isHalf({ kind, arguments: written }: ToolPart, finish: string): boolean {
  return !wholeFinishes.has(finish) && (kind === "custom" || parsedJson(written) === undefined);
}

function estimatedUsage(messages: readonly ModelMessage[], completion_tokens: number): ModelUsage {
  const prompt_tokens = messages.reduce((sum, message) => sum + tokensOf(message), 0);
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}

/** The answer exceeded a limit while it streamed. The message names the limit. */
export class AnswerOverLimit extends Error {
  override readonly name = "AnswerOverLimit";
}

/** Only the trace headers of a request are passed on to the provider. */
function traceHeaders(headers: Turn["headers"]): Record<string, string> {
  const traced = ["traceparent", "tracestate", "baggage"].flatMap((name) => {
    const value = headers?.[name];
    return typeof value === "string" && value !== "" ? [[name, value] as const] : [];
  });
  return Object.fromEntries(traced);
}
