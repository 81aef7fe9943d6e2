import { withDefaultLimits } from "./limits.ts";
import { SandboxError } from "./sandbox-error.ts";
import type { Invocation, WorkerLimits, WorkerSpec } from "./types.ts";
import type { Worker } from "./worker.ts";

interface WaitingCall {
  readonly invocation: Invocation;
  readonly outcome: PromiseWithResolvers<unknown>;
  readonly onAbort: () => void;
}

/** The workers of one key, and the calls that wait for one of them. */
export class WorkerGroup {
  readonly limits: WorkerLimits;
  readonly workers = new Set<Worker>();
  readonly #spec: WorkerSpec;
  readonly #start: (spec: WorkerSpec, limits: WorkerLimits) => Promise<Worker>;
  readonly #waiting = new Set<WaitingCall>();
  #starting = 0;
  #isRetired = false;

  /** `start` gives a worker that has loaded the spec. */
  constructor(spec: WorkerSpec, start: (spec: WorkerSpec, limits: WorkerLimits) => Promise<Worker>) {
    this.#spec = spec;
    this.limits = withDefaultLimits(spec.limits);
    this.#start = start;
  }

  /** Nothing runs, starts or waits here. */
  get isEmpty(): boolean {
    return this.workers.size === 0 && this.#starting === 0 && this.#waiting.size === 0;
  }

  invoke(invocation: Invocation): Promise<unknown> {
    const worker = this.#freeWorker();
    if (worker !== undefined) return worker.invoke(invocation);
    const { signal } = invocation;
    const outcome = Promise.withResolvers<unknown>();
    const call: WaitingCall = {
      invocation,
      outcome,
      onAbort: () => {
        this.#waiting.delete(call);
        outcome.reject(signal.reason);
      },
    };
    signal.addEventListener("abort", call.onAbort, { once: true });
    this.#waiting.add(call);
    this.#grow();
    return outcome.promise;
  }

  /** A worker has room again, or is gone. */
  advance(): void {
    for (const call of this.#waiting) {
      const worker = this.#freeWorker();
      if (worker === undefined) break;
      this.#leaveQueue(call);
      worker.invoke(call.invocation).then(call.outcome.resolve, call.outcome.reject);
    }
    this.#grow();
    if (this.#isRetired && this.#waiting.size === 0) for (const worker of this.workers) worker.retire();
  }

  /** Calls that are here already are still served. */
  retire(): void {
    this.#isRetired = true;
    this.advance();
  }

  rejectWaiting(error: unknown): void {
    for (const call of this.#waiting) {
      this.#leaveQueue(call);
      call.outcome.reject(error);
    }
  }

  #freeWorker(): Worker | undefined {
    for (const worker of this.workers) if (worker.accepts) return worker;
    return undefined;
  }

  #leaveQueue(call: WaitingCall): void {
    this.#waiting.delete(call);
    call.invocation.signal.removeEventListener("abort", call.onAbort);
  }

  /** Calls that wait share the workers that are on their way; more are started only when those will not do. */
  #grow(): void {
    const { concurrency, workers } = this.limits;
    while (this.#waiting.size > this.#starting * concurrency && this.#size() < workers) void this.#add();
  }

  /** Retired workers with a last call do not keep others from taking their place. */
  #size(): number {
    let size = this.#starting;
    for (const worker of this.workers) if (!worker.isRetired) size++;
    return size;
  }

  async #add(): Promise<void> {
    this.#starting++;
    let failure: unknown;
    try {
      const worker = await this.#start(this.#spec, this.limits);
      if (worker.hasEnded)
        throw new SandboxError("sandbox_crashed", `${this.#spec.label} ended right after its start.`);
      this.workers.add(worker);
    } catch (error) {
      failure = error;
    }
    this.#starting--;
    // With no other worker in sight, those who wait would wait for ever.
    if (failure !== undefined && this.#size() === 0) this.rejectWaiting(failure);
    this.advance();
  }
}
