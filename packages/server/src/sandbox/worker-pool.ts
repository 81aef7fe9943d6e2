import type { Logger } from "@toolrack/core";
import { defaultLimits, type WorkerLimits, withDefaultLimits } from "../config/index.ts";
import { defined } from "../helpers/index.ts";
import type { Confinement, WorkerShape } from "./confinement/confinement.ts";
import type { EgressProxies } from "./egress.ts";
import {
  describeNetwork,
  type Invocation,
  nesting,
  SandboxError,
  type SandboxStats,
  type WorkerSpec,
} from "./spec.ts";
import { Worker } from "./worker.ts";

interface WorkerPoolOptions {
  readonly confinement: Confinement;
  readonly proxies: EgressProxies;
  readonly logger: Logger;
  readonly blankWorkers: number;
}

/** The limit of idle workers of all tools; beyond it the longest idle one ends first. */
const mostIdle = 16;
const tickMs = 500;
/** Idle workers are checked only every so many ticks. */
const idleTicks = 4;
/** Milliseconds until a blank worker is replaced, so that its start does not slow the call that took the last one. */
const refillMs = 100;

const blankShape: WorkerShape = { memoryMb: defaultLimits.memoryMb, scratchMb: defaultLimits.scratchMb };

/** Keeps blank workers for the next tool that needs one, and warm workers with loaded code. */
export class WorkerPool {
  readonly #options: WorkerPoolOptions;
  readonly #groups = new Map<string, WorkerGroup>();
  /** Retired groups that still have calls or workers. */
  readonly #retired = new Set<WorkerGroup>();
  readonly #blank = new Set<Worker>();
  readonly #all = new Set<Worker>();
  readonly #tick: NodeJS.Timeout;
  #ticks = 0;
  #refill: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
    this.#tick = setInterval(() => this.#check(), tickMs);
    this.#tick.unref();
    this.#fill();
  }

  async invoke(spec: WorkerSpec, invocation: Invocation): Promise<unknown> {
    if (this.#isClosed) throw closed(spec.label);
    invocation.signal.throwIfAborted();
    let group = this.#groups.get(spec.key);
    if (group === undefined) {
      group = new WorkerGroup(spec, (...args) => this.#startLoaded(...args));
      this.#groups.set(spec.key, group);
    }
    return group.invoke(invocation);
  }

  retire(keys: Iterable<string>): void {
    for (const key of keys) {
      const group = this.#groups.get(key);
      if (group === undefined) continue;
      this.#groups.delete(key);
      this.#retired.add(group);
      group.retire();
    }
    this.#sweep();
  }

  stats(): SandboxStats {
    const warm = [...this.#all].filter((worker) => !this.#blank.has(worker));
    return {
      blank: this.#blank.size,
      warm: warm.length,
      busy: warm.filter((worker) => worker.running > 0).length,
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#tick);
    clearTimeout(this.#refill);
    for (const group of [...this.#groups.values(), ...this.#retired])
      group.rejectWaiting(closed("The sandbox"));
    this.retire([...this.#groups.keys()]);
    for (const worker of this.#blank) worker.kill();
    const workers = [...this.#all];
    const deadline = setTimeout(() => {
      for (const worker of workers) if (worker.running > 0) worker.kill(closed("The sandbox"));
    }, defaultLimits.graceMs);
    // A worker that is still there was just starting, or does not end by itself.
    const last = setTimeout(() => {
      for (const worker of workers) worker.kill();
    }, defaultLimits.graceMs + defaultLimits.cleanupMs);
    await Promise.all(workers.map((worker) => worker.ended));
    clearTimeout(deadline);
    clearTimeout(last);
  }

  async #startLoaded(spec: WorkerSpec, limits: WorkerLimits): Promise<Worker> {
    const { proxies, confinement } = this.#options;
    const hasNetwork = spec.hosts.length > 0 && confinement.level === 3;
    const shape: WorkerShape = {
      memoryMb: limits.memoryMb,
      scratchMb: limits.scratchMb,
      ...defined({ dependencies: spec.dependencies }),
      ...(hasNetwork && { egressSocket: await proxies.socketFor(spec.hosts) }),
    };
    if (this.#isClosed) throw closed(spec.label);
    const worker = (fitsBlank(shape) ? await this.#takeBlank() : undefined) ?? this.#launch(shape);
    await worker.load(spec, limits, describeNetwork(spec, confinement.level));
    return worker;
  }

  /** Returns a started blank worker, or undefined. A blank worker that died is not the fault of the next tool. */
  async #takeBlank(): Promise<Worker | undefined> {
    this.#refill ??= setTimeout(() => this.#fill(), refillMs).unref();
    const [worker] = this.#blank;
    if (worker === undefined) return undefined;
    this.#blank.delete(worker);
    // A worker that does not start in time is killed, so that the call gets a new one.
    const late = setTimeout(() => worker.kill(), defaultLimits.initMs);
    try {
      await worker.ready;
      return worker.hasEnded ? undefined : worker;
    } catch {
      return undefined;
    } finally {
      clearTimeout(late);
    }
  }

  #fill(): void {
    this.#refill = undefined;
    const complain = (error: unknown) => {
      if (!this.#isClosed) this.#options.logger.warn(`A sandbox worker did not start: ${String(error)}`);
    };
    try {
      while (!this.#isClosed && this.#blank.size < this.#options.blankWorkers) {
        const worker = this.#launch(blankShape);
        this.#blank.add(worker);
        worker.ready.catch(complain);
      }
    } catch (error) {
      complain(error);
    }
  }

  #launch(shape: WorkerShape): Worker {
    const worker = new Worker(this.#options.confinement.startWorker(shape), {
      onFree: () => this.#groupOf(worker)?.advance(),
      onEnd: () => {
        const group = this.#groupOf(worker);
        this.#all.delete(worker);
        this.#blank.delete(worker);
        group?.workers.delete(worker);
        group?.advance();
        this.#sweep();
      },
      onLog: (label, { level, text }) => this.#options.logger[level](`${label}: ${text}`),
    });
    this.#all.add(worker);
    return worker;
  }

  #groupOf(worker: Worker): WorkerGroup | undefined {
    for (const group of this.#groups.values()) if (group.workers.has(worker)) return group;
    for (const group of this.#retired) if (group.workers.has(worker)) return group;
    return undefined;
  }

  #check(): void {
    const now = performance.now();
    const isIdleTick = this.#ticks++ % idleTicks === 0;
    const idle: Worker[] = [];
    for (const group of [...this.#groups.values(), ...this.#retired])
      for (const worker of group.workers) {
        if (worker.running > 0 || isIdleTick) worker.check();
        if (worker.running > 0) continue;
        if (now - worker.idleSince >= group.limits.idleMs) worker.retire();
        else if (!worker.isRetired) idle.push(worker);
      }
    idle.sort((a, b) => a.idleSince - b.idleSince);
    for (const worker of idle.slice(0, Math.max(0, idle.length - mostIdle))) worker.retire();
    this.#sweep();
  }

  /** Drops groups without workers: a key that is never used again must cost nothing. */
  #sweep(): void {
    for (const [key, group] of this.#groups) if (group.isEmpty) this.#groups.delete(key);
    for (const group of this.#retired) if (group.isEmpty) this.#retired.delete(group);
  }
}

function fitsBlank(shape: WorkerShape): boolean {
  return (
    shape.dependencies === undefined &&
    shape.egressSocket === undefined &&
    shape.memoryMb === blankShape.memoryMb &&
    shape.scratchMb === blankShape.scratchMb
  );
}

function closed(label: string): SandboxError {
  return new SandboxError("sandbox_ended", `${label} was ended, because the server closes.`);
}

/** Milliseconds without another start after a failed one, unless a worker becomes free before. */
const pauseMs = 5_000;

interface WaitingCall {
  readonly invocation: Invocation;
  /** How many calls wait, each for the next, for this one. */
  readonly depth: number;
  readonly outcome: PromiseWithResolvers<unknown>;
  readonly onAbort: () => void;
}

/** The workers of one key, and the calls that wait for one of them. */
class WorkerGroup {
  readonly limits: WorkerLimits;
  readonly workers = new Set<Worker>();
  readonly #spec: WorkerSpec;
  readonly #start: (spec: WorkerSpec, limits: WorkerLimits) => Promise<Worker>;
  readonly #waiting = new Set<WaitingCall>();
  #starting = 0;
  #isRetired = false;
  /** A start failed while other workers run: these may still serve the waiting calls. */
  #isPaused = false;

  /** `start` resolves to a worker that has loaded the spec. */
  constructor(spec: WorkerSpec, start: (spec: WorkerSpec, limits: WorkerLimits) => Promise<Worker>) {
    this.#spec = spec;
    this.limits = withDefaultLimits(spec.limits);
    this.#start = start;
  }

  /** Whether nothing runs, starts or waits here. */
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

  /** Must be called when a worker has room again, or is gone. */
  advance(): void {
    this.#isPaused = false;
    this.#serve();
  }

  /** Calls that already wait are still served. */
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

  /** Starts more workers only when those that are starting cannot serve all waiting calls. */
  #grow(): void {
    if (this.#isPaused) return;
    while (this.#readyToRun() > this.#starting * this.limits.concurrency) void this.#add();
  }

  /**
   * How many more calls may begin at this depth. Each depth has its own room, so that calls that wait for nested calls
   * never take the room that these need.
   */
  #roomAt(depth: number): number {
    const { concurrency, workers } = this.limits;
    let room = concurrency * workers;
    for (const worker of this.workers) room -= worker.runningAt(depth);
    return room;
  }

  /** How many waiting calls need nothing but a worker. */
  #readyToRun(): number {
    const left = new Map<number, number>();
    let count = 0;
    for (const { depth } of this.#waiting) {
      const room = left.get(depth) ?? this.#roomAt(depth);
      left.set(depth, room - 1);
      if (room > 0) count++;
    }
    return count;
  }

  /** How many workers take calls, or soon will. */
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
    if (failure !== undefined) this.#pauseStarts(failure);
    this.#serve();
  }

  #pauseStarts(failure: unknown): void {
    // Without any other worker, the calls would wait for ever.
    if (this.#size() === 0) return void this.rejectWaiting(failure);
    // Nested calls might wait for ever too: the other workers may be waiting for them.
    this.rejectWaiting(failure, 1);
    this.#isPaused = true;
    setTimeout(() => this.advance(), pauseMs).unref();
  }
}
