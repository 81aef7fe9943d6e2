import { v7 as uuid } from "uuid";
import { Compactor, tokensOf } from "./compactor.ts";
import { type AnswerFacts, DeltaMerger, type Shown } from "./deltas.ts";
import { toModelMessages, withoutImages } from "./messages.ts";
import {
  addUsage,
  calledIn,
  isJson,
  type ModelMessage,
  type ModelTool,
  type ModelToolCall,
  type ModelUsage,
  nameOf,
  newCallId,
} from "./model.ts";
import * as notices from "./notices.ts";
import { type StreamOptions, streamCompletion } from "./provider.ts";
import { readTagAnswer, TagFilter, toTagMessages } from "./tags.ts";
import { estimateTokens } from "./tools.ts";
import {
  appendText,
  callEvent,
  type Echo,
  failed,
  isSettled,
  isTool,
  nextRound,
  type OpenTurn,
  type ToolPart,
} from "./turn.ts";

interface Asked {
  /** The provider's finish reason; `cut` when there are calls and the provider gave none. */
  readonly finish: string;
  readonly calls: number;
  /** A call for the client was cut off. The client could not run half a call. */
  readonly isClientCallCut: boolean;
}

/** Finish reasons of a complete answer. */
const wholeFinishes = new Set(["tool_calls", "function_call", "stop"]);
/** At most this many calls of one message are made. The model is told to repeat the rest. */
const MOST_CALLS = 128;

/** Sends the conversation to the model, one request per round, and turns the answer into message parts. */
export class ModelAsker {
  readonly #turn: OpenTurn;
  readonly #retry: Pick<StreamOptions, "retries" | "backoff">;
  readonly #compactor: Compactor;
  readonly #clientTools: ReadonlyMap<string | undefined, ModelTool>;
  /** The ids that the model gave to the calls of this conversation. */
  readonly #callIds: Set<string>;
  usage: ModelUsage;
  /** Other members of the provider's last answer, such as `system_fingerprint`. */
  facts: AnswerFacts = {};

  constructor(turn: OpenTurn, retry: Pick<StreamOptions, "retries" | "backoff"> = {}) {
    const { offered, contextTokens, history, parts, clientTools } = turn;
    this.#turn = turn;
    this.#retry = retry;
    this.usage = turn.usage ?? { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
    this.#clientTools = new Map(clientTools.map((tool) => [nameOf(tool), tool]));
    const earlier = history.flatMap(({ tool_calls }) => tool_calls?.map(({ id }) => id) ?? []);
    this.#callIds = new Set([...earlier, ...parts.filter(isTool).map(({ id }) => id)]);
    const callIdOf = (id: string) =>
      parts.filter(isTool).find((part) => part.id === id)?.callId || turn.callIdOf?.(id);
    const definitions = offered.costs.reduce((sum, { tokens }) => sum + tokens, 0);
    // Even if the definitions fill the window, messages keep a quarter of it.
    const room = Math.max(contextTokens - definitions, contextTokens / 4);
    this.#compactor = new Compactor(room, callIdOf, turn.compacted);
  }

  /** The model's ids of the calls whose results it is no longer shown. */
  get compacted(): string[] {
    return [...this.#compactor.taken];
  }

  /**
   * Reads one answer of the model into parts. Throws `ProviderError`, `AnswerOverLimit` or the signal's reason; the
   * parts that arrived before are kept.
   */
  async ask(signal: AbortSignal, isFirst: boolean): Promise<Asked> {
    const turn = this.#turn;
    const { endpoint, emit, limits, parts } = turn;
    const round = nextRound(parts);
    const messages = this.#messages();
    const merger = new DeltaMerger();
    const meter = new AnswerMeter({ ...limits, usedTokens: this.usage.total_tokens });
    const filter = endpoint.toolCalls === "tags" ? new TagFilter() : undefined;
    const stream = streamCompletion(endpoint, this.#body(messages, isFirst), {
      ...this.#retry,
      signal: AbortSignal.any([signal, turn.leaving]),
      headers: traceHeaders(turn.headers),
      onRetry: (retry) => emit({ type: "retry", ...retry }),
    });
    for await (const chunk of stream) {
      const { left } = meter;
      const shown = merger.add(chunk);
      const over = meter.add(shown, merger.begun);
      const fitting = (text: string) => (over === undefined ? text : text.slice(0, left).toWellFormed());
      appendText(turn, "reasoning", round, fitting(shown.reasoning));
      appendText(turn, "refusal", round, fitting(shown.refusal));
      const text = fitting(shown.text);
      appendText(turn, "text", round, filter === undefined ? text : filter.add(text), shown.logprobs);
      if (over === undefined) continue;
      this.#count(round, merger.usage, messages, meter);
      throw over;
    }
    turn.signal.throwIfAborted();
    this.#count(round, merger.usage, messages, meter);
    this.facts = merger.facts;
    const tagged = filter && readTagAnswer(merger.text, turn.offered, turn.clientTools);
    if (filter !== undefined && tagged !== undefined)
      appendText(turn, "text", round, filter.rest(tagged.text));
    const calls = tagged?.calls ?? merger.calls();
    // An answer with calls but without a finish reason was cut off.
    const finish = tagged?.isCut ? "length" : (merger.finishReason ?? (calls.length === 0 ? "stop" : "cut"));
    for (const [at, call] of calls.entries()) {
      this.#addCall(call, round, at, finish, echoOf(call, at === 0 ? merger : undefined, endpoint.provider));
    }
    await turn.save?.();
    const isClientCallCut = parts.some(
      (part) => isTool(part) && part.client === true && !isSettled(part) && isHalf(part, finish),
    );
    return { finish, calls: calls.length, isClientCallCut };
  }

  #body(messages: readonly ModelMessage[], isFirst: boolean): Record<string, unknown> {
    const { endpoint, body, offered, clientTools } = this.#turn;
    // When the client and the rack have a tool of the same name, the client's wins.
    const own = offered.tools.filter((tool) => !this.#clientTools.has(nameOf(tool)));
    const tools = [...clientTools, ...own];
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

  #messages(): ModelMessage[] {
    const { history, parts, endpoint, emit } = this.#turn;
    const turnMessages = toModelMessages(parts, endpoint.images, endpoint.provider);
    const { messages, out } = this.#compactor.apply([...history, ...turnMessages]);
    if (out.length > 0) emit({ type: "compacted", ids: out });
    return endpoint.images ? messages : messages.map(withoutImages);
  }

  #addCall(call: ModelToolCall, round: number, at: number, finish: string, echo: Echo | undefined): void {
    const { offered, parts, emit } = this.#turn;
    const { name, written } = calledIn(call);
    const own = this.#clientTools.get(name);
    const info = offered.infos.get(name);
    const kind = kindOf(call, own);
    // Some providers reuse call ids in later answers; here an id must be unique in the conversation.
    const id = this.#callIds.has(call.id) ? newCallId() : call.id;
    this.#callIds.add(id);
    const part: ToolPart = {
      type: "tool",
      round,
      id,
      callId: own === undefined ? uuid() : "",
      name,
      displayName: info?.displayName ?? info?.title ?? name,
      arguments: written,
      ...(kind === "function" ? {} : { kind }),
      ...(own === undefined ? {} : { client: true }),
      ...(echo === undefined ? {} : { echo }),
      state: { status: "pending", input: {}, raw: written },
    };
    parts.push(part);
    emit(callEvent(part));
    // Repairing cut arguments could make a call that the model never meant.
    const isCut = own === undefined && isHalf(part, finish);
    if (!isCut && at < MOST_CALLS) return;
    part.state = failed(part, isCut ? notices.cutArguments(name) : notices.tooManyCalls(MOST_CALLS));
    emit({ type: "state", callId: part.callId, name, state: part.state });
  }

  #count(
    round: number,
    usage: ModelUsage | undefined,
    messages: readonly ModelMessage[],
    { tokens }: AnswerMeter,
  ): void {
    const counted = usage ?? estimated(messages, tokens);
    this.usage = addUsage(this.usage, counted);
    this.#turn.emit({ type: "usage", round, usage: counted, total: this.usage });
  }
}

/**
 * The provider's extra members that must be sent back with a call. `merger`: the answer, given for its first call only.
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

/** Providers mix up the types of tools, so the type that the client declared wins. */
function kindOf({ custom }: ModelToolCall, own: ModelTool | undefined): string {
  if (custom !== undefined) return "custom";
  return own === undefined || own.type === "custom" ? "function" : own.type;
}

/**
 * Whether the call may be incomplete after this finish reason. The input of a `custom` tool is any text, so it is never
 * known.
 */
function isHalf({ kind, arguments: written }: ToolPart, finish: string): boolean {
  return !wholeFinishes.has(finish) && (kind === "custom" || !isJson(written));
}

function estimated(messages: readonly ModelMessage[], completion_tokens: number): ModelUsage {
  const prompt_tokens = messages.reduce((sum, message) => sum + tokensOf(message), 0);
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}

/** The answer exceeded a limit while it streamed. The message names the limit. */
export class AnswerOverLimit extends Error {
  override readonly name = "AnswerOverLimit";
}

interface AnswerLimits {
  /** Characters of text, reasoning and arguments together. */
  readonly maxAnswer: number;
  readonly maxTokens: number;
  /** Tokens that the turn used before this answer. */
  readonly usedTokens: number;
}

/** At most this many calls may begin in one answer, because every one is stored and answered. */
const MOST_BEGUN = 1_000;
/** Characters whose tokens are estimated together. Rounding up each short piece would overcount. */
const COUNTED_AT_ONCE = 2_000;

/** Measures a streamed answer, so that an endless one fills neither the memory nor the store. */
class AnswerMeter {
  readonly #limits: AnswerLimits;
  #characters = 0;
  #tokens = 0;
  #uncounted = "";

  constructor(limits: AnswerLimits) {
    this.#limits = limits;
  }

  get left(): number {
    return Math.max(0, this.#limits.maxAnswer - this.#characters);
  }

  /** An estimate of the answer so far. */
  get tokens(): number {
    return this.#tokens + estimateTokens(this.#uncounted);
  }

  /** Returns an error once a limit is exceeded. `begun`: how many calls the answer has begun. */
  add({ text, reasoning, refusal, written, kept }: Shown, begun: number): AnswerOverLimit | undefined {
    const { maxAnswer, maxTokens, usedTokens } = this.#limits;
    const added = text + reasoning + refusal + written;
    this.#characters += added.length + kept;
    if (this.#characters > maxAnswer) return new AnswerOverLimit(notices.answerLimit(maxAnswer));
    if (begun > MOST_BEGUN) return new AnswerOverLimit(notices.callLimit(MOST_BEGUN));
    this.#uncounted += added;
    if (this.#uncounted.length >= COUNTED_AT_ONCE) {
      this.#tokens += estimateTokens(this.#uncounted);
      this.#uncounted = "";
    }
    const used = usedTokens + this.#tokens;
    return used > maxTokens ? new AnswerOverLimit(notices.tokenLimit(used, maxTokens)) : undefined;
  }
}

/** Only the trace headers of a request are passed on to the provider. */
function traceHeaders(
  headers: Readonly<Record<string, string | string[] | undefined>> | undefined,
): Record<string, string> {
  const traced = ["traceparent", "tracestate", "baggage"].flatMap((name) => {
    const value = headers?.[name];
    return typeof value === "string" && value !== "" ? [[name, value] as const] : [];
  });
  return Object.fromEntries(traced);
}
