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

/** What came of a turn. */
interface TurnOutcome {
  readonly end: TurnEnd;
  /** Tokens of all requests. */
  readonly usage: ModelUsage;
  /** What else the provider said of its last answer, such as `system_fingerprint`. */
  readonly facts: Readonly<Record<string, unknown>>;
  /** The calls whose results are no longer shown to the model, by its own ids. */
  readonly compacted: readonly string[];
  /** The names of the tools that were chosen, when not all could be offered. */
  readonly chosen: readonly string[] | undefined;
}

/** What holds where the config says nothing. */
const usual = {
  /** How often a model is asked in one turn. */
  maxRounds: 50,
  /** How long a turn may take, without the time that people take to answer. */
  maxSeconds: 900,
  /** Tokens of all requests of a turn. */
  maxTokens: 2_000_000,
  /** Characters of one answer: text, reasoning and arguments together. No model of today writes as much. */
  maxAnswer: 4_000_000,
};
/** What a model can read at a time, unless its own entry or the config says so. */
const USUAL_CONTEXT = 128_000;

type Verdict = NonNullable<NonNullable<EndedCall["record"]["flags"]>["loop"]>;

/** The one way of every turn, of sessions and of clients that keep their conversations themselves. */
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

  /** Tokens that the definitions of tools may take. */
  get toolBudget(): number {
    return this.#services.config.toolBudget ?? usualBudget;
  }

  /** Aborted when the server stops: every turn is left as it is. */
  get leaving(): AbortSignal {
    return this.#leaving.signal;
  }

  /** Rejects only for what nobody could foresee. */
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
    const unsubscribe = approvals.subscribe((approval) => run.hear(approval));
    try {
      const end = await run.end();
      const { usage, facts, compacted } = asker;
      return { end, usage, facts, compacted, chosen: offered.chosen };
    } finally {
      unsubscribe();
    }
  }

  /**
   * Makes the call that a model asked for, and puts what came of it into its part. Never rejects for anything that the
   * model can read about. Returns what loop detection said.
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

  /** Leaves every turn that is under way. */
  close(): void {
    this.#leaving.abort(new Error("the server is stopping"));
  }
}

/** A model that wrote arguments which are no JSON is told where they stop to be any: the history has only sound ones. */
function explained(state: ToolState, code: string | undefined, { arguments: written }: ToolPart): ToolState {
  if (state.status !== "error" || code !== "invalid_arguments") return state;
  try {
    JSON.parse(written);
    return state;
  } catch (thrown) {
    const position = /position (\d+)/.exec(String(thrown))?.[1];
    // Other problems are told with the text around them.
    if (position === undefined) return state;
    const at = Number(position);
    const there = notices.writtenThere(written.slice(Math.max(0, at - 60), at), written.slice(at, at + 40));
    return { ...state, error: `${state.error} ${there}` };
  }
}

/**
 * One turn: asks the model, makes the calls that it asks for, tells it what came of them, and so on until it has said
 * all or a limit is reached.
 */
export class TurnRun {
  readonly #turn: OpenTurn;
  readonly #asker: ModelAsker;
  readonly #makeCall: (part: ToolPart, signal: AbortSignal) => Promise<Verdict | undefined>;
  readonly #clock: TurnClock;
  readonly #signal: AbortSignal;
  /** The questions that a person has not answered. */
  readonly #waiting = new Set<string>();
  #circles: TurnEnd | undefined;

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

  /** Resolves when the turn has ended, with why. */
  async end(): Promise<TurnEnd> {
    const { parts, emit } = this.#turn;
    const end = await this.#rounds()
      .catch((thrown) => this.#endOf(thrown))
      .finally(() => this.#clock.stop());
    // Nothing of a turn that is only left is decided yet.
    if (end.reason === "interrupted") return end;
    for (const { callId, name, state } of settleOpenCalls(parts))
      emit({ type: "state", callId, name, state });
    if (end.reason === "limit" || end.reason === "loop") this.#addNotice(`[${end.message}]`);
    return end;
  }

  /** While a person is asked something, the clock stands still. */
  hear(approval: StoredApproval): void {
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
    // Of a turn that is taken up again, some calls may be left, and its rounds count.
    await this.#makeCalls();
    for (let asked = nextRound(parts) - 1; ; asked++) {
      if (this.#circles !== undefined) return this.#circles;
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

  /** Calls that only read are made side by side, all others one after the other, in the order of the model. */
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
    this.#circles = { reason: "loop", message: notices.wentInCircles(loop.evidence) };
  }

  /** Calls in their order: neighbours that only read may be made side by side, any other is by itself. */
  #batches(calls: readonly ToolPart[]): ToolPart[][] {
    const batches: ToolPart[][] = [];
    let isOpen = false;
    for (const part of calls) {
      const metadata = this.#turn.offered.infos.get(part.name)?.metadata;
      // What a person is asked about is asked one by one.
      const mayJoin = metadata?.readOnly === true && metadata.dangerous !== true;
      if (mayJoin && isOpen) batches.at(-1)!.push(part);
      else batches.push([part]);
      isOpen = mayJoin;
    }
    return batches;
  }

  /** Behind text that was cut it is a paragraph of its own; else it is a text like that of another round. */
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

/** The end of a turn whose model did not answer. */
export function failedEnd({ message, kind, retryAfter, details }: ProviderError): TurnEnd {
  const later = retryAfter === undefined ? {} : { retryAfter };
  return { reason: "error", message, code: `provider_${kind}`, details, ...later };
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
    this.#timer = setTimeout(
      () => this.#controller.abort(new Error("the turn took as long as it may")),
      delay,
    );
  }
}
