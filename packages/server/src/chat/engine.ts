import type { EndedCall } from "../calls/index.ts";
import { unlessAborted, whenAborted } from "../helpers/index.ts";
import { type NewUsage, type StoredApproval, StoreUnavailable } from "../store/index.ts";
import { handOver } from "./client-calls.ts";
import { ChatError, ProviderError } from "./errors.ts";
import { cachedTokensOf, costOf, type ModelEndpoint, type ModelUsage, topicOf } from "./model.ts";
import * as notices from "./model-messages.ts";
import { AnswerOverLimit, ask, type OpenTurn, openTurn } from "./model-request.ts";
import { type ChatServices, type TurnLimits, usualLimits } from "./services.ts";
import { type ToolsService, usualBudget } from "./tools.ts";
import {
  appendText,
  approvalEvent,
  isSettled,
  isTool,
  nextRound,
  openCalls,
  separator,
  settleOpenCalls,
  stateEvent,
  type ToolPart,
  type Turn,
  type TurnEnd,
} from "./turn.ts";

/** Context window of a model in tokens, unless the config sets one for the model or for the chat. */
const USUAL_CONTEXT = 128_000;

export type Verdict = NonNullable<NonNullable<EndedCall["record"]["flags"]>["loop"]>;

/** Makes a call that the model asked for, and stores the outcome in its part. Returns the verdict of loop detection. */
type CallMaker = (part: ToolPart, turn: OpenTurn, signal: AbortSignal) => Promise<Verdict | undefined>;

/**
 * Runs every turn, for sessions and for clients that keep their conversations themselves. A message goes from
 * `ChatService.handleStream` to `run`; each call that the model asks for goes to `ChatService.handleRunToolCall`, and from
 * there to `ToolsService.runTools`.
 */
export class TurnEngine {
  readonly #services: ChatServices;
  readonly #tools: Pick<ToolsService, "getTools">;
  readonly #makeCall: CallMaker;
  readonly #leaving = new AbortController();
  /** The controllers of `OpenTurn.asking`. */
  readonly #asking = new Set<AbortController>();

  constructor(services: ChatServices, tools: Pick<ToolsService, "getTools">, makeCall: CallMaker) {
    this.#services = services;
    this.#tools = tools;
    this.#makeCall = makeCall;
  }

  get limits(): TurnLimits {
    const { maxRounds, maxSeconds, maxTokens, maxAnswer } = { ...usualLimits, ...this.#services.config };
    return { maxRounds, maxSeconds, maxTokens, maxAnswer };
  }

  get toolBudget(): number {
    return this.#services.config.toolBudget ?? usualBudget;
  }

  /** Aborted when the server stops. Running turns then end as interrupted, and recovery takes them over. */
  get leaving(): AbortSignal {
    return this.#leaving.signal;
  }

  /**
   * Asks the model, makes its calls, sends the results back, and repeats until the model is done or a limit
   * is reached. In the result, `calls` are those that the client must run, `compacted` has the `Compactor`'s keys
   * of what was removed from the conversation, and `chosen` the names of the offered tools when not all could be
   * offered. Rejects only for unexpected errors.
   */
  async run(given: Turn) {
    const { reach, history, sessionID, parts, emit, handoffId } = given;
    const { config, approvals, providers, store } = this.#services;
    const { health } = providers;
    const { limits, leaving } = this;
    const offered = await this.#tools.getTools(reach, {
      budget: this.toolBudget,
      query: topicOf(history),
      sessionID,
      chosen: given.chosen,
    });
    const contextTokens = config.contextTokens ?? USUAL_CONTEXT;
    const clock = new TurnClock(limits.maxSeconds * 1000, given.signal);
    const asking = this.#askingUntil(clock.signal);
    const noteUsage = (asked: ModelEndpoint, usage: ModelUsage) =>
      store.usage.add(usageOf(reach.grant.caller, asked, usage, given.isPassingSession ? "" : sessionID));
    const setting = { offered, limits, leaving, asking: asking.signal, health, noteUsage };
    const turn = openTurn(given, contextTokens, setting);
    const unsubscribe = approvals.subscribe((approval) => {
      if (approval.sessionID !== sessionID) return;
      clock.note(approval);
      emit(approvalEvent(approval));
    });
    try {
      const rounds = this.#rounds(turn, clock.signal);
      const end = await rounds.catch((thrown) => endOf(thrown, turn, clock));
      // An interrupted turn is resumed later, so its calls stay open.
      if (end.reason !== "interrupted") for (const part of settleOpenCalls(parts)) emit(stateEvent(part));
      if (end.reason === "limit" || end.reason === "loop") addNotice(turn, `[${end.message}]`);
      const { usage, facts, compactor, endpoint } = turn;
      const handover = { owner: reach.grant.id, sessionID, endpoint, handoffId };
      const calls = end.reason === "client_tools" ? await handOver(parts, handover, store.chat) : [];
      return { end, usage, facts, calls, endpoint, compacted: [...compactor.taken], chosen: offered.chosen };
    } finally {
      unsubscribe();
      clock.end();
      this.#asking.delete(asking);
    }
  }

  close(): void {
    this.#leaving.abort(new Error("the server is stopping"));
    for (const asking of this.#asking) asking.abort(this.#leaving.signal.reason);
  }

  /**
   * Returns a controller that is aborted with the given signal, and when the server stops. `AbortSignal.any` would
   * take several times as long.
   */
  #askingUntil(signal: AbortSignal): AbortController {
    const asking = new AbortController();
    whenAborted(signal, () => asking.abort(signal.reason));
    if (this.leaving.aborted) asking.abort(this.leaving.reason);
    this.#asking.add(asking);
    return asking;
  }

  async #rounds(turn: OpenTurn, signal: AbortSignal): Promise<TurnEnd> {
    const { limits, parts } = turn;
    // A resumed turn may have calls left to make, and its earlier rounds count towards the limit.
    let loopEnd = await this.#makeCalls(turn, signal);
    for (let asked = nextRound(parts) - 1; loopEnd === undefined; asked++) {
      if (parts.some((part) => isTool(part) && part.client && !isSettled(part)))
        return { reason: "client_tools" };
      if (asked >= limits.maxRounds) return { reason: "limit", message: notices.roundLimit(asked) };
      const used = turn.usage.total_tokens;
      if (used >= limits.maxTokens)
        return { reason: "limit", message: notices.tokenLimit(used, limits.maxTokens) };
      const { finish, calls, isClientCallCut } = await ask(turn, asked === 0);
      if (calls === 0)
        return { reason: finish === "length" || finish === "content_filter" ? finish : "stop" };
      if (isClientCallCut) return { reason: finish === "content_filter" ? finish : "length" };
      loopEnd = await this.#makeCalls(turn, signal);
    }
    return loopEnd;
  }

  /**
   * Makes the open calls: read-only calls in parallel, all others one after another in the model's order. Returns the
   * end of the turn when loop detection stops it.
   */
  async #makeCalls(turn: OpenTurn, signal: AbortSignal): Promise<TurnEnd | undefined> {
    const { save, leaving, parts } = turn;
    let loopEnd: TurnEnd | undefined;
    const makeOne = async (part: ToolPart) => {
      const loop = await this.#makeCall(part, turn, signal);
      if (loop?.action === "stop")
        loopEnd = { reason: "loop", message: notices.wentInCircles(loop.evidence) };
    };
    for (const batch of batchesOf(openCalls(parts), turn)) {
      signal.throwIfAborted();
      for (const part of batch) part.started = true;
      await save?.();
      await unlessAborted(Promise.all(batch.map(makeOne)), leaving);
      await save?.();
    }
    signal.throwIfAborted();
    return loopEnd;
  }
}

/** Groups calls in order: adjacent read-only calls share a batch, every other call has its own. */
function batchesOf(calls: readonly ToolPart[], { offered }: OpenTurn): ToolPart[][] {
  const batches: ToolPart[][] = [];
  let isOpen = false;
  for (const part of calls) {
    const metadata = offered.infos.get(part.name)?.metadata;
    // Dangerous calls run alone, so that a person is asked one question at a time.
    const mayJoin = metadata?.readOnly === true && metadata.dangerous !== true;
    if (mayJoin && isOpen) batches.at(-1)!.push(part);
    else batches.push([part]);
    isOpen = mayJoin;
  }
  return batches;
}

/**
 * Adds a notice to the answer: after text as a new paragraph of the same round, otherwise as the text of a
 * new round.
 */
function addNotice(turn: OpenTurn, notice: string): void {
  const last = turn.parts.at(-1);
  if (last?.type === "text") appendText(turn, "text", last.round, separator(last.text) + notice);
  else appendText(turn, "text", nextRound(turn.parts), notice);
}

function endOf(thrown: unknown, { signal, leaving, limits }: OpenTurn, clock: TurnClock): TurnEnd {
  if (signal.aborted) return { reason: "stopped" };
  if (clock.signal.aborted) return { reason: "limit", message: notices.timeLimit(limits.maxSeconds) };
  if (leaving.aborted) return { reason: "interrupted" };
  if (thrown instanceof AnswerOverLimit) return { reason: "limit", message: thrown.message };
  if (thrown instanceof ProviderError) return failedEnd(thrown);
  throw thrown;
}

/** What the statistics keep of a request to a model. */
export function usageOf(caller: string, endpoint: ModelEndpoint, usage: ModelUsage, session = ""): NewUsage {
  const { provider, model, price } = endpoint;
  const { prompt_tokens, completion_tokens, estimated } = usage;
  return {
    caller,
    model: `${provider}/${model}`,
    session,
    estimated: estimated === true,
    promptTokens: prompt_tokens,
    cachedTokens: cachedTokensOf(usage),
    completionTokens: completion_tokens,
    cost: costOf(price, usage) ?? 0,
  };
}

export function failedEnd({ message, kind, retryAfter, details }: ProviderError): TurnEnd {
  const later = retryAfter === undefined ? {} : { retryAfter };
  return { reason: "error", message, code: `provider_${kind}`, details, ...later };
}

/** The end of a turn by an error that is not the provider's. Errors that are not meant for people are hidden. */
export function unexpectedEnd(thrown: unknown): TurnEnd {
  if (thrown instanceof StoreUnavailable) {
    const { message, code, retryAfter } = thrown;
    return { reason: "error", message, code, retryAfter };
  }
  // Errors that are meant for people have a code and their own name.
  if (thrown instanceof ChatError) return { reason: "error", message: thrown.message, code: thrown.code };
  const isForPeople = thrown instanceof Error && "code" in thrown && thrown.name !== "Error";
  const message = isForPeople
    ? thrown.message
    : "The server failed to answer this message. Its log says why.";
  return { reason: "error", message, code: "internal_error" };
}

/** Measures the working time of a turn, without the time in which it waits for a person. */
export class TurnClock {
  readonly #controller = new AbortController();
  /** Ids of unanswered approvals. */
  readonly #waiting = new Set<string>();
  readonly #unfollow: () => void;
  #left: number;
  #since = 0;
  #timer: NodeJS.Timeout | undefined;

  /** `limit` in milliseconds. `stopping`: ends the turn earlier. */
  constructor(limit: number, stopping: AbortSignal) {
    this.#left = limit;
    this.#resume();
    this.#unfollow = whenAborted(stopping, () => this.#controller.abort(stopping.reason));
  }

  /** Aborted when the turn is stopped, or when its time is over. A signal of its own is cheaper than a combined one. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Pauses the clock while any approval waits for a person. */
  note({ id, state }: StoredApproval): void {
    if (state === "pending") {
      this.#waiting.add(id);
      this.pause();
    } else if (this.#waiting.delete(id) && this.#waiting.size === 0) this.#resume();
  }

  pause(): void {
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#left -= performance.now() - this.#since;
  }

  /** Must be called when the turn has ended. */
  end(): void {
    this.pause();
    this.#unfollow();
  }

  #resume(): void {
    this.#since = performance.now();
    // Timers take at most 2^31 - 1 milliseconds.
    const delay = Math.min(Math.max(0, this.#left), 2 ** 31 - 1);
    this.#timer = setTimeout(() => {
      this.#controller.abort(new Error("the turn took as long as it may"));
    }, delay);
  }
}
