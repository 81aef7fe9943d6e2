import type { ToolError } from "../error/tool-error.ts";
import type { ResultKeys } from "../loop/loop-state.ts";
import type { LoopVerdict } from "../loop/types.ts";
import type { ToolEntry } from "../registry/entry.ts";
import type { RawResult, ToolResult } from "../tool/result.ts";
import type { ToolContext, ToolStatus } from "../tool/types.ts";
import { frameOf } from "./context.ts";
import type { ActiveCalls, CallHost } from "./engine.ts";
import type { ShownInput } from "./mask.ts";
import type { CallOptions } from "./settings.ts";

/** What the pipeline did to a call that a reader of the record should know. */
export interface CallFlags {
  /** The arguments were not JSON and were mended. */
  repaired?: boolean;
  /** Unknown arguments that were dropped. */
  dropped?: readonly string[];
  /** A person changed the arguments before agreeing. */
  edited?: boolean;
  /** The model was given a part of the result only; of a call that a tool made, the record has a part only. */
  truncated?: boolean;
  /** The result does not fit the output schema, and the tool is not held to it. */
  outputMismatch?: string;
  loop?: LoopVerdict;
  /** Milliseconds that it waited for a person to agree, before it ran. */
  waited?: number;
}

const noInput: Record<string, unknown> = Object.freeze({});

/**
 * One call on its way through the pipeline. Every field is set at birth so that all frames have one shape;
 * whatever a call does not use stays undefined and costs nothing.
 */
export class CallFrame {
  readonly host: CallHost;
  /** Counts the calls of a registry; the id is made of it when somebody asks. */
  readonly sequence: number;
  #callId: string | undefined;
  /** The name as the caller wrote it. */
  readonly name: string;
  /** The arguments as the caller sent them. */
  raw: unknown;
  readonly options: CallOptions;
  readonly parent: CallFrame | undefined;
  readonly depth: number;
  readonly sessionID: string;
  readonly permissions: readonly string[];
  readonly createdAt: number;

  entry: ToolEntry | undefined = undefined;
  /** The tool as it is registered now, when that is not the version that runs. What it demands counts as well. */
  current: ToolEntry | undefined = undefined;
  input: Record<string, unknown> = noInput;
  status: ToolStatus = "pending";
  /** Whether a stage had to wait, so that time has passed since the call was made. */
  waited = false;
  startedAt = 0;
  /** When the tool gave its result; 0 while it has not, and where nobody listens. */
  ranAt = 0;
  endedAt = 0;
  title: string | undefined = undefined;
  stateMetadata: Record<string, unknown> | undefined = undefined;
  /** What the tool returned, until it is made a result. */
  output: unknown = undefined;
  draft: RawResult | undefined = undefined;
  result: ToolResult | undefined = undefined;
  error: ToolError | undefined = undefined;
  flags: CallFlags | undefined = undefined;

  /** The arguments as others see them, once somebody has looked. */
  shown: ShownInput | undefined = undefined;
  /** Kept when the arguments themselves are too large to keep. */
  parametersHash: string | undefined = undefined;
  argsKey: string | undefined = undefined;
  resultKeys: ResultKeys | undefined = undefined;

  /** Milliseconds on the `performance` clock. */
  deadline = Number.POSITIVE_INFINITY;
  timeLimit = 0;
  idleLimit = 0;
  lastActivity = 0;
  /** How many questions to a person this call and its children are waiting for. */
  asking = 0;
  /** Since when, on the `performance` clock, while it waits for any. */
  askingSince = 0;
  /** It has done nothing yet: others are before it. */
  waitsForTurn = false;

  /** The neighbours in the list of calls under way. */
  older: CallFrame | undefined = undefined;
  newer: CallFrame | undefined = undefined;

  controller: AbortController | undefined = undefined;
  abortReason: ToolError | undefined = undefined;
  /** Is told when the call is aborted, by whoever needs nothing else of a signal. */
  onAbort: ((reason: ToolError) => void) | undefined = undefined;
  unlistenCaller: (() => void) | undefined = undefined;
  children: Set<CallFrame> | undefined = undefined;
  resolve: (result: ToolResult) => void = ignore;

  constructor(
    host: CallHost,
    sequence: number,
    callId: string | undefined,
    name: string,
    raw: unknown,
    options: CallOptions,
    parent: CallFrame | undefined,
  ) {
    this.host = host;
    this.sequence = sequence;
    this.#callId = callId;
    this.name = name;
    this.raw = raw;
    this.options = options;
    this.parent = parent;
    this.depth = parent === undefined ? 0 : parent.depth + 1;
    this.sessionID = (parent === undefined ? options.sessionID : parent.sessionID) ?? "";
    this.permissions =
      parent === undefined ? (options.permissions ?? host.settings.permissions) : parent.permissions;
    this.createdAt = performance.now();
  }

  get callId(): string {
    this.#callId ??= this.host.history.idOf(this.sequence);
    return this.#callId;
  }

  get ended(): boolean {
    return this.status === "completed" || this.status === "error";
  }

  get toolName(): string {
    return this.entry === undefined ? this.name : this.entry.info.name;
  }

  get caller(): string {
    return (
      this.options.caller ??
      (this.parent === undefined ? "" : `${this.parent.toolName}_${this.parent.callId}`)
    );
  }

  /** The tool of a call that has been resolved. */
  get tool(): ToolEntry {
    if (this.entry === undefined) throw new Error("The call has not been resolved yet.");
    return this.entry;
  }

  get signal(): AbortSignal {
    if (this.controller === undefined) {
      this.controller = new AbortController();
      if (this.abortReason !== undefined) this.controller.abort(this.abortReason);
    }
    return this.controller.signal;
  }

  flag(): CallFlags {
    this.flags ??= {};
    return this.flags;
  }

  /** A sign of life: the idle limit starts anew. */
  touch(): void {
    if (this.idleLimit > 0) this.lastActivity = performance.now();
  }
}

function ignore(): void {}

/** A sweep this soon is left to happen even when its calls are done: stopping and starting timers costs more. */
const SHORT = 25;
const NEVER = Number.POSITIVE_INFINITY;

type Expire = (frame: CallFrame, kind: "total" | "idle") => void;

/**
 * The time limits of all running calls on one timer: a timer per call would cost more than the call itself. When
 * the last call ends, a long timer is cleared and a short one runs out, so nothing keeps the process alive.
 */
export class Deadlines {
  readonly #active: ActiveCalls;
  readonly #expire: Expire;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #due = NEVER;

  constructor(active: ActiveCalls, expire: Expire) {
    this.#active = active;
    this.#expire = expire;
  }

  /** Sees to it that a running call ends in time. */
  watch(frame: CallFrame): void {
    const due = dueTime(frame);
    const { lastActivity: now } = frame;
    if (due < this.#due) this.#arm(Math.min(due, now + SHORT), now);
  }

  /** Lets go of the timer when no call is under way any more. */
  release(now: number): void {
    if (this.#active.newest !== undefined || this.#due === NEVER || this.#due - now <= SHORT) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#due = NEVER;
  }

  #arm(due: number, now: number): void {
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    this.#due = due;
    // A timer longer than 24 days fires at once; sweeping once a day is cheap.
    const delay = Math.min(Math.max(0, Math.ceil(due - now)), 86_400_000);
    this.#timer = setTimeout(() => this.#sweep(), delay);
  }

  #sweep(): void {
    this.#timer = undefined;
    this.#due = NEVER;
    const now = performance.now();
    let next = NEVER;
    // A list of its own: what ends one call may end others, and the list must not lose its thread.
    for (const frame of [...this.#active]) {
      if (frame.ended) continue;
      const due = dueTime(frame);
      if (due <= now) this.#expire(frame, frame.deadline <= now ? "total" : "idle");
      else next = Math.min(next, due);
    }
    if (this.#active.newest !== undefined && next < this.#due) this.#arm(next, now);
  }
}

function dueTime({ deadline, idleLimit, lastActivity, asking, waitsForTurn }: CallFrame): number {
  if (asking > 0) return NEVER; // A person is thinking; that is not the tool's time.
  return idleLimit > 0 && !waitsForTurn ? Math.min(deadline, lastActivity + idleLimit) : deadline;
}

/** So long may calls follow each other before the event loop has its turn. Milliseconds. */
const LONGEST_WITHOUT_TURN = 10;
/** Taken when the module loads, so that a test that replaces the clock does not stop it. A browser has the other one. */
const onNextTurn =
  (globalThis as { setImmediate?: (callback: () => void) => unknown }).setImmediate ?? setTimeout;

let turnBegan = NEVER;
let nextTurn: Promise<void> | undefined;

/**
 * Is told of every call that ends, and returns what its answer has to wait for. Calls that wait for nothing settle
 * without the event loop, so a tool that makes them one after the other would keep it from timers, requests and signals
 * for ever. Once they have done so for some milliseconds, answers wait until it has had a turn.
 */
export function overdueTurn(now: number): Promise<void> | undefined {
  if (nextTurn !== undefined) return nextTurn;
  if (turnBegan === NEVER) {
    turnBegan = now;
    onNextTurn(() => {
      turnBegan = NEVER;
    });
    return undefined;
  }
  if (now - turnBegan < LONGEST_WITHOUT_TURN) return undefined;
  nextTurn = new Promise((resolve) => {
    onNextTurn(() => {
      nextTurn = undefined;
      resolve();
    });
  });
  return nextTurn;
}

/** Calls that tools made while the event loop waited for its turn, in their order, and how many of them have begun. */
let later: (() => void)[] = [];
let begun = 0;

/**
 * Begins a call that a tool made: at once, or after the event loop has had its turn. A tool that makes thousands of calls at the
 * same time would otherwise keep it from timers, requests and signals until the last of them is done.
 */
export function beginInTurn(begin: () => void, now: number): void {
  const turn = overdueTurn(now);
  if (turn === undefined && later.length === 0) {
    begin();
    return;
  }
  later.push(begin);
  if (later.length === 1) (turn ?? Promise.resolve()).then(beginLater);
}

function beginLater(): void {
  while (begun < later.length) {
    const turn = overdueTurn(performance.now());
    if (turn !== undefined) {
      turn.then(beginLater);
      return;
    }
    later[begun++]!();
  }
  later = [];
  begun = 0;
}

/** So long waits the answer to a call that a tool makes after its own end. Milliseconds. */
const ANSWER_AFTER_END = 100;

/** Nobody waits for a tool that has ended: one that goes on making calls is slowed down, or it would fill the log with refusals. */
export function answerLate(frame: CallFrame): void {
  const { resolve } = frame;
  frame.resolve = (result) => setTimeout(resolve, ANSWER_AFTER_END, result);
}

/** While somebody is asked, neither this call nor those that wait for it run out of time. Listeners are told that they wait. */
export function pausing(frame: CallFrame): Disposable {
  const start = performance.now();
  for (let at: CallFrame | undefined = frame; at !== undefined; at = at.parent) {
    if (at.asking++ > 0) continue;
    at.askingSince = start;
    tell(at, true);
  }
  return {
    [Symbol.dispose]() {
      const now = performance.now();
      for (let at: CallFrame | undefined = frame; at !== undefined; at = at.parent) {
        // Two questions at once are one pause.
        if (--at.asking > 0) continue;
        at.deadline += now - at.askingSince;
        at.lastActivity = now;
        if (at.ended) continue;
        at.host.deadlines.watch(at);
        tell(at, false);
      }
    },
  };
}

function tell(frame: CallFrame, isWaiting: boolean): void {
  const { host, callId, toolName } = frame;
  if (host.events.wanted) host.events.emit({ type: "waiting", callId, toolName, isWaiting });
}

/**
 * Acts when the call is aborted, at once when it has been. Answers how to stop waiting for it. The same as listening to
 * the context's signal, for those that are in the way of every call: making a signal costs more than most tools.
 */
export function whenAborted(
  context: Pick<ToolContext, "signal">,
  act: (reason: unknown) => void,
): () => void {
  const frame = frameOf(context);
  if (frame === undefined || frame.onAbort !== undefined || frame.abortReason !== undefined) {
    return listen(context.signal, act);
  }
  frame.onAbort = act;
  return () => {
    if (frame.onAbort === act) frame.onAbort = undefined;
  };
}

function listen(signal: AbortSignal, act: (reason: unknown) => void): () => void {
  const onAbort = () => act(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  return () => signal.removeEventListener("abort", onAbort);
}

/**
 * Says that the call waits for its turn and has done nothing yet: it need not report anything meanwhile, and if its time
 * runs out, nothing of it stands. Answers how to say that its turn has come.
 */
export function waitingForTurn(context: Pick<ToolContext, "signal">): () => void {
  const frame = frameOf(context);
  if (frame === undefined) return () => {};
  frame.waitsForTurn = true;
  return () => {
    frame.waitsForTurn = false;
    if (frame.ended) return;
    frame.lastActivity = performance.now();
    frame.host.deadlines.watch(frame);
  };
}
