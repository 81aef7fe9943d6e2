import type { ActiveCalls } from "./active-calls.ts";
import type { CallFrame } from "./frame.ts";

/** A sweep this soon is left to happen even when its calls are done: stopping and starting timers costs more. */
const SHORT = 25;
const NEVER = Number.POSITIVE_INFINITY;

export type Expire = (frame: CallFrame, kind: "total" | "idle") => void;

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
