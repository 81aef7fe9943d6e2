import type { ToolState } from "@toolrack/core";
import { CallRefused, type EndedCall } from "../calls/index.ts";
import { unlessAborted } from "../helpers/index.ts";
import type { StoredApproval } from "../store/index.ts";
import { AnswerOverLimit, ModelAsker } from "./asker.ts";
import type { ModelUsage } from "./model.ts";
import * as notices from "./notices.ts";
import { ProviderError } from "./provider.ts";
import type { ChatServices } from "./services.ts";
import { stateOf, ToolsService, usualBudget } from "./tools.ts";
import {
  appendText,
  failed,
  isSettled,
  isTool,
  nextRound,
  type OpenTurn,
  openCalls,
  separator,
  settleOpenCalls,
  shownApproval,
  type ToolPart,
  type Turn,
  type TurnEnd,
  type TurnLimits,
} from "./turn.ts";

interface TurnOutcome {
  readonly end: TurnEnd;
  readonly usage: ModelUsage;
  /** Other members of the provider's last answer, such as `system_fingerprint`. */
  readonly facts: Readonly<Record<string, unknown>>;
  /** The model's ids of the calls whose results it is no longer shown. */
  readonly compacted: readonly string[];
  /** Names of the chosen tools, when not all could be offered. */
  readonly chosen: readonly string[] | undefined;
}

/** Defaults of the config. */
const usual = {
  /** Requests to the model in one turn. */
  maxRounds: 50,
  /** Time of a turn, without the time that people take to answer. */
  maxSeconds: 900,
  /** Tokens of all requests of a turn. */
  maxTokens: 2_000_000,
  /** Characters of one answer: text, reasoning and arguments together. No model of today writes as much. */
  maxAnswer: 4_000_000,
};
/** Context window of a model, unless its own entry or the config sets one. */
const USUAL_CONTEXT = 128_000;

type Verdict = NonNullable<NonNullable<EndedCall["record"]["flags"]>["loop"]>;

/** Runs every turn, for sessions and for clients that keep their conversations themselves. */
export class TurnEngine {
  readonly tools: ToolsService;
  readonly #services: ChatServices;
  readonly #leaving = new AbortController();

  constructor(services: ChatServices) {
    this.#services = services;
    this.tools = new ToolsService(services.registry, services.service);
  }

  get limits(): TurnLimits {
    const { maxRounds, maxSeconds, maxTokens, maxAnswer } = { ...usual, ...this.#services.config };
    return { maxRounds, maxSeconds, maxTokens, maxAnswer };
  }

  get toolBudget(): number {
    return this.#services.config.toolBudget ?? usualBudget;
  }

  /** Aborted when the server stops; running turns are left as they are. */
  get leaving(): AbortSignal {
    return this.#leaving.signal;
  }

  /** Rejects only for unexpected errors. */
  async run(turn: Turn): Promise<TurnOutcome> {
    const { reach, endpoint, query, chosen } = turn;
    const { config, approvals, retry } = this.#services;
    const offered = await this.tools.getTools(reach, { budget: this.toolBudget, query, chosen });
    const open: OpenTurn = {
      body: {},
      clientTools: [],
      ...turn,
      offered,
      limits: this.limits,
      contextTokens: endpoint.contextTokens ?? config.contextTokens ?? USUAL_CONTEXT,
      leaving: this.leaving,
    };
    const asker = new ModelAsker(open, retry);
    const run = new TurnRun(open, asker, (part, signal) => this.makeCall(part, open, signal));
    const unsubscribe = approvals.subscribe((approval) => run.noteApproval(approval));
    try {
      const end = await run.end();
      const { usage, facts, compacted } = asker;
      return { end, usage, facts, compacted, chosen: offered.chosen };
    } finally {
      unsubscribe();
    }
  }

  /**
   * Makes a call that the model asked for and stores the outcome in its part. Failures become text for the model, not
   * rejections. Returns the verdict of loop detection.
   */
  async makeCall(part: ToolPart, turn: OpenTurn, signal: AbortSignal): Promise<Verdict | undefined> {
    const { id, callId, round, name } = part;
    const { reach, sessionID, headers, offered, clientTools, emit } = turn;
    const settle = (state: ToolState) => {
      part.state = state;
      emit({ type: "state", callId, name, state });
    };
    if (name === "") {
      settle(failed(part, notices.noName));
      return undefined;
    }
    const given = offered.tools.length + clientTools.length;
    const call = offered.restore({ id, name, arguments: part.arguments });
    try {
      const ended = await this.tools.runTools(call.name, call.arguments, {
        reach,
        given,
        callId,
        sessionID,
        messageID: `${turn.id}.${round}`,
        signal,
        ...(headers && { headers }),
        watcher: {
          state: (state) => {
            if (state.status === "pending" || state.status === "running") settle(state);
          },
          progress: (update) => emit({ type: "progress", callId, update }),
        },
      });
      settle(explained(stateOf(ended), ended.result.error?.code, part));
      const loop = ended.record.flags?.loop;
      if (loop !== undefined) emit({ type: "loop", callId, verdict: loop });
      return loop;
    } catch (thrown) {
      if (!(thrown instanceof CallRefused)) throw thrown;
      const isUnknown = thrown.code === "tool_not_found";
      settle(failed(part, isUnknown ? this.tools.unknown(reach, name, given) : thrown.message));
      return undefined;
    }
  }

  close(): void {
    this.#leaving.abort(new Error("the server is stopping"));
  }
}

/** Tells the model at which place its arguments stop being JSON, because the history shows it only valid JSON. */
function explained(state: ToolState, code: string | undefined, { arguments: written }: ToolPart): ToolState {
  if (state.status !== "error" || code !== "invalid_arguments") return state;
  try {
    JSON.parse(written);
    return state;
  } catch (thrown) {
    const position = /position (\d+)/.exec(String(thrown))?.[1];
    // Other errors already quote the text around them.
    if (position === undefined) return state;
    const at = Number(position);
    const there = notices.writtenThere(written.slice(Math.max(0, at - 60), at), written.slice(at, at + 40));
    return { ...state, error: `${state.error} ${there}` };
  }
}

/**
 * One turn: asks the model, makes its calls, sends the results back, and repeats until the model is done or a limit is
 * reached.
 */
export class TurnRun {
  readonly #turn: OpenTurn;
  readonly #asker: ModelAsker;
  readonly #makeCall: (part: ToolPart, signal: AbortSignal) => Promise<Verdict | undefined>;
  readonly #clock: TurnClock;
  readonly #signal: AbortSignal;
  /** Ids of unanswered approvals. */
  readonly #waiting = new Set<string>();
  #loopEnd: TurnEnd | undefined;

  constructor(
    turn: OpenTurn,
    asker: ModelAsker,
    makeCall: (part: ToolPart, signal: AbortSignal) => Promise<Verdict | undefined>,
  ) {
    this.#turn = turn;
    this.#asker = asker;
    this.#makeCall = makeCall;
    this.#clock = new TurnClock(turn.limits.maxSeconds * 1000);
    this.#signal = AbortSignal.any([turn.signal, this.#clock.signal]);
  }

  /** Runs the turn and resolves with the reason why it ended. */
  async end(): Promise<TurnEnd> {
    const { parts, emit } = this.#turn;
    const end = await this.#rounds()
      .catch((thrown) => this.#endOf(thrown))
      .finally(() => this.#clock.stop());
    // An interrupted turn is resumed later, so its calls stay open.
    if (end.reason === "interrupted") return end;
    for (const { callId, name, state } of settleOpenCalls(parts))
      emit({ type: "state", callId, name, state });
    if (end.reason === "limit" || end.reason === "loop") this.#addNotice(`[${end.message}]`);
    return end;
  }

  /** The clock is paused while a person is asked something. */
  noteApproval(approval: StoredApproval): void {
    if (approval.sessionID !== this.#turn.sessionID) return;
    const { id, state } = approval;
    if (state === "pending" && !this.#waiting.has(id)) {
      this.#waiting.add(id);
      this.#clock.pause();
    }
    if (state !== "pending" && this.#waiting.delete(id)) this.#clock.resume();
    this.#turn.emit({ type: "approval", approval: shownApproval(approval) });
  }

  async #rounds(): Promise<TurnEnd> {
    const { limits, parts } = this.#turn;
    // A resumed turn may have calls left to make, and its earlier rounds count.
    await this.#makeCalls();
    for (let asked = nextRound(parts) - 1; ; asked++) {
      if (this.#loopEnd !== undefined) return this.#loopEnd;
      if (parts.some((part) => isTool(part) && part.client && !isSettled(part)))
        return { reason: "client_tools" };
      if (asked >= limits.maxRounds) return { reason: "limit", message: notices.roundLimit(asked) };
      const used = this.#asker.usage.total_tokens;
      if (used >= limits.maxTokens)
        return { reason: "limit", message: notices.tokenLimit(used, limits.maxTokens) };
      const { finish, calls, isClientCallCut } = await this.#asker.ask(this.#signal, asked === 0);
      if (calls === 0)
        return { reason: finish === "length" || finish === "content_filter" ? finish : "stop" };
      if (isClientCallCut) return { reason: finish === "content_filter" ? finish : "length" };
      await this.#makeCalls();
    }
  }

  /** Read-only calls run in parallel, all others one after another in the model's order. */
  async #makeCalls(): Promise<void> {
    const { save, leaving, parts } = this.#turn;
    for (const batch of this.#batches(openCalls(parts))) {
      this.#signal.throwIfAborted();
      for (const part of batch) part.started = true;
      await save?.();
      await unlessAborted(Promise.all(batch.map((part) => this.#makeOne(part))), leaving);
      await save?.();
    }
    this.#signal.throwIfAborted();
  }

  async #makeOne(part: ToolPart): Promise<void> {
    const loop = await this.#makeCall(part, this.#signal);
    if (loop?.action !== "stop") return;
    this.#loopEnd = { reason: "loop", message: notices.wentInCircles(loop.evidence) };
  }

  /** Groups calls in order: adjacent read-only calls share a batch, every other call has its own. */
  #batches(calls: readonly ToolPart[]): ToolPart[][] {
    const batches: ToolPart[][] = [];
    let isOpen = false;
    for (const part of calls) {
      const metadata = this.#turn.offered.infos.get(part.name)?.metadata;
      // Dangerous calls run alone, so that a person is asked one question at a time.
      const mayJoin = metadata?.readOnly === true && metadata.dangerous !== true;
      if (mayJoin && isOpen) batches.at(-1)!.push(part);
      else batches.push([part]);
      isOpen = mayJoin;
    }
    return batches;
  }

  /** After cut text the notice is a new paragraph of that round; otherwise it is the text of a new round. */
  #addNotice(notice: string): void {
    const { parts } = this.#turn;
    const last = parts.at(-1);
    if (last?.type === "text") appendText(this.#turn, "text", last.round, separator(last.text) + notice);
    else appendText(this.#turn, "text", nextRound(parts), notice);
  }

  #endOf(thrown: unknown): TurnEnd {
    const { signal, leaving, limits } = this.#turn;
    if (signal.aborted) return { reason: "stopped" };
    if (this.#clock.signal.aborted) return { reason: "limit", message: notices.timeLimit(limits.maxSeconds) };
    if (leaving.aborted) return { reason: "interrupted" };
    if (thrown instanceof AnswerOverLimit) return { reason: "limit", message: thrown.message };
    if (thrown instanceof ProviderError) return failedEnd(thrown);
    throw thrown;
  }
}

export function failedEnd({ message, kind, retryAfter, details }: ProviderError): TurnEnd {
  const later = retryAfter === undefined ? {} : { retryAfter };
  return { reason: "error", message, code: `provider_${kind}`, details, ...later };
}

/** Measures the working time of a turn, without the time in which it waits for a person. */
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

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Every `pause` needs one `resume`. */
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
    // Timers take at most 2^31 - 1 milliseconds.
    const delay = Math.min(Math.max(0, this.#left), 2 ** 31 - 1);
    this.#timer = setTimeout(
      () => this.#controller.abort(new Error("the turn took as long as it may")),
      delay,
    );
  }
}
