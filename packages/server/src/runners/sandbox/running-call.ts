import type { Invocation } from "./types.ts";

/** What the host knows of a call that a worker has. */
export interface RunningCall {
  readonly invocation: Invocation;
  readonly outcome: PromiseWithResolvers<unknown>;
  readonly onAbort: () => void;
  /** How many calls wait, each for the next, for this one. */
  readonly depth: number;
  bytes: number;
  requests: number;
  cpuSeconds: number;
  /** The caller has its answer; what the call still does is of no interest, only when it ends. */
  isAbandoned: boolean;
  /** The worker said that it passed the abort on, so its event loop is alive. */
  isHeard: boolean;
}
