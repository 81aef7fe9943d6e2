import { withDefaultLimits } from "./limits.ts";
import { nesting } from "./nesting.ts";
import { SandboxError } from "./sandbox-error.ts";
import type { Invocation, WorkerLimits, WorkerSpec } from "./types.ts";
import type { Worker } from "./worker.ts";

/** How long nobody is started after a start that failed, unless a worker is free before. */
const restMs = 5_000;

interface WaitingCall {
  readonly invocation: Invocation;
  /** How many calls wait, each for the next, for this one. */
  readonly depth: number;
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
  /** A start failed while others work: those who wait may still be served by these. */
  #isResting = false;

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
    const depth = nesting.getStore() ?? 0;
    const worker = this.#roomAt(depth) > 0 ? this.#freeWorker() : undefined;
    if (worker !== undefined) return worker.invoke(invocation, depth);
    const { signal } = invocation;
    const outcome = Promise.withResolvers<unknown>();
    const call: WaitingCall = {
      invocation,
      depth,
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
    this.#isResting = false;
    this.#serve();
  }

  /** Calls that are here already are still served. */
  retire(): void {
    this.#isRetired = true;
    this.advance();
  }

  rejectWaiting(error: unknown, leastDepth = 0): void {
    for (const call of this.#waiting) {
      if (call.depth < leastDepth) continue;
      this.#leaveQueue(call);
      call.outcome.reject(error);
    }
  }

  #serve(): void {
    for (const call of this.#waiting) {
      if (this.#roomAt(call.depth) <= 0) continue;
      const worker = this.#freeWorker();
      if (worker === undefined) break;
      this.#leaveQueue(call);
      worker.invoke(call.invocation, call.depth).then(call.outcome.resolve, call.outcome.reject);
    }
    this.#grow();
    if (this.#isRetired && this.#waiting.size === 0) for (const worker of this.workers) worker.retire();
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
    if (this.#isResting) return;
    while (this.#admitted() > this.#starting * this.limits.concurrency) void this.#add();
  }

  /**
   * Calls that can still be begun at this depth. Each depth has room of its own, so that the calls which wait for
   * others never hold the room that these need; the deepest ones wait for nobody.
   */
  #roomAt(depth: number): number {
    const { concurrency, workers } = this.limits;
    let room = concurrency * workers;
    for (const worker of this.workers) room -= worker.runningAt(depth);
    return room;
  }

  /** Calls that wait for nothing but a worker. */
  #admitted(): number {
    const left = new Map<number, number>();
    let count = 0;
    for (const { depth } of this.#waiting) {
      const room = left.get(depth) ?? this.#roomAt(depth);
      left.set(depth, room - 1);
      if (room > 0) count++;
    }
    return count;
  }

  /** Workers that take calls, or soon will. */
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
    if (failure !== undefined) this.#rest(failure);
    this.#serve();
  }

  #rest(failure: unknown): void {
    // With no other worker in sight, those who wait would wait for ever.
    if (this.#size() === 0) return void this.rejectWaiting(failure);
    // So might those for whom the calls in the other workers wait.
    this.rejectWaiting(failure, 1);
    this.#isResting = true;
    setTimeout(() => this.advance(), restMs).unref();
  }
}
