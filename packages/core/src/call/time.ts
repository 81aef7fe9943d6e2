import type { CallFrame, CallHistory } from "./call-frame.ts";

let clock = performance;
let date = Date;

/**
 * Milliseconds of the `performance` clock. The global is a getter in Node, which costs 30 ns, so it is read once. Whoever
 * replaces the clock in a test replaces `Date` too; comparing that costs nothing, because the engine knows its value.
 */
export function readClock(): number {
  if (date !== Date) {
    date = Date;
    clock = performance;
  }
  return clock.now();
}

/**
 * Milliseconds between comparisons of the `performance` clock with the system clock: comparing costs more
 * than adding.
 */
const COMPARE_EVERY = 1_000;

/** Milliseconds by which the clocks may differ. */
const LARGEST_DRIFT = 100;

let origin = performance.timeOrigin;

let comparedAt = 0;

/**
 * Converts a time of the `performance` clock to milliseconds since the epoch. Follows the system clock within a second
 * after it was set or the machine slept, during which the `performance` clock stands still.
 */
export function toEpoch(time: number): number {
  if (time - comparedAt > COMPARE_EVERY) {
    comparedAt = time;
    const now = Date.now() - readClock();
    if (Math.abs(now - origin) > LARGEST_DRIFT) origin = now;
  }
  return Math.round(origin + time);
}

/**
 * Milliseconds. A timer that fires this soon is not cleared when its calls are done: clearing and setting timers costs
 * more.
 */
const SHORTEST_CLEARED = 25;
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

  /** Makes sure that the timer fires in time to end this call. */
  watch(frame: CallFrame, now: number): void {
    const { deadline, idleLimit, asking } = frame;
    const due = idleLimit > 0 || asking > 0 ? dueTime(frame) : deadline;
    if (due < this.#due) this.#setTimer(Math.min(due, now + SHORTEST_CLEARED), now);
  }

  /** Clears the timer when no call runs any more. */
  release(now: number): void {
    if (this.#calls.newest !== undefined || this.#due === NEVER || this.#due - now <= SHORTEST_CLEARED)
      return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#due = NEVER;
  }

  #setTimer(due: number, now: number): void {
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    this.#due = due;
    // A timer longer than 24 days would fire at once, so it is set to a day at most.
    const delay = Math.min(Math.max(0, Math.ceil(due - now)), 86_400_000);
    this.#timer = setTimeout(() => this.#expireDue(), delay);
  }

  #expireDue(): void {
    this.#timer = undefined;
    this.#due = NEVER;
    const now = readClock();
    let next = NEVER;
    // A copy, because ending one call may end others and change the list.
    for (const frame of [...this.#calls.active()]) {
      if (frame.ended) continue;
      const due = dueTime(frame);
      if (due <= now) this.#expire(frame, frame.deadline <= now ? "total" : "idle");
      else next = Math.min(next, due);
    }
    if (this.#calls.newest !== undefined && next < this.#due) this.#setTimer(next, now);
  }
}

function dueTime({ deadline, idleLimit, lastActivity, asking, waitsForTurn }: CallFrame): number {
  if (asking > 0) return NEVER; // The time of people who answer does not count.
  return idleLimit > 0 && !waitsForTurn ? Math.min(deadline, lastActivity + idleLimit) : deadline;
}

/** Milliseconds that calls may follow each other without a turn of the event loop. */
const LONGEST_WITHOUT_TURN = 10;
/** Read at load, so that tests that replace the clock do not stop it. Browsers have no `setImmediate`. */
const onNextTurn =
  // The cast declares `setImmediate`, because core is compiled without Node's types.
  (globalThis as { setImmediate?: (callback: () => void) => unknown }).setImmediate ?? setTimeout;

/**
 * Does work that comes in steps, each of a few milliseconds, and lets the event loop have a turn after every one of
 * them. Rejects when the call that it is done for has ended meanwhile.
 */
export async function inTurns<Value>(steps: Generator<void, Value>, frame?: CallFrame): Promise<Value> {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    if (frame?.ended) throw new Error("Nobody waits for the result any more.");
    await untilNextTurn();
  }
}

export function untilNextTurn(): Promise<void> {
  return new Promise((resolve) => {
    onNextTurn(() => resolve());
  });
}

let before: Promise<unknown> = Promise.resolve();

/** Large results are read one after another: each takes its size in memory once more while it is read. */
export function oneByOne<Value>(work: () => Promise<Value>): Promise<Value> {
  const done = before.then(work);
  before = done.catch(() => {});
  return done;
}

let turnBegan = NEVER;
let nextTurn: Promise<void> | undefined;

/**
 * Must be called for every call that ends; the result must wait for the returned promise. Calls that wait for nothing
 * settle without the event loop, so a tool that makes them in a row would block timers, requests and signals. After
 * some milliseconds of that, results wait for a turn of the loop.
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

/** `later` has the calls that wait for a turn of the event loop; the first `begun` of them have begun. */
let later: (() => void)[] = [];
let begun = 0;

/**
 * Begins a call that a tool makes, at once or after a turn of the event loop. Otherwise a tool that makes
 * thousands of calls at once would block timers, requests and signals until the last is done.
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
    const turn = overdueTurn(readClock());
    if (turn !== undefined) {
      turn.then(beginLater);
      return;
    }
    later[begun++]!();
  }
  later = [];
  begun = 0;
}

/** How many milliseconds late a call is answered if the tool that made it has already ended. */
const ANSWER_AFTER_END = 100;

/** Slows down an ended tool that goes on making calls, or it would fill the log with refusals. */
export function answerLate(frame: CallFrame): void {
  const { resolve } = frame;
  frame.resolve = (result) => setTimeout(resolve, ANSWER_AFTER_END, result);
}

/** Stops the time limits of this call and of the calls above it until disposed, and emits that they wait. */
export function pausing(frame: CallFrame): Disposable {
  const start = readClock();
  for (let at: CallFrame | undefined = frame; at !== undefined; at = at.parent) {
    if (at.asking++ > 0) continue;
    at.askingSince = start;
    emitWaiting(at, true);
  }
  return {
    [Symbol.dispose]() {
      const now = readClock();
      for (let at: CallFrame | undefined = frame; at !== undefined; at = at.parent) {
        // Overlapping questions are one pause.
        if (--at.asking > 0) continue;
        at.deadline += now - at.askingSince;
        at.lastActivity = now;
        if (at.ended) continue;
        noteWait(at, now);
        at.host.deadlines.watch(at, now);
        emitWaiting(at, false);
      }
    },
  };
}

/** Adds the pause that ends now to the time for which the call waited. Waiting is not the tool's time. */
export function noteWait(frame: CallFrame, now: number): void {
  const waited = now - frame.askingSince;
  const flags = frame.flag();
  flags.waited = (flags.waited ?? 0) + waited;
  if (frame.startedAt > 0) frame.waitedInRun += waited;
}

function emitWaiting(frame: CallFrame, isWaiting: boolean): void {
  const { host, callId, toolName } = frame;
  if (host.events.wanted) host.events.emit({ type: "waiting", callId, toolName, isWaiting });
}
