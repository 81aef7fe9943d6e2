import type { CallFrame, CallHistory } from "./frame.ts";

/** Milliseconds between two looks at how the clocks stand to each other: looking costs more than adding. */
const LOOK_EVERY = 1_000;

/** Milliseconds that the clocks may differ by before it counts as a jump. */
const JUMP = 100;

let origin = performance.timeOrigin;

let lookedAt = 0;

/**
 * From the `performance` clock, which never jumps, to milliseconds since the epoch. The system's clock is followed within a
 * second when somebody sets it, or when the machine has slept, during which the `performance` clock stands still.
 */
export function toEpoch(time: number): number {
  if (time - lookedAt > LOOK_EVERY) {
    lookedAt = time;
    const now = Date.now() - performance.now();
    if (Math.abs(now - origin) > JUMP) origin = now;
  }
  return Math.round(origin + time);
}

/** A sweep this soon is left to happen even when its calls are done: stopping and starting timers costs more. */
const SHORT = 25;
const NEVER = Number.POSITIVE_INFINITY;

type Expire = (frame: CallFrame, kind: "total" | "idle") => void;

/**
 * The time limits of all running calls on one timer: a timer per call would cost more than the call itself. When
 * the last call ends, a long timer is cleared and a short one runs out, so nothing keeps the process alive.
 */
export class Deadlines {
  readonly #calls: CallHistory;
  readonly #expire: Expire;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #due = NEVER;

  constructor(calls: CallHistory, expire: Expire) {
    this.#calls = calls;
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
    if (this.#calls.newest !== undefined || this.#due === NEVER || this.#due - now <= SHORT) return;
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
    for (const frame of [...this.#calls.active()]) {
      if (frame.ended) continue;
      const due = dueTime(frame);
      if (due <= now) this.#expire(frame, frame.deadline <= now ? "total" : "idle");
      else next = Math.min(next, due);
    }
    if (this.#calls.newest !== undefined && next < this.#due) this.#arm(next, now);
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
  // The types of core know no Node.
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
