import { estimateTokens, tokenShare } from "@toolrack/core/internal";
import { v7 as uuid } from "uuid";
import { parsedJson } from "../helpers/index.ts";
import { skillToolInfo } from "../skills/index.ts";
import { type AnswerFacts, type AnswerPiece, DeltaMerger, emptyPiece } from "./answer-chunks.ts";
import { AnswerMask } from "./answer-mask.ts";
import { withoutExtras } from "./client-calls.ts";
import { Compactor, tokensOf } from "./compactor.ts";
import { countImages, toModelMessages, withoutImages } from "./messages.ts";
import {
  addUsage,
  calledIn,
  costOf,
  type ModelEndpoint,
  type ModelMessage,
  type ModelTool,
  type ModelToolCall,
  type ModelUsage,
  nameOf,
  newCallId,
  noUsage,
  wholeUsage,
} from "./model.ts";
import * as notices from "./model-messages.ts";
import { streamCompletion } from "./provider.ts";
import type { ProviderHealth } from "./provider-health.ts";
import type { TurnLimits } from "./services.ts";
import { readTagAnswer, TagFilter, ThinkFilter, toTagMessages } from "./tag-calls.ts";
import type { OfferedTools } from "./tools.ts";
import {
  appendText,
  callEvent,
  type Echo,
  failed,
  isSettled,
  isTool,
  type ModelRequestFacts,
  nextRound,
  stateEvent,
  type ToolPart,
  type Turn,
} from "./turn.ts";

/** Finish reasons of a complete answer. */
const wholeFinishes = new Set(["tool_calls", "function_call", "stop"]);
/** One answer may have at most this many calls, because each of them is stored and gets a result. */
const MOST_BEGUN = 1_000;
/** At most this many calls of one answer are run. The model is told to repeat the others. */
const MOST_CALLS = 128;

/** A turn in progress. */
export interface OpenTurn extends Omit<Turn, "endpoint"> {
  /** The model that is asked: the turn's own, or after a failure one of its alternatives. */
  endpoint: ModelEndpoint;
  /** The provider for which the history was made. It may hold members that only this provider knows. */
  readonly historyProvider: string;
  readonly health: ProviderHealth;
  /** Tokens that the messages to a model may take. */
  readonly roomOf: (endpoint: ModelEndpoint) => number;
  readonly clientTools: readonly ModelTool[];
  readonly offered: OfferedTools;
  readonly limits: TurnLimits;
  /** Aborted when the server stops. The turn ends as interrupted, and its calls stay open for recovery. */
  readonly leaving: AbortSignal;
  /** Aborted when no model is to be asked any more: the turn was stopped, its time is over, or the server stops. */
  readonly asking: AbortSignal;
  readonly compactor: Compactor;
  /** The ids that the model gave to the calls of this conversation. */
  readonly callIds: Set<string>;
  /**
   * The arguments as the model wrote them, by the model's id of the call, where the part has them masked. No tool runs
   * with a mask in the place of a secret.
   */
  readonly unmasked: Map<string, string>;
  /** Called for each answer, with what it cost. */
  readonly noteUsage: (endpoint: ModelEndpoint, usage: ModelUsage) => void;
  usage: ModelUsage;
  /** Members of the provider's last answer that are passed on to the client, such as `system_fingerprint`. */
  facts: AnswerFacts;
}

/** `contextTokens`: the context window of a model for which the config sets none. */
export function openTurn(
  turn: Turn,
  contextTokens: number,
  setting: Pick<OpenTurn, "offered" | "limits" | "leaving" | "asking" | "health" | "noteUsage">,
): OpenTurn {
  const { history, parts, clientTools = [], compacted } = turn;
  const usage = turn.usage ?? noUsage;
  const earlier = history.flatMap(({ tool_calls }) => tool_calls ?? []);
  const callIds = new Set([...earlier, ...parts.filter(isTool)].map(({ id }) => id));
  const callIdOf = (id: string) =>
    parts.filter(isTool).find((part) => part.id === id)?.callId || turn.callIdOf?.(id);
  const definitions = setting.offered.costs.reduce((sum, { tokens }) => sum + tokens, 0);
  const roomOf = (endpoint: ModelEndpoint) => {
    const context = endpoint.contextTokens ?? contextTokens;
    // Even if the tool definitions fill the context window, messages keep a quarter of it.
    return Math.max(context - definitions, context / 4);
  };
  const compactor = new Compactor(roomOf(turn.endpoint), callIdOf, compacted);
  const historyProvider = turn.endpoint.provider;
  const unmasked = new Map<string, string>();
  return {
    ...turn,
    ...setting,
    historyProvider,
    roomOf,
    clientTools,
    compactor,
    callIds,
    unmasked,
    usage,
    facts: {},
  };
}

/**
 * Asks the turn's model, as `askModel` does. When it fails before it has said anything, the next of its alternatives is
 * asked, and stays the turn's model.
 */
export function ask(turn: OpenTurn, isFirst: boolean) {
  return turn.health.askInTurn(turn.endpoint, (endpoint, instead) => {
    if (instead !== undefined) turn.compactor.resize(turn.roomOf(endpoint));
    turn.endpoint = endpoint;
    return askModel(turn, isFirst, instead);
  });
}

/**
 * Sends the conversation to the model and appends its answer to the turn's parts. Throws `ProviderError`,
 * `AnswerOverLimit` or the signal's reason; parts that arrived before are kept. In the result, `finish` is
 * the provider's finish reason; when the provider gave none, it is `cut` for an answer with calls and `stop`
 * for any other. `isClientCallCut`: the answer broke off inside a call of a client's tool, so that the client
 * cannot run the call. `instead`: why the model that should have answered did not.
 */
async function askModel(turn: OpenTurn, isFirst: boolean, instead: string | undefined) {
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
  const thinking = endpoint.reasoning === "tags" ? new ThinkFilter() : undefined;
  const mask = new AnswerMask(endpoint.mask(), (type, text, logprobs) =>
    appendText(turn, type, round, text, logprobs),
  );
  let hasBegun = false;
  const count = (isCut = false) => {
    const estimated = { prompt: () => estimatedPrompt(turn, messages), completion: Math.ceil(tokens) };
    const counted = wholeUsage(merger.usage, estimated, isCut);
    const cost = costOf(endpoint.price, counted);
    const usage = cost === undefined ? counted : { ...counted, cost };
    turn.usage = addUsage(turn.usage, usage);
    turn.noteUsage(endpoint, usage);
    emit({ type: "usage", round, usage, total: turn.usage });
  };
  /** The text about an exceeded limit, if any. An endless answer would fill the memory and the store. */
  const limitExceeded = () => {
    if (characters > maxAnswer) return notices.answerLimit(maxAnswer);
    if (merger.begun > MOST_BEGUN) return notices.callLimit(MOST_BEGUN);
    const used = turn.usage.total_tokens + Math.ceil(tokens);
    return used > maxTokens ? notices.tokenLimit(used, maxTokens) : undefined;
  };
  const add = (piece: AnswerPiece) => {
    const left = Math.max(0, maxAnswer - characters);
    const { text, reasoning, refusal, logprobs } = piece;
    const { written, kept } = merger.add(piece);
    const added = text + reasoning + refusal + written;
    characters += added.length + kept;
    tokens += tokenShare(added);
    const over = limitExceeded();
    const fitting = (words: string) => (over === undefined ? words : words.slice(0, left).toWellFormed());
    hasBegun ||= piece.saysSomething || piece.usage !== undefined;
    mask.add("reasoning", fitting(reasoning));
    mask.add("refusal", fitting(refusal));
    mask.add("text", filter === undefined ? fitting(text) : filter.add(fitting(text)), logprobs);
    if (over !== undefined) throw new AnswerOverLimit(over);
  };
  const body = requestBody(turn, messages, isFirst);
  emit({ type: "model", ...factsOf(turn, round, messages, instead) });
  try {
    await streamCompletion(endpoint, body, {
      // When another model can answer instead, it is asked at once rather than retrying this one.
      ...(endpoint.alternatives?.length ? { retries: 0 } : {}),
      signal: turn.asking,
      headers: traceHeaders(turn.headers),
      onPiece: (piece) => add(thinking?.separate(piece) ?? piece),
      onRetry: (retry) => emit({ type: "retry", ...retry }),
    });
    if (thinking !== undefined) add({ ...emptyPiece, ...thinking.rest() });
    turn.signal.throwIfAborted();
  } catch (thrown) {
    mask.end(true);
    // What came of an answer that was stopped, or that broke off, was paid for too.
    if (hasBegun) count(true);
    throw thrown;
  }
  count();
  const tagged = filter && readTagAnswer(merger.text, turn.offered, turn.clientTools);
  if (tagged !== undefined) mask.add("text", filter?.rest(tagged.text) ?? "");
  mask.end(merger.finishReason === "length" || merger.finishReason === "content_filter");
  turn.facts = mask.inFacts(merger.facts);
  const calls = tagged?.calls ?? merger.calls();
  // An answer with calls but without a finish reason was cut off.
  const finish = tagged?.isCut ? "length" : (merger.finishReason ?? (calls.length === 0 ? "stop" : "cut"));
  const made = calls.map((call, at) => {
    const echo = echoOf(call, at === 0 ? merger : undefined, endpoint.provider);
    return addCall(turn, call, { round, mask, echo, finish, at });
  });
  await turn.save?.();
  const isClientCallCut = made.some((part) => part.client && !isSettled(part) && isHalf(part, finish));
  return { finish, calls: calls.length, isClientCallCut };
}

function messagesOf(turn: OpenTurn): ModelMessage[] {
  const { history, historyProvider, parts, endpoint, emit, compactor } = turn;
  const turnMessages = toModelMessages(parts, endpoint.images, endpoint.provider);
  const earlier = endpoint.provider === historyProvider ? history : history.map(withoutExtras);
  const { messages, out } = compactor.apply([...earlier, ...turnMessages]);
  if (out.length > 0) emit({ type: "compacted", ids: out });
  return messages;
}

function factsOf(
  { endpoint, compactor, offered, clientTools }: OpenTurn,
  round: number,
  messages: readonly ModelMessage[],
  instead: string | undefined,
): ModelRequestFacts {
  const compacted = compactor.taken.size;
  const images = endpoint.images ? 0 : countImages(messages);
  return {
    round,
    provider: endpoint.provider,
    model: endpoint.model,
    messages: messages.length,
    tools: toolsOf({ offered, clientTools }).length,
    ...(compacted > 0 && { compacted }),
    ...(images > 0 && { images }),
    ...(instead !== undefined && { instead }),
  };
}

/** When the client and the rack have a tool of the same name, the client's wins. */
function toolsOf({ offered, clientTools }: Pick<OpenTurn, "offered" | "clientTools">): readonly ModelTool[] {
  if (clientTools.length === 0) return offered.tools;
  const names = new Set(clientTools.map(nameOf));
  return [...clientTools, ...offered.tools.filter((tool) => !names.has(nameOf(tool)))];
}

function requestBody(
  turn: OpenTurn,
  given: readonly ModelMessage[],
  isFirst: boolean,
): Record<string, unknown> {
  const { endpoint, body = {} } = turn;
  const messages = endpoint.images ? given : given.map(withoutImages);
  const tools = toolsOf(turn);
  const { tool_choice, parallel_tool_calls, max_output_tokens: limit, max_tool_calls: _, ...rest } = body;
  // OpenAI's newer models refuse `max_tokens`; most other servers know nothing else.
  const isOpenAI = /[./](?:openai|azure)\.com(?::\d+)?$/.test(endpoint.url.origin);
  const asked = {
    ...rest,
    ...(limit !== undefined && { [isOpenAI ? "max_completion_tokens" : "max_tokens"]: limit }),
    model: endpoint.model,
    stream: true,
    stream_options: { include_usage: true },
  };
  if (endpoint.toolCalls === "tags") {
    return { ...asked, messages: toTagMessages(messages, tool_choice === "none" ? [] : tools) };
  }
  if (tools.length === 0) return { ...asked, messages };
  // A forced tool choice holds for the first request only, or the turn would never end.
  const isForced = tool_choice !== undefined && tool_choice !== "auto" && tool_choice !== "none";
  const choice = isForced && !isFirst ? undefined : tool_choice;
  // Members that are undefined are not sent, because JSON leaves them out.
  return { ...asked, messages, tools, tool_choice: choice, parallel_tool_calls };
}

function addCall(
  turn: OpenTurn,
  call: ModelToolCall,
  answer: { round: number; mask: AnswerMask; echo: Echo | undefined; finish: string; at: number },
): ToolPart {
  const { offered, parts, emit, callIds, clientTools, unmasked } = turn;
  const { mask } = answer;
  const { name: called, written } = calledIn(call);
  const own = clientTools.find((tool) => nameOf(tool) === called);
  const info = offered.infos.get(called);
  const shown = mask.inText(written);
  // A name that nobody has may be anything that the model knows.
  const name = own === undefined && info === undefined ? mask.inText(called) : called;
  const echo = mask.inEcho(answer.echo);
  const kind = kindOf(call, own);
  // Some providers reuse call ids in later answers; here an id must be unique in the conversation.
  const id = callIds.has(call.id) || mask.inText(call.id) !== call.id ? newCallId() : call.id;
  callIds.add(id);
  const part: ToolPart = {
    type: "tool",
    round: answer.round,
    id,
    callId: own === undefined ? uuid() : "",
    name,
    displayName: info?.displayName ?? info?.title ?? name,
    arguments: shown,
    ...(shown === written ? {} : { masked: true }),
    ...(kind === "function" ? {} : { kind }),
    ...(own === undefined ? {} : { client: true }),
    ...(echo === undefined ? {} : { echo }),
    ...(info !== undefined && skillToolInfo(info) !== undefined && { envelope: true }),
    state: { status: "pending", input: {}, raw: shown },
  };
  if (shown !== written) unmasked.set(id, written);
  parts.push(part);
  emit(callEvent(part));
  // A call that was cut off is not run: repaired arguments could make a call that the model never meant.
  const isCut = own === undefined && isHalf(part, answer.finish);
  const refusal = isCut ? notices.cutArguments(name) : refusalOf(part, answer.at, turn);
  if (refusal === undefined) return part;
  part.state = failed(part, refusal);
  emit(stateEvent(part));
  return part;
}

/** Why a call is not run, if a message, or the whole answer as the client wants it, may not make that many. */
function refusalOf(call: ToolPart, at: number, { parts, body }: OpenTurn): string | undefined {
  if (at >= MOST_CALLS) return notices.tooManyCalls(MOST_CALLS);
  const most = body?.max_tool_calls;
  if (call.client || typeof most !== "number") return undefined;
  const made = parts.filter((part) => part.type === "tool" && !part.client).length;
  return made > most ? notices.enoughCalls(most) : undefined;
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

function estimatedPrompt({ offered, clientTools }: OpenTurn, messages: readonly ModelMessage[]): number {
  const own = offered.costs.reduce((sum, { tokens }) => sum + tokens, 0);
  const given = clientTools.length === 0 ? 0 : estimateTokens(JSON.stringify(clientTools));
  return messages.reduce((sum, message) => sum + tokensOf(message), own + given);
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
