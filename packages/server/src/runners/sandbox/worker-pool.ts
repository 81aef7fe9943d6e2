import type { Logger } from "@toolrack/core";
import type { Confinement, WorkerShape } from "./confinement/confinement.ts";
import { describeNetwork } from "./describe-network.ts";
import type { EgressProxies } from "./egress/egress-proxies.ts";
import { defaultLimits } from "./limits.ts";
import { SandboxError } from "./sandbox-error.ts";
import type { Invocation, LogNotification, SandboxStats, WorkerLimits, WorkerSpec } from "./types.ts";
import { Worker } from "./worker.ts";
import { WorkerGroup } from "./worker-group.ts";

export interface WorkerPoolOptions {
  readonly confinement: Confinement;
  readonly proxies: EgressProxies;
  readonly logger: Logger;
  readonly blankWorkers: number;
}

/** Idle workers of all tools together; above it the one that was idle the longest ends first. */
const mostIdle = 16;
const tickMs = 500;
/** Idle workers are many and seldom do anything: they are looked at every so many ticks. */
const idleTicks = 4;
/** A blank worker is replaced a moment later, so that its start does not slow the call that took the last one. */
const refillMs = 100;

const blankShape: WorkerShape = { memoryMb: defaultLimits.memoryMb, scratchMb: defaultLimits.scratchMb };

/** Keeps workers: blank ones for whoever comes next, warm ones for the code they have loaded. */
export class WorkerPool {
  readonly #options: WorkerPoolOptions;
  readonly #groups = new Map<string, WorkerGroup>();
  /** Groups that were retired and still have calls or workers. */
  readonly #leaving = new Set<WorkerGroup>();
  readonly #blank = new Set<Worker>();
  readonly #all = new Set<Worker>();
  /** Who hears what a worker says outside a call. */
  readonly #listeners = new WeakMap<Worker, NonNullable<WorkerSpec["onLog"]>>();
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
      this.#leaving.add(group);
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
    for (const group of [...this.#groups.values(), ...this.#leaving])
      group.rejectWaiting(closed("The sandbox"));
    this.retire([...this.#groups.keys()]);
    for (const worker of this.#blank) worker.kill();
    const workers = [...this.#all];
    const deadline = setTimeout(() => {
      for (const worker of workers) if (worker.running > 0) worker.kill(closed("The sandbox"));
    }, defaultLimits.graceMs);
    // Whoever is still there then was being started, or does not end by itself.
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
      ...(spec.dependencies === undefined ? {} : { dependencies: spec.dependencies }),
      ...(hasNetwork ? { egressSocket: await proxies.socketFor(spec.hosts) } : {}),
    };
    if (this.#isClosed) throw closed(spec.label);
    const worker = (fitsBlank(shape) ? await this.#takeBlank() : undefined) ?? this.#launch(shape);
    if (spec.onLog !== undefined) this.#listeners.set(worker, spec.onLog);
    await worker.load(spec, limits, describeNetwork(spec, confinement.level));
    return worker;
  }

  /** A blank worker that is up, or nothing. One that died while it waited is no fault of the tool that comes now. */
  async #takeBlank(): Promise<Worker | undefined> {
    this.#refill ??= setTimeout(() => this.#fill(), refillMs).unref();
    const [worker] = this.#blank;
    if (worker === undefined) return undefined;
    this.#blank.delete(worker);
    // One that does not get up in time is given up, so that the call has a new one.
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
      onLog: (label, log) => (this.#listeners.get(worker) ?? ((said) => this.#log(label, said)))(log),
    });
    this.#all.add(worker);
    return worker;
  }

  #groupOf(worker: Worker): WorkerGroup | undefined {
    for (const group of this.#groups.values()) if (group.workers.has(worker)) return group;
    for (const group of this.#leaving) if (group.workers.has(worker)) return group;
    return undefined;
  }

  #check(): void {
    const now = performance.now();
    const isIdleTick = this.#ticks++ % idleTicks === 0;
    const idle: Worker[] = [];
    for (const group of [...this.#groups.values(), ...this.#leaving])
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

  /** Groups without a worker are forgotten: a key that is never asked for again must cost nothing. */
  #sweep(): void {
    for (const [key, group] of this.#groups) if (group.isEmpty) this.#groups.delete(key);
    for (const group of this.#leaving) if (group.isEmpty) this.#leaving.delete(group);
  }

  #log(label: string, { level, text }: LogNotification): void {
    this.#options.logger[level](`${label}: ${text}`);
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
