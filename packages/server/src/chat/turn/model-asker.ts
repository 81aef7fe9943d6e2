import { v7 as uuid } from "uuid";
import { type StreamOptions, streamCompletion } from "../model/completion.ts";
import { type AnswerFacts, addUsage, DeltaMerger, type ModelUsage } from "../model/deltas.ts";
import { traceHeaders } from "../model/failure.ts";
import {
  calledIn,
  type ModelMessage,
  type ModelTool,
  type ModelToolCall,
  nameOf,
  textOf,
} from "../model/providers.ts";
import { estimateTokens, readResultName } from "../tools.ts";
import { isSettled, type ToolPart } from "./events.ts";
import {
  imageCallOf,
  readTagAnswer,
  TagFilter,
  toModelMessages,
  toTagMessages,
  withoutImages,
} from "./model-messages.ts";
import * as notices from "./notices.ts";
import { AnswerMeter, type Echo, echoOf, failed } from "./tool-calls.ts";
import { appendText, callsIn, nextRound, type Turn, tellState } from "./turn-loop.ts";

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
  readonly #turn: Turn;
  readonly #retry: Pick<StreamOptions, "retries" | "backoff">;
  readonly #compactor: Compactor;
  readonly #clientTools: ReadonlyMap<string, ModelTool>;
  /** The model's ids of calls before the turn. */
  readonly #earlier: ReadonlySet<string>;
  #usage: ModelUsage;
  #facts: AnswerFacts = {};

  constructor(turn: Turn, retry: Pick<StreamOptions, "retries" | "backoff"> = {}) {
    this.#turn = turn;
    this.#retry = retry;
    this.#usage = turn.usage ?? { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
    this.#clientTools = byName(turn.clientTools);
    this.#earlier = new Set(turn.history.flatMap(({ tool_calls }) => tool_calls?.map(({ id }) => id) ?? []));
    const { offered, contextTokens } = turn;
    const definitions = offered.costs.reduce((sum, { tokens }) => sum + tokens, 0);
    const callIdOf = (id: string) =>
      callsIn(turn.parts).find((part) => part.id === id)?.callId || turn.callIdOf?.(id);
    // A window that the definitions alone would fill is still a window.
    const room = Math.max(contextTokens - definitions, contextTokens / 4);
    this.#compactor = new Compactor(room, callIdOf, turn.compacted);
  }

  /** Tokens of all requests. */
  get usage(): ModelUsage {
    return this.#usage;
  }

  /** What else the provider said of its last answer, such as `system_fingerprint`. */
  get facts(): AnswerFacts {
    return this.#facts;
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
    const { endpoint, emit, limits } = turn;
    const round = nextRound(turn.parts);
    const messages = this.#messages();
    const merger = new DeltaMerger();
    const meter = new AnswerMeter({ ...limits, usedTokens: this.#usage.total_tokens });
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
    this.#facts = merger.facts;
    const tagged = filter === undefined ? undefined : readTagAnswer(merger.text, turn);
    if (tagged !== undefined) appendText(turn, "text", round, filter!.rest(tagged.text));
    const calls = tagged?.calls ?? merger.calls();
    // Calls without a word about their end were cut off.
    const finish = tagged?.isCut ? "length" : (merger.finishReason ?? (calls.length === 0 ? "stop" : "cut"));
    for (const [at, call] of calls.entries()) {
      this.#addCall(call, round, at, finish, echoOf(call, at === 0 ? merger : undefined, endpoint.provider));
    }
    await turn.save?.();
    return { finish, calls: calls.length, isClientCallCut: this.#isClientCallCut(finish) };
  }

  #body(messages: readonly ModelMessage[], isFirst: boolean): Record<string, unknown> {
    const { endpoint, body, offered, clientTools } = this.#turn;
    // The client's own tool is meant where both have one of the name.
    const own = offered.tools.filter((tool) => !this.#clientTools.has(String(tool.function?.name)));
    const tools = [...clientTools, ...own];
    const { tool_choice, parallel_tool_calls, ...rest } = body;
    const asked = { ...rest, model: endpoint.model, stream: true, stream_options: { include_usage: true } };
    if (endpoint.toolCalls === "tags") {
      return { ...asked, messages: toTagMessages(messages, tool_choice === "none" ? [] : tools) };
    }
    if (tools.length === 0) return { ...asked, messages };
    // A model that must call a tool every time would never come to an end.
    const isForced = tool_choice !== undefined && tool_choice !== "auto" && tool_choice !== "none";
    return {
      ...asked,
      messages,
      tools,
      ...(tool_choice === undefined || (isForced && !isFirst) ? {} : { tool_choice }),
      ...(parallel_tool_calls === undefined ? {} : { parallel_tool_calls }),
    };
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
    const part: ToolPart = {
      type: "tool",
      round,
      id: this.#isTaken(call.id) ? `call_${uuid().replaceAll("-", "")}` : call.id,
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
    const { type: _type, round: _round, state: _state, echo: _echo, kind: _kind, ...shown } = part;
    emit({ type: "call", ...shown });
    // Mending what was cut off would make a call that the model never meant.
    const isCut = own === undefined && isHalf(part, finish);
    if (isCut) this.#fail(part, notices.cutArguments(name));
    else if (at >= MOST_CALLS) this.#fail(part, notices.tooManyCalls(MOST_CALLS));
  }

  /** Some providers count their calls anew in every answer; here an id stands for one call of the conversation. */
  #isTaken(id: string): boolean {
    return this.#earlier.has(id) || callsIn(this.#turn.parts).some((part) => part.id === id);
  }

  #isClientCallCut(finish: string): boolean {
    const open = callsIn(this.#turn.parts).filter((part) => part.client && !isSettled(part));
    return open.some((part) => isHalf(part, finish));
  }

  #fail(part: ToolPart, error: string): void {
    part.state = failed(part, error);
    tellState(this.#turn, part);
  }

  #count(
    round: number,
    usage: ModelUsage | undefined,
    messages: readonly ModelMessage[],
    { tokens }: AnswerMeter,
  ): void {
    const said = usage ?? estimated(messages, tokens);
    this.#usage = addUsage(this.#usage, said);
    this.#turn.emit({ type: "usage", round, usage: said, total: this.#usage });
  }
}

function byName(tools: readonly ModelTool[]): Map<string, ModelTool> {
  return new Map(
    tools.flatMap((tool) => {
      const name = nameOf(tool);
      return name === undefined ? [] : [[name, tool] as const];
    }),
  );
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

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function estimated(messages: readonly ModelMessage[], completion_tokens: number): ModelUsage {
  const prompt_tokens = messages.reduce((sum, message) => sum + tokensOf(message), 0);
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}

/** From which part of the window on results are taken out, and down to which. */
const FULL = 0.8;
const ROOMY = 0.5;
/** Shorter results are not worth it. */
const SHORTEST = 800;
const SHOWN = 200;
/** Characters of an answer from which on it may be shortened, and how many of its beginning and of its end stay. */
const LONG_ANSWER = 20_000;
const KEPT_OF_ANSWER = 4_000;
/** What the key of images begins with; the rest is the call's id. */
const IMAGES = "images of ";
/** About what an image takes. */
const IMAGE_TOKENS = 1_000;

/**
 * Keeps a conversation within what a model can read: before the window is full, the oldest results give way to a line
 * that says how to read them again, and images that tools returned to one that says that they were there. When that is
 * not enough, the oldest long answers of the model itself are shortened. What was taken out stays out, so that the
 * beginning of the conversation, and with it the provider's prompt cache, changes seldom.
 */
export class Compactor {
  readonly #limit: number;
  readonly #callIdOf: (toolCallId: string) => string | undefined;
  /** What is out: the model's ids of calls, with a word before them for their images. */
  readonly taken: Set<string>;

  /** `limit`: tokens of all messages. `callIdOf`: the rack's id of a call; a result without one cannot be read again. */
  constructor(
    limit: number,
    callIdOf: (toolCallId: string) => string | undefined,
    taken: Iterable<string> = [],
  ) {
    this.#limit = limit;
    this.#callIdOf = callIdOf;
    this.taken = new Set(taken);
  }

  /** Answers with the ids whose results were taken out now. */
  apply(messages: readonly ModelMessage[]): { messages: ModelMessage[]; out: string[] } {
    const before = messages.map((message) => this.#withoutTaken(message));
    let size = before.reduce((sum, message) => sum + tokensOf(message), 0);
    const out: string[] = [];
    if (size <= this.#limit * FULL) return { messages: before, out };
    const last = lastRound(messages);
    for (const [at, message] of before.entries()) {
      if (at >= last || size <= this.#limit * ROOMY) break;
      const key = this.#keyOf(message);
      if (key === undefined || this.taken.has(key)) continue;
      this.taken.add(key);
      out.push(key);
      before[at] = this.#withoutTaken(message);
      size += tokensOf(before[at]) - tokensOf(message);
    }
    if (size > this.#limit * FULL) this.#shortenAnswers(before, size);
    return { messages: before, out };
  }

  /** A conversation only grows, so that what is shortened once is shortened ever after. */
  #shortenAnswers(messages: ModelMessage[], size: number): void {
    let left = size;
    for (const [at, message] of messages.entries()) {
      if (left <= this.#limit * ROOMY) return;
      if (message.role !== "assistant" || textOf(message).length < LONG_ANSWER) continue;
      const shorter = { ...message, content: headAndTail(textOf(message)) };
      messages[at] = shorter;
      left += tokensOf(shorter) - tokensOf(message);
    }
  }

  /** What the message is known by when it is out; undefined for one that has to stay. */
  #keyOf(message: ModelMessage): string | undefined {
    const images = imageCallOf(message);
    if (images !== undefined) return IMAGES + images;
    const id = message.tool_call_id;
    if (message.role !== "tool" || id === undefined || this.#callIdOf(id) === undefined) return undefined;
    return this.taken.has(id) || textOf(message).length >= SHORTEST ? id : undefined;
  }

  #withoutTaken(message: ModelMessage): ModelMessage {
    const key = this.#keyOf(message);
    if (key === undefined || !this.taken.has(key)) return message;
    if (key.startsWith(IMAGES))
      return { role: "user", content: `${textOf(message)} taken out to make room.` };
    const callId = this.#callIdOf(key);
    const text = textOf(message);
    const content =
      `${text.slice(0, SHOWN).toWellFormed()}\n… This result of ${message.name ?? "the tool"} was taken out to make room. It had ` +
      `${text.length} characters and is kept as call ${callId}; to read it again, call ${readResultName} with that callId.`;
    return { ...message, content };
  }
}

function headAndTail(text: string): string {
  const left = text.length - 2 * KEPT_OF_ANSWER;
  return [
    text.slice(0, KEPT_OF_ANSWER).toWellFormed(),
    `… ${left} characters of this answer were left out here to make room. The person has all of it.`,
    text.slice(-KEPT_OF_ANSWER).toWellFormed(),
  ].join("\n");
}

/** Where the last answer of the model begins: the results that it has not read yet stay. */
function lastRound(messages: readonly ModelMessage[]): number {
  const at = messages.findLastIndex(({ role }) => role === "assistant");
  return at === -1 ? messages.length : at;
}

export function tokensOf(message: ModelMessage): number {
  const calls = message.tool_calls === undefined ? "" : JSON.stringify(message.tool_calls);
  const { reasoning_content = "", reasoning = "", reasoning_details = "" } = message;
  const thoughts = [reasoning_content, reasoning, reasoning_details].map((thought) =>
    typeof thought === "string" ? thought : JSON.stringify(thought),
  );
  const images = Array.isArray(message.content)
    ? message.content.filter(({ type }) => type !== "text").length
    : 0;
  return (
    estimateTokens(textOf(message) + thoughts.join("")) + estimateTokens(calls) + images * IMAGE_TOKENS + 4
  );
}
