/** An error as it travels between a worker and its host. */
export interface ThrownData {
  readonly name: string;
  readonly message: string;
  readonly code?: string | number;
  readonly data?: unknown;
  readonly stack?: string;
}

/** One JSON line from the host to a worker. */
export type HostMessage =
  | {
      readonly type: "load";
      readonly code: string;
      /** Where the code is said to be: decides what `require` finds, and what stack traces show. */
      readonly path: string;
      /** A sentence on what the network is to this worker, for the error of a `fetch` that was refused. */
      readonly network: string;
      readonly settings: unknown;
      readonly outputBytes: number;
    }
  | { readonly type: "call"; readonly id: number; readonly method: string; readonly params: unknown }
  | { readonly type: "abort"; readonly id: number; readonly reason: string }
  | { readonly type: "answer"; readonly id: number; readonly result?: unknown; readonly error?: ThrownData }
  | { readonly type: "end" };

/** One JSON line from a worker to its host. Nothing in it can be trusted. */
export type WorkerMessage =
  /** The process is up and waits for code. */
  | { readonly type: "ready" }
  /** The code was evaluated and `init` is over. */
  | { readonly type: "loaded"; readonly error?: ThrownData }
  | { readonly type: "result"; readonly id: number; readonly result?: unknown; readonly error?: ThrownData }
  /** The worker's event loop is alive and the call's signal has been aborted. */
  | { readonly type: "aborted"; readonly id: number }
  /** `id` is the worker's own number of the request, `call` the call that asks. */
  | {
      readonly type: "request";
      readonly id: number;
      readonly call: number;
      readonly method: string;
      readonly params: unknown;
    }
  /** `call` 0 means: outside any call. */
  | { readonly type: "notify"; readonly call: number; readonly method: string; readonly params: unknown };
