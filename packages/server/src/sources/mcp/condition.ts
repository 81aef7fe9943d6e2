import type { UpstreamState } from "./upstream-status.ts";

/** A server that held out for so long starts with a clean slate when it fails. */
const STEADY = 60_000;

/** How a server is: its state, why, since when, and how often it has failed in a row. */
export class Condition {
  #state: UpstreamState;
  #reason: string | undefined;
  #since = Date.now();
  #failures = 0;
  #readyAt = 0;

  constructor(state: UpstreamState) {
    this.#state = state;
  }

  get state(): UpstreamState {
    return this.#state;
  }

  /** Why it is not ready. */
  get reason(): string | undefined {
    return this.#reason;
  }

  get since(): number {
    return this.#since;
  }

  get failures(): number {
    return this.#readyAt > 0 && Date.now() - this.#readyAt > STEADY ? 0 : this.#failures;
  }

  /** Says whether that is news. */
  enter(state: UpstreamState, reason: string | undefined): boolean {
    const isNew = state !== this.#state || reason !== this.#reason;
    this.#state = state;
    this.#reason = reason;
    if (isNew) this.#since = Date.now();
    return isNew;
  }

  countSuccess(): void {
    this.#readyAt = Date.now();
  }

  /** Answers how many there were in a row. */
  countFailure(): number {
    this.#failures = this.failures + 1;
    this.#readyAt = 0;
    return this.#failures;
  }

  forgetFailures(): void {
    this.#failures = 0;
  }
}
