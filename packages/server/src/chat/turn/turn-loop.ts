import type { ToolInfo } from "@toolrack/core";
import type { ApprovalInbox } from "../../calls/index.ts";
import { callToolName } from "../../calls/index.ts";
import { unlessAborted } from "../../helpers/index.ts";
import type { StoredApproval } from "../../store/index.ts";
import { separator } from "../completion-shape.ts";
import type { StreamOptions } from "../model/completion.ts";
import type { AnswerFacts, ModelUsage } from "../model/deltas.ts";
import { ProviderError } from "../model/failure.ts";
import type { ModelEndpoint, ModelMessage, ModelTool } from "../model/providers.ts";
import type { ChatReach, OfferedTools, ToolsService } from "../tools.ts";
import {
  isSettled,
  isTool,
  type MessagePart,
  type ShownApproval,
  type TextPart,
  type ToolPart,
  type TurnEnd,
  type TurnEvent,
} from "./events.ts";
import { ModelAsker } from "./model-asker.ts";
import * as notices from "./notices.ts";
import { AnswerOverLimit, failed, runToolCall } from "./tool-calls.ts";

interface TurnLoopParts {
  readonly tools: ToolsService;
  readonly approvals: Pick<ApprovalInbox, "subscribe">;
  /** Makes one call; `runToolCall` unless told. */
  readonly runCall?: typeof runToolCall;
  readonly retry?: Pick<StreamOptions, "retries" | "backoff">;
}

/**
 * Asks the model, makes the calls that it asks for, tells it what came of them, and so on until it has said all or a
 * limit is reached.
 */
export class TurnLoop {
  readonly #turn: Turn;
  readonly #parts: TurnLoopParts;
  readonly #clock: TurnClock;
  readonly #signal: AbortSignal;
  readonly #asker: ModelAsker;
  readonly #waiting = new Set<string>();
  #circles: TurnEnd | undefined;

  constructor(turn: Turn, parts: TurnLoopParts) {
    this.#turn = turn;
    this.#parts = parts;
    this.#clock = new TurnClock(turn.limits.maxSeconds * 1000);
    this.#signal = AbortSignal.any([turn.signal, this.#clock.signal]);
    this.#asker = new ModelAsker(turn, parts.retry);
  }

  /** Tokens of all requests. */
  get usage(): ModelUsage {
    return this.#asker.usage;
  }

  /** What else the provider said of its last answer, such as `system_fingerprint`. */
  get facts(): AnswerFacts {
    return this.#asker.facts;
  }

  /** The calls whose results are no longer shown to the model, by its own ids. */
  get compacted(): string[] {
    return this.#asker.compacted;
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
      for (const part of settleOpenCalls(this.#turn.parts)) tellState(this.#turn, part);
    }
    const notice = notices.noticeOf(end);
    if (notice !== undefined) this.#addNotice(notice);
    return end;
  }

  async #rounds(): Promise<TurnEnd> {
    const { limits, parts } = this.#turn;
    // Of a turn that is taken up again, some calls may be left, and its rounds count.
    await this.#makeCalls();
    for (let asked = nextRound(parts) - 1; ; asked++) {
      if (this.#circles !== undefined) return this.#circles;
      if (callsIn(parts).some((part) => part.client && !isSettled(part))) return { reason: "client_tools" };
      if (asked >= limits.maxRounds) return { reason: "limit", message: notices.roundLimit(asked) };
      const used = this.usage.total_tokens;
      if (used >= limits.maxTokens)
        return { reason: "limit", message: notices.tokenLimit(used, limits.maxTokens) };
      const { finish, calls, isClientCallCut } = await this.#asker.ask(this.#signal, asked === 0);
      if (calls === 0)
        return { reason: finish === "length" || finish === "content_filter" ? finish : "stop" };
      if (isClientCallCut) return { reason: finish === "content_filter" ? finish : "length" };
      await this.#makeCalls();
    }
  }

  /** Calls that only read are made side by side, all others one after the other, in the order of the model. */
  async #makeCalls(): Promise<void> {
    const { save, leaving, parts } = this.#turn;
    const open = callsIn(parts).filter((part) => !part.client && !isSettled(part));
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

  /** Behind text that was cut it is a paragraph of its own; else it is a text like that of another round. */
  #addNotice(notice: string): void {
    const { parts } = this.#turn;
    const last = parts.at(-1);
    if (last?.type === "text") appendText(this.#turn, "text", last.round, separator(last.text) + notice);
    else appendText(this.#turn, "text", nextRound(parts), notice);
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
  const open = callsIn(parts).filter((part) => !part.client && !isSettled(part));
  for (const part of open) part.state = failed(part, notices.stoppedCall);
  return open;
}

export function shownApproval(approval: StoredApproval): ShownApproval {
  const { id, callId, toolName, displayName, input, message, state, expiresAt, reason } = approval;
  const said = reason === undefined ? {} : { reason };
  return { id, callId, toolName, displayName, input, message, state, expiresAt, ...said };
}

export interface TurnLimits {
  readonly maxRounds: number;
  readonly maxSeconds: number;
  readonly maxTokens: number;
  /** Characters of one answer of the model. */
  readonly maxAnswer: number;
}

/** All that the loop between a model and the rack is given: from one message of a person to the end of the answer. */
export interface Turn {
  readonly id: string;
  readonly sessionID: string;
  readonly reach: ChatReach;
  readonly endpoint: ModelEndpoint;
  /** What the model is told before the turn. */
  readonly history: readonly ModelMessage[];
  /** What else is said to the provider, such as `temperature`. */
  readonly body: Readonly<Record<string, unknown>>;
  readonly offered: OfferedTools;
  /** Tools that the client runs itself. */
  readonly clientTools: readonly ModelTool[];
  /** The turn as it is so far. The loop adds to it. */
  readonly parts: MessagePart[];
  readonly limits: TurnLimits;
  /** Tokens that the turn took before it was taken up again. */
  readonly usage?: ModelUsage | undefined;
  /** Tokens that the model can read at a time. */
  readonly contextTokens: number;
  /** The calls whose results were taken out of the history before, by the model's ids. */
  readonly compacted?: Iterable<string>;
  /** The rack's id of a call in the history, by the model's. */
  readonly callIdOf?: (toolCallId: string) => string | undefined;
  /** Ends the turn and cancels its calls. */
  readonly signal: AbortSignal;
  /** The server ends: the turn is left as it is, and its calls too. */
  readonly leaving: AbortSignal;
  /** What carries a trace on. */
  readonly headers?: Readonly<Record<string, string | string[] | undefined>>;
  readonly emit: (event: TurnEvent) => void;
  /** Keeps the parts, or only waits. Awaited before a call is made, so that what may have happened is known afterwards. */
  readonly save?: () => Promise<void>;
}

/** The calls of a turn so far. */
export function callsIn(parts: readonly MessagePart[]): ToolPart[] {
  return parts.filter(isTool);
}

/** The number of the round that comes after the parts. */
export function nextRound(parts: readonly MessagePart[]): number {
  return (parts.at(-1)?.round ?? 0) + 1;
}

/** Adds what was said to the turn, and tells of it. */
export function appendText(
  { parts, emit }: Pick<Turn, "parts" | "emit">,
  type: TextPart["type"],
  round: number,
  text: string,
  logprobs?: unknown,
): void {
  if (text === "") return;
  const last = parts.at(-1);
  if (last?.type === type && last.round === round) last.text += text;
  else parts.push({ type, round, text });
  emit({ type, text, ...(logprobs === undefined ? {} : { logprobs }) });
}

export function tellState({ emit }: Pick<Turn, "emit">, { callId, name, state }: ToolPart): void {
  emit({ type: "state", callId, name, state });
}

/** Measures how long a turn has worked, without the time in which it waits for a person. */
export class TurnClock {
  readonly #controller = new AbortController();
  #left: number;
  #since = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #pauses = 0;

  /** `limit` in milliseconds. */
  constructor(limit: number) {
    this.#left = limit;
    this.#start();
  }

  /** Aborts when the time is over. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** To be followed by one `resume`. */
  pause(): void {
    if (this.#pauses++ > 0) return;
    clearTimeout(this.#timer);
    this.#left -= performance.now() - this.#since;
  }

  resume(): void {
    if (this.#pauses === 0 || --this.#pauses > 0) return;
    this.#start();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #start(): void {
    this.#since = performance.now();
    // A timer holds no more than 24 days.
    const delay = Math.min(Math.max(0, this.#left), 2 ** 31 - 1);
    this.#timer = setTimeout(() => this.#controller.abort(new OutOfTime()), delay);
  }
}

/** The turn took as long as it may. */
class OutOfTime extends Error {
  override readonly name = "OutOfTime";
}

/** Calls in their order: neighbours that only read may be made side by side, any other is by itself. */
function batchesOf(calls: readonly ToolPart[], isReadOnly: (part: ToolPart) => boolean): ToolPart[][] {
  const batches: ToolPart[][] = [];
  let isOpen = false;
  for (const part of calls) {
    const mayJoin = isReadOnly(part);
    if (mayJoin && isOpen) batches.at(-1)!.push(part);
    else batches.push([part]);
    isOpen = mayJoin;
  }
  return batches;
}

/** Whether a call of the tool that was interrupted may be made again without doing anything twice. */
export function isRepeatable(info: ToolInfo | undefined): boolean {
  if (info === undefined) return false;
  const { readOnly, idempotent } = info.metadata;
  // It does nothing but call another, which waits for consent and so has not run.
  return readOnly === true || idempotent === true || info.name === callToolName;
}
