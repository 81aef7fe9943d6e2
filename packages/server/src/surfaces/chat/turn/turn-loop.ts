import { v7 as uuid } from "uuid";
import type { ApprovalInbox } from "../../../approvals/approval-inbox.ts";
import type { StoredApproval } from "../../../store/approvals/approval-store.ts";
import { separator } from "../completion-shape.ts";
import { addUsage } from "../model/add-usage.ts";
import type { ModelUsage } from "../model/completion-chunk.ts";
import { DeltaMerger } from "../model/delta-merger.ts";
import type { ModelMessage, ModelTool, ModelToolCall } from "../model/model-message.ts";
import { ProviderError } from "../model/provider-error.ts";
import { type StreamOptions, streamCompletion } from "../model/stream-completion.ts";
import { traceHeaders } from "../model/trace-headers.ts";
import type { ToolsService } from "../tools/tools-service.ts";
import { AnswerMeter, AnswerOverLimit } from "./answer-meter.ts";
import { batchesOf } from "./batches-of.ts";
import { Compactor, tokensOf } from "./compactor.ts";
import {
  type Echo,
  isSettled,
  isTool,
  type MessagePart,
  type TextPart,
  type ToolPart,
} from "./message-part.ts";
import * as notices from "./notices.ts";
import { failed, runToolCall } from "./run-tool-call.ts";
import { TagFilter } from "./tag-filter.ts";
import { readTagAnswer, toTagMessages } from "./tag-form.ts";
import { toModelMessages, withoutImages } from "./to-model-messages.ts";
import type { Turn } from "./turn.ts";
import { OutOfTime, TurnClock } from "./turn-clock.ts";
import type { ShownApproval, TurnEnd } from "./turn-event.ts";
import { unlessAborted } from "./unless-aborted.ts";

export interface TurnLoopParts {
  readonly tools: ToolsService;
  readonly approvals: Pick<ApprovalInbox, "subscribe">;
  /** Makes one call; `runToolCall` unless told. */
  readonly runCall?: typeof runToolCall;
  readonly retry?: Pick<StreamOptions, "retries" | "backoff">;
}

/** What a provider says of an answer that it does not mean to go on with. */
const wholeFinishes = new Set(["tool_calls", "function_call", "stop"]);
/** Calls of one message that are made; the rest is told to come back. */
const MOST_CALLS = 128;

/**
 * Asks the model, makes the calls that it asks for, tells it what came of them, and so on until it has said all or a
 * limit is reached.
 */
export class TurnLoop {
  readonly #turn: Turn;
  readonly #parts: TurnLoopParts;
  readonly #clock: TurnClock;
  readonly #signal: AbortSignal;
  readonly #compactor: Compactor;
  readonly #clientTools: ReadonlySet<string>;
  /** The model's ids of calls before the turn. */
  readonly #earlier: ReadonlySet<string>;
  readonly #waiting = new Set<string>();
  #usage: ModelUsage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
  #facts: Readonly<Record<string, unknown>> = {};
  #circles: TurnEnd | undefined;

  constructor(turn: Turn, parts: TurnLoopParts) {
    this.#turn = turn;
    this.#parts = parts;
    this.#clock = new TurnClock(turn.limits.maxSeconds * 1000);
    this.#signal = AbortSignal.any([turn.signal, this.#clock.signal]);
    this.#clientTools = new Set(turn.clientTools.flatMap((tool) => namesOf(tool)));
    this.#earlier = new Set(turn.history.flatMap(({ tool_calls }) => tool_calls?.map(({ id }) => id) ?? []));
    const { offered, contextTokens } = turn;
    const definitions = offered.costs.reduce((sum, { tokens }) => sum + tokens, 0);
    const callIdOf = (id: string) =>
      this.#calls().find((part) => part.id === id)?.callId || turn.callIdOf?.(id);
    // A window that the definitions alone would fill is still a window.
    const room = Math.max(contextTokens - definitions, contextTokens / 4);
    this.#compactor = new Compactor(room, callIdOf, turn.compacted);
  }

  /** Tokens of all requests. */
  get usage(): ModelUsage {
    return this.#usage;
  }

  /** What else the provider said of its last answer, such as `system_fingerprint`. */
  get facts(): Readonly<Record<string, unknown>> {
    return this.#facts;
  }

  /** The calls whose results are no longer shown to the model, by its own ids. */
  get compacted(): string[] {
    return [...this.#compactor.taken];
  }

  /** Rejects only for what nobody could foresee. */
  async run(): Promise<TurnEnd> {
    const unsubscribe = this.#parts.approvals.subscribe((approval) => this.#hear(approval));
    let end: TurnEnd;
    try {
      end = await this.#rounds();
    } catch (thrown) {
      end = this.#endOf(thrown);
    } finally {
      unsubscribe();
      this.#clock.stop();
    }
    // Nothing of a turn that is only left is decided yet.
    if (end.reason !== "interrupted") {
      for (const part of settleOpenCalls(this.#turn.parts)) this.#tellState(part);
    }
    const notice = notices.noticeOf(end);
    if (notice !== undefined) this.#addNotice(notice);
    return end;
  }

  async #rounds(): Promise<TurnEnd> {
    const { limits } = this.#turn;
    // Of a turn that is taken up again, some calls may be left.
    await this.#makeCalls();
    for (let asked = 0; ; asked++) {
      if (this.#circles !== undefined) return this.#circles;
      if (this.#calls().some((part) => part.client && !isSettled(part))) return { reason: "client_tools" };
      if (asked >= limits.maxRounds) return { reason: "limit", message: notices.roundLimit(asked) };
      const used = this.#usage.total_tokens;
      if (used >= limits.maxTokens)
        return { reason: "limit", message: notices.tokenLimit(used, limits.maxTokens) };
      const { finish, calls } = await this.#ask(asked === 0);
      if (calls === 0)
        return { reason: finish === "length" || finish === "content_filter" ? finish : "stop" };
      if (this.#isClientCallCut(finish)) return { reason: finish === "content_filter" ? finish : "length" };
      await this.#makeCalls();
    }
  }

  /** Half a call is nothing that a client could run. */
  #isClientCallCut(finish: string): boolean {
    if (finish === "tool_calls" || finish === "function_call" || finish === "stop") return false;
    return this.#calls().some((part) => part.client && !isSettled(part) && !isJson(part.arguments));
  }

  /** One answer of the model, put into parts. */
  async #ask(isFirst: boolean): Promise<{ finish: string; calls: number }> {
    const { endpoint, emit, signal: stopped, leaving, limits } = this.#turn;
    const round = this.#nextRound();
    const messages = this.#messages();
    const merger = new DeltaMerger();
    const meter = new AnswerMeter({ ...limits, usedTokens: this.#usage.total_tokens });
    const filter = endpoint.toolCalls === "tags" ? new TagFilter() : undefined;
    const stream = streamCompletion(endpoint, this.#body(messages, isFirst), {
      ...this.#parts.retry,
      signal: AbortSignal.any([this.#signal, leaving]),
      headers: traceHeaders(this.#turn.headers),
      onRetry: (retry) => emit({ type: "retry", ...retry }),
    });
    for await (const chunk of stream) {
      const { left } = meter;
      const shown = merger.add(chunk);
      const over = meter.add(shown, merger.begun);
      const fitting = (text: string) => (over === undefined ? text : text.slice(0, left).toWellFormed());
      this.#append("reasoning", round, fitting(shown.reasoning));
      this.#append("refusal", round, fitting(shown.refusal));
      const text = fitting(shown.text);
      this.#append("text", round, filter === undefined ? text : filter.add(text), shown.logprobs);
      if (over === undefined) continue;
      this.#count(round, merger.usage, messages, meter);
      throw over;
    }
    stopped.throwIfAborted();
    this.#count(round, merger.usage, messages, meter);
    this.#facts = merger.facts;
    const tagged = filter === undefined ? undefined : readTagAnswer(merger.text, this.#turn);
    if (tagged !== undefined) this.#append("text", round, filter!.rest(tagged.text));
    const calls = tagged?.calls ?? merger.calls();
    // Calls without a word about their end were cut off.
    const finish = tagged?.isCut ? "length" : (merger.finishReason ?? (calls.length === 0 ? "stop" : "cut"));
    for (const [at, call] of calls.entries()) {
      this.#addCall(call, round, at, finish, echoOf(call, at === 0 ? merger : undefined, endpoint.provider));
    }
    await this.#turn.save?.();
    return { finish, calls: calls.length };
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

  #addCall(
    { id: given, function: called }: ModelToolCall,
    round: number,
    at: number,
    finish: string,
    echo: Echo | undefined,
  ): void {
    const { offered, parts, emit } = this.#turn;
    const { name, arguments: written } = called;
    const isClients = this.#clientTools.has(name);
    const info = offered.infos.get(name);
    const part: ToolPart = {
      type: "tool",
      round,
      id: this.#isTaken(given) ? `call_${uuid().replaceAll("-", "")}` : given,
      callId: isClients ? "" : uuid(),
      name,
      displayName: info?.displayName ?? info?.title ?? name,
      arguments: written,
      ...(isClients ? { client: true } : {}),
      ...(echo === undefined ? {} : { echo }),
      state: { status: "pending", input: {}, raw: written },
    };
    parts.push(part);
    const { type: _type, round: _round, state: _state, echo: _echo, ...shown } = part;
    emit({ type: "call", ...shown });
    // Mending what was cut off would make a call that the model never meant.
    const isCut = !wholeFinishes.has(finish) && !isClients && !isJson(written);
    if (isCut) this.#fail(part, notices.cutArguments(name));
    else if (at >= MOST_CALLS) this.#fail(part, notices.tooManyCalls(MOST_CALLS));
  }

  /** Some providers count their calls anew in every answer; here an id stands for one call of the conversation. */
  #isTaken(id: string): boolean {
    return this.#earlier.has(id) || this.#calls().some((part) => part.id === id);
  }

  /** Calls that only read are made side by side, all others one after the other, in the order of the model. */
  async #makeCalls(): Promise<void> {
    const { save, leaving } = this.#turn;
    const open = this.#calls().filter((part) => !part.client && !isSettled(part));
    for (const batch of batchesOf(open, (part) => this.#isReadOnly(part))) {
      this.#signal.throwIfAborted();
      for (const part of batch) part.started = true;
      await save?.();
      await unlessAborted(Promise.all(batch.map((part) => this.#makeCall(part))), leaving);
      await save?.();
    }
    this.#signal.throwIfAborted();
  }

  async #makeCall(part: ToolPart): Promise<void> {
    const { runCall = runToolCall, tools } = this.#parts;
    const loop = await runCall(part, this.#turn, tools, this.#signal);
    if (loop?.action !== "stop") return;
    this.#circles = { reason: "loop", message: notices.wentInCircles(loop.evidence) };
  }

  #isReadOnly({ name }: ToolPart): boolean {
    const metadata = this.#turn.offered.infos.get(name)?.metadata;
    // What a person is asked about is asked one by one.
    return metadata?.readOnly === true && metadata.dangerous !== true;
  }

  #calls(): ToolPart[] {
    return this.#turn.parts.filter(isTool);
  }

  #nextRound(): number {
    return (this.#turn.parts.at(-1)?.round ?? 0) + 1;
  }

  /** Behind text that was cut it is a paragraph of its own; else it is a text like that of another round. */
  #addNotice(notice: string): void {
    const last = this.#turn.parts.at(-1);
    if (last?.type === "text") this.#append("text", last.round, separator(last.text) + notice);
    else this.#append("text", this.#nextRound(), notice);
  }

  #append(type: TextPart["type"], round: number, text: string, logprobs?: unknown): void {
    if (text === "") return;
    const { parts, emit } = this.#turn;
    const last = parts.at(-1);
    if (last?.type === type && last.round === round) last.text += text;
    else parts.push({ type, round, text });
    emit({ type, text, ...(logprobs === undefined ? {} : { logprobs }) });
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

  /** While a person is asked something, the clock stands still. */
  #hear(approval: StoredApproval): void {
    if (approval.sessionID !== this.#turn.sessionID) return;
    const { id, state } = approval;
    if (state === "pending" && !this.#waiting.has(id)) {
      this.#waiting.add(id);
      this.#clock.pause();
    }
    if (state !== "pending" && this.#waiting.delete(id)) this.#clock.resume();
    this.#turn.emit({ type: "approval", approval: shownApproval(approval) });
  }

  #fail(part: ToolPart, error: string): void {
    part.state = failed(part, error);
    this.#tellState(part);
  }

  #tellState({ callId, name, state }: ToolPart): void {
    this.#turn.emit({ type: "state", callId, name, state });
  }

  #endOf(thrown: unknown): TurnEnd {
    const { signal, leaving, limits } = this.#turn;
    if (signal.aborted) return { reason: "stopped" };
    if (this.#clock.signal.aborted || thrown instanceof OutOfTime) {
      return { reason: "limit", message: notices.timeLimit(limits.maxSeconds) };
    }
    if (leaving.aborted) return { reason: "interrupted" };
    if (thrown instanceof AnswerOverLimit) return { reason: "limit", message: thrown.message };
    if (!(thrown instanceof ProviderError)) throw thrown;
    const { message, kind, retryAfter, details } = thrown;
    const later = retryAfter === undefined ? {} : { retryAfter };
    return { reason: "error", message, code: `provider_${kind}`, details, ...later };
  }
}

/** Every call gets an answer, or no provider would take the conversation any more. Answers with those that had none. */
export function settleOpenCalls(parts: readonly MessagePart[]): ToolPart[] {
  const open = parts.filter(isTool).filter((part) => !part.client && !isSettled(part));
  for (const part of open) part.state = failed(part, notices.stoppedCall);
  return open;
}

export function shownApproval(approval: StoredApproval): ShownApproval {
  const { id, callId, toolName, displayName, input, message, state, expiresAt, reason } = approval;
  const said = reason === undefined ? {} : { reason };
  return { id, callId, toolName, displayName, input, message, state, expiresAt, ...said };
}

function namesOf({ function: described }: ModelTool): string[] {
  const name = described?.name;
  return typeof name === "string" && name !== "" ? [name] : [];
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** What the provider wants to read again with a call. `merger`: the answer, for its first call. */
function echoOf(call: ModelToolCall, merger: DeltaMerger | undefined, provider: string): Echo | undefined {
  const { id: _id, type: _type, function: _function, ...more } = call;
  const { reasoningField: reasoning, reasoningDetails: details = [] } = merger ?? {};
  const echo = {
    ...(Object.keys(more).length === 0 ? {} : { call: more }),
    ...(details.length === 0 ? {} : { message: { reasoning_details: details } }),
    ...(reasoning === undefined ? {} : { reasoning }),
  };
  return Object.keys(echo).length === 0 ? undefined : { provider, ...echo };
}

function estimated(messages: readonly ModelMessage[], completion_tokens: number): ModelUsage {
  const prompt_tokens = messages.reduce((sum, message) => sum + tokensOf(message), 0);
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}
