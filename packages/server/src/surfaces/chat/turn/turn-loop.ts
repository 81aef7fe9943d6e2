import type { ApprovalInbox } from "../../../approvals/approval-inbox.ts";
import { unlessAborted } from "../../../async/unless-aborted.ts";
import type { StoredApproval } from "../../../store/approvals/approval-store.ts";
import { separator } from "../completion-shape.ts";
import type { ModelUsage } from "../model/completion-chunk.ts";
import type { AnswerFacts } from "../model/delta-merger.ts";
import { ProviderError } from "../model/provider-error.ts";
import type { StreamOptions } from "../model/stream-completion.ts";
import type { ToolsService } from "../tools/tools-service.ts";
import { AnswerOverLimit } from "./answer-meter.ts";
import { batchesOf } from "./batches-of.ts";
import { isSettled, type MessagePart, type ToolPart } from "./message-part.ts";
import { ModelAsker } from "./model-asker.ts";
import * as notices from "./notices.ts";
import { failed, runToolCall } from "./run-tool-call.ts";
import type { Turn } from "./turn.ts";
import { OutOfTime, TurnClock } from "./turn-clock.ts";
import type { ShownApproval, TurnEnd } from "./turn-event.ts";
import { appendText, callsIn, nextRound, tellState } from "./turn-parts.ts";

export interface TurnLoopParts {
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
