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

/** What came of one answer. */
interface Asked {
  /** Why the provider says that it ended; `cut` for calls without a word about their end. */
  readonly finish: string;
  /** How many calls the model asked for. */
  readonly calls: number;
  /** A call that the client should run broke off: half a call is nothing that it could run. */
  readonly isClientCallCut: boolean;
}

/** What a provider says of an answer that it does not mean to go on with. */
const wholeFinishes = new Set(["tool_calls", "function_call", "stop"]);
/** Calls of one message that are made; the rest is told to come back. */
const MOST_CALLS = 128;

/** Asks the model for one answer of a turn at a time, tells it what came before, and puts what it says into parts. */
export class ModelAsker {
  readonly #turn: OpenTurn;
  readonly #retry: Pick<StreamOptions, "retries" | "backoff">;
  readonly #compactor: Compactor;
  readonly #clientTools: ReadonlyMap<string | undefined, ModelTool>;
  /** The model's ids of all calls of the conversation. */
  readonly #callIds: Set<string>;
  /** Tokens of all requests. */
  usage: ModelUsage;
  /** What else the provider said of its last answer, such as `system_fingerprint`. */
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
    // A window that the definitions alone would fill is still a window.
    const room = Math.max(contextTokens - definitions, contextTokens / 4);
    this.#compactor = new Compactor(room, callIdOf, turn.compacted);
  }

  /** The calls whose results are no longer shown to the model, by its own ids. */
  get compacted(): string[] {
    return [...this.#compactor.taken];
  }

  /**
   * One answer of the model, put into parts. `signal` ends it. Throws `ProviderError`, `AnswerOverLimit` or the signal's
   * reason; what was said until then is kept.
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
    // Calls without a word about their end were cut off.
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
    // The client's own tool is meant where both have one of the name.
    const own = offered.tools.filter((tool) => !this.#clientTools.has(nameOf(tool)));
    const tools = [...clientTools, ...own];
    const { tool_choice, parallel_tool_calls, ...rest } = body;
    const asked = { ...rest, model: endpoint.model, stream: true, stream_options: { include_usage: true } };
    if (endpoint.toolCalls === "tags") {
      return { ...asked, messages: toTagMessages(messages, tool_choice === "none" ? [] : tools) };
    }
    if (tools.length === 0) return { ...asked, messages };
    // A model that must call a tool every time would never come to an end.
    const isForced = tool_choice !== undefined && tool_choice !== "auto" && tool_choice !== "none";
    const choice = isForced && !isFirst ? undefined : tool_choice;
    // What is undefined is not sent.
    return { ...asked, messages, tools, tool_choice: choice, parallel_tool_calls };
  }

  #messages(): ModelMessage[] {
    const { history, parts, endpoint, emit } = this.#turn;
    const told = toModelMessages(parts, endpoint.images, endpoint.provider);
    const { messages, out } = this.#compactor.apply([...history, ...told]);
    if (out.length > 0) emit({ type: "compacted", ids: out });
    return endpoint.images ? messages : messages.map(withoutImages);
  }

  #addCall(call: ModelToolCall, round: number, at: number, finish: string, echo: Echo | undefined): void {
    const { offered, parts, emit } = this.#turn;
    const { name, written } = calledIn(call);
    const own = this.#clientTools.get(name);
    const info = offered.infos.get(name);
    const kind = kindOf(call, own);
    // Some providers count their calls anew in every answer; here an id stands for one call of the conversation.
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
    // Mending what was cut off would make a call that the model never meant.
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
    const said = usage ?? estimated(messages, tokens);
    this.usage = addUsage(this.usage, said);
    this.#turn.emit({ type: "usage", round, usage: said, total: this.usage });
  }
}

/** What the provider wants to read again with a call. `merger`: the answer, for its first call. */
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

/** Providers are not exact about the types of functions; where the client's has one of its own, that is meant. */
function kindOf({ custom }: ModelToolCall, own: ModelTool | undefined): string {
  if (custom !== undefined) return "custom";
  return own === undefined || own.type === "custom" ? "function" : own.type;
}

/** Whether an answer that ended so may have broken off inside the call. Of a text nobody can tell. */
function isHalf({ kind, arguments: written }: ToolPart, finish: string): boolean {
  return !wholeFinishes.has(finish) && (kind === "custom" || !isJson(written));
}

function estimated(messages: readonly ModelMessage[], completion_tokens: number): ModelUsage {
  const prompt_tokens = messages.reduce((sum, message) => sum + tokensOf(message), 0);
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}

/** The answer went over a limit while it came. The message says over which. */
export class AnswerOverLimit extends Error {
  override readonly name = "AnswerOverLimit";
}

interface AnswerLimits {
  /** Characters of text, reasoning and arguments together. */
  readonly maxAnswer: number;
  readonly maxTokens: number;
  /** Tokens that the turn took before. */
  readonly usedTokens: number;
}

/** Calls that one answer may begin: every one of them is kept and answered. */
const MOST_BEGUN = 1_000;
/** So many characters are counted at a time: rounding up each of many short pieces would add up. */
const COUNTED_AT_ONCE = 2_000;

/** Measures an answer while it comes, so that one without end fills neither the memory nor the store. */
class AnswerMeter {
  readonly #limits: AnswerLimits;
  #characters = 0;
  #tokens = 0;
  #uncounted = "";

  constructor(limits: AnswerLimits) {
    this.#limits = limits;
  }

  /** Characters that may still come. */
  get left(): number {
    return Math.max(0, this.#limits.maxAnswer - this.#characters);
  }

  /** About what the answer took so far. */
  get tokens(): number {
    return this.#tokens + estimateTokens(this.#uncounted);
  }

  /** Says what is too much, once it is. `begun`: how many calls it has asked for. */
  add({ text, reasoning, refusal, written, kept }: Shown, begun: number): AnswerOverLimit | undefined {
    const { maxAnswer, maxTokens, usedTokens } = this.#limits;
    const said = text + reasoning + refusal + written;
    this.#characters += said.length + kept;
    if (this.#characters > maxAnswer) return new AnswerOverLimit(notices.answerLimit(maxAnswer));
    if (begun > MOST_BEGUN) return new AnswerOverLimit(notices.callLimit(MOST_BEGUN));
    this.#uncounted += said;
    if (this.#uncounted.length >= COUNTED_AT_ONCE) {
      this.#tokens += estimateTokens(this.#uncounted);
      this.#uncounted = "";
    }
    const used = usedTokens + this.#tokens;
    return used > maxTokens ? new AnswerOverLimit(notices.tokenLimit(used, maxTokens)) : undefined;
  }
}

/** What carries a trace on from one service to the next: these headers of a request, and no others. */
function traceHeaders(
  headers: Readonly<Record<string, string | string[] | undefined>> | undefined,
): Record<string, string> {
  const traced = ["traceparent", "tracestate", "baggage"].flatMap((name) => {
    const value = headers?.[name];
    return typeof value === "string" && value !== "" ? [[name, value] as const] : [];
  });
  return Object.fromEntries(traced);
}
