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
} from "./sandbox-types.ts";
import { Worker } from "./worker.ts";

interface WorkerPoolOptions {
  readonly confinement: Confinement;
  readonly proxies: EgressProxies;
  readonly logger: Logger;
  readonly blankWorkers: number;
}

/** The most idle workers of all tools together. When there are more, the longest idle ones end. */
const mostIdle = 16;
const tickMs = 500;
/** A worker without calls is checked only once in this many ticks. */
const idleTicks = 4;
/** Milliseconds from taking a blank worker to starting another, so that the start slows no call. */
const refillMs = 100;

const { memoryMb, scratchMb, dataMb } = defaultLimits;
const blankShape: WorkerShape = { memoryMb, scratchMb, dataMb };

/**
 * Keeps blank workers, which are started but have no code, for the next tool that needs one; and warm
 * workers, which have loaded their code, for further calls.
 */
export class WorkerPool {
  readonly #options: WorkerPoolOptions;
  /** The groups that take new calls, by the key of their spec. */
  readonly #current = new Map<string, WorkerGroup>();
  /** The groups in `#current`, and retired groups that still have calls or workers. */
  readonly #groups = new Set<WorkerGroup>();
  readonly #blank = new Set<Worker>();
  readonly #all = new Set<Worker>();
  readonly #tick: NodeJS.Timeout;
  #ticks = 0;
  #refill: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
    this.#tick = setInterval(() => this.#check(), tickMs).unref();
    this.#fill();
  }

  async invoke(spec: WorkerSpec, invocation: Invocation): Promise<unknown> {
    if (this.#isClosed) throw closed(spec.label);
    invocation.signal.throwIfAborted();
    let group = this.#current.get(spec.key);
    if (group === undefined) {
      const limits = withDefaultLimits(spec.limits);
      group = new WorkerGroup(limits, () => this.#startLoaded(spec, limits));
      this.#current.set(spec.key, group);
      this.#groups.add(group);
    }
    return group.invoke(invocation);
  }

  retire(keys: Iterable<string>): void {
    for (const key of keys) {
      this.#current.get(key)?.retire();
      this.#current.delete(key);
    }
    this.#sweep();
  }

  stats(): SandboxStats {
    const warm = [...this.#all].filter((worker) => !this.#blank.has(worker));
    const busy = warm.filter((worker) => worker.running > 0);
    return { blank: this.#blank.size, warm: warm.length, busy: busy.length };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#tick);
    clearTimeout(this.#refill);
    for (const group of this.#groups) group.rejectWaiting(closed("The sandbox"));
    this.retire([...this.#current.keys()]);
    for (const worker of this.#blank) worker.kill();
    const workers = [...this.#all];
    const deadline = setTimeout(() => {
      for (const worker of workers) if (worker.running > 0) worker.kill(closed("The sandbox"));
    }, defaultLimits.graceMs);
    // A worker that has not ended after both times was just starting, or does not end by itself.
    const last = setTimeout(() => {
      for (const worker of workers) worker.kill();
    }, defaultLimits.graceMs + defaultLimits.cleanupMs);
    await Promise.all(workers.map((worker) => worker.ended));
    clearTimeout(deadline);
    clearTimeout(last);
  }

  async #startLoaded(spec: WorkerSpec, limits: WorkerLimits): Promise<Worker> {
    const { proxies, confinement } = this.#options;
    const { label, hosts, dependencies, data, folders } = spec;
    const egressSocket = confinement.level === 3 ? await proxies.socketFor(hosts) : undefined;
    if (this.#isClosed) throw closed(label);
    const { memoryMb, scratchMb, dataMb } = limits;
    const opened = defined({ dependencies, egressSocket, data, folders });
    const shape: WorkerShape = { memoryMb, scratchMb, dataMb, ...opened };
    const worker = (fitsBlank(shape) ? await this.#takeBlank() : undefined) ?? this.#launch(shape);
    await worker.load(spec, limits, describeNetwork(spec, confinement.level));
    if (worker.hasEnded) throw new SandboxError("sandbox_crashed", `${label} ended right after its start.`);
    return worker;
  }

  /**
   * Returns a started blank worker. Undefined when there is none, or when it died: the caller then starts
   * another, so that the tool's call does not fail.
   */
  async #takeBlank(): Promise<Worker | undefined> {
    this.#refill ??= setTimeout(() => this.#fill(), refillMs).unref();
    const [worker] = this.#blank;
    if (worker === undefined) return undefined;
    this.#blank.delete(worker);
    // A worker that does not start in time is killed, so that the call gets a new one.
    const late = setTimeout(() => worker.kill(), defaultLimits.initMs);
    await worker.ready.catch(() => {});
    clearTimeout(late);
    return worker.hasEnded ? undefined : worker;
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
    const { confinement, logger } = this.#options;
    const worker = new Worker(confinement.startWorker(shape), (label, { level, text }) =>
      logger[level](`${label}: ${text}`),
    );
    this.#all.add(worker);
    void worker.ended.then(() => {
      this.#all.delete(worker);
      this.#blank.delete(worker);
    });
    return worker;
  }

  #check(): void {
    const now = performance.now();
    const isIdleTick = this.#ticks++ % idleTicks === 0;
    const idle: Worker[] = [];
    for (const { workers, limits } of this.#groups)
      for (const worker of workers) {
        if (worker.running > 0 || isIdleTick) worker.check();
        if (worker.running > 0) continue;
        if (now - worker.idleSince >= limits.idleMs) worker.retire();
        else if (!worker.isRetired) idle.push(worker);
      }
    idle.sort((a, b) => a.idleSince - b.idleSince);
    for (const worker of idle.slice(0, Math.max(0, idle.length - mostIdle))) worker.retire();
    this.#sweep();
  }

  /** Drops groups without workers and calls, so that a key that is never used again costs nothing. */
  #sweep(): void {
    for (const group of this.#groups) if (group.isEmpty) this.#groups.delete(group);
    for (const [key, group] of this.#current) if (group.isEmpty) this.#current.delete(key);
  }
}

function fitsBlank({ memoryMb, scratchMb, ...opened }: WorkerShape): boolean {
  const { dependencies, egressSocket, data, folders = [] } = opened;
  const isPlain = [dependencies, egressSocket, data, folders[0]].every((part) => part === undefined);
  return isPlain && memoryMb === blankShape.memoryMb && scratchMb === blankShape.scratchMb;
}

function closed(label: string): SandboxError {
  return new SandboxError("sandbox_ended", `${label} was ended, because the server closes.`);
}

/** Milliseconds for which a group starts no worker after a failed start, unless a worker becomes free. */
const pauseMs = 5_000;

interface WaitingCall {
  readonly invocation: Invocation;
  /** How many sandboxed calls are above this one in its chain, each waiting for the next. */
  readonly depth: number;
  readonly outcome: PromiseWithResolvers<unknown>;
}

/** The workers of one key, and the calls that wait for one of them. */
class WorkerGroup {
  readonly limits: WorkerLimits;
  readonly workers = new Set<Worker>();
  readonly #start: () => Promise<Worker>;
  readonly #waiting = new Set<WaitingCall>();
  #starting = 0;
  #isRetired = false;
  /** Whether no worker is started for now: a start failed, but running workers may still serve the calls. */
  #isPaused = false;

  /** `start` resolves to a worker that has loaded the code. */
  constructor(limits: WorkerLimits, start: () => Promise<Worker>) {
    this.limits = limits;
    this.#start = start;
  }

  /** Whether the group has no workers, none that are starting, and no waiting calls. */
  get isEmpty(): boolean {
    return this.workers.size === 0 && this.#starting === 0 && this.#waiting.size === 0;
  }

  invoke(invocation: Invocation): Promise<unknown> {
    const depth = nesting.getStore() ?? 0;
    const worker = this.#workerFor(depth);
    return worker === undefined ? this.#wait(invocation, depth) : worker.invoke(invocation, depth);
  }

  /** Lets the group's workers end. Calls that already wait are still served. */
  retire(): void {
    this.#isRetired = true;
    this.#advance();
  }

  rejectWaiting(error: unknown, leastDepth = 0): void {
    for (const call of this.#waiting) {
      if (call.depth < leastDepth) continue;
      this.#waiting.delete(call);
      call.outcome.reject(error);
    }
  }

  #wait(invocation: Invocation, depth: number): Promise<unknown> {
    const { signal } = invocation;
    const outcome = Promise.withResolvers<unknown>();
    const call: WaitingCall = { invocation, depth, outcome };
    const giveUp = () => {
      this.#waiting.delete(call);
      outcome.reject(signal.reason);
    };
    signal.addEventListener("abort", giveUp, { once: true });
    this.#waiting.add(call);
    this.#grow();
    return outcome.promise.finally(() => signal.removeEventListener("abort", giveUp));
  }

  /** Called when a worker has room again or has ended, when the group retires, and at the end of a pause. */
  #advance(): void {
    this.#isPaused = false;
    this.#serve();
  }

  #serve(): void {
    for (const call of this.#waiting) {
      const worker = this.#workerFor(call.depth);
      if (worker === undefined) continue;
      this.#waiting.delete(call);
      call.outcome.resolve(worker.invoke(call.invocation, call.depth));
    }
    this.#grow();
    if (this.#isRetired && this.#waiting.size === 0) for (const worker of this.workers) worker.retire();
  }

  #workerFor(depth: number): Worker | undefined {
    if (this.#roomAt(depth) <= 0) return undefined;
    for (const worker of this.workers) if (worker.accepts) return worker;
    return undefined;
  }

  /**
   * How many more calls of this depth may begin. Each depth has its own room, so that calls that wait for
   * nested calls never take the room that the nested calls need.
   */
  #roomAt(depth: number): number {
    const { concurrency, workers } = this.limits;
    let room = concurrency * workers;
    for (const worker of this.workers) room -= worker.runningAt(depth);
    return room;
  }

  /** Starts workers until those that are starting can serve all waiting calls whose depth has room. */
  #grow(): void {
    if (this.#isPaused || this.#waiting.size === 0) return;
    const byDepth = Map.groupBy(this.#waiting, ({ depth }) => depth);
    let ready = 0;
    for (const [depth, calls] of byDepth) ready += Math.max(0, Math.min(calls.length, this.#roomAt(depth)));
    while (ready > this.#starting * this.limits.concurrency) void this.#add();
  }

  async #add(): Promise<void> {
    this.#starting++;
    try {
      const worker = await this.#start();
      this.workers.add(worker);
      worker.onFree = () => this.#advance();
      void worker.ended.then(() => {
        this.workers.delete(worker);
        this.#advance();
      });
      this.#starting--;
    } catch (error) {
      this.#starting--;
      this.#pauseStarts(error);
    }
    this.#serve();
  }

  #pauseStarts(failure: unknown): void {
    // When no other worker runs or starts, the waiting calls would wait for ever.
    const isAlone = this.#starting === 0 && [...this.workers].every((worker) => worker.isRetired);
    if (isAlone) return void this.rejectWaiting(failure);
    // Nested calls are rejected too: the calls in the other workers may be waiting for just these.
    this.rejectWaiting(failure, 1);
    this.#isPaused = true;
    setTimeout(() => this.#advance(), pauseMs).unref();
  }
}
