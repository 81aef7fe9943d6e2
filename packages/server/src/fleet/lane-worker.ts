import { hostname } from "node:os";
import type { CallLink, Logger, RackEvent, ToolInfo, ToolRegistry } from "@toolrack/core";
import { linkedClient, revivedError } from "@toolrack/core/internal";
import type { Worker } from "bullmq";
import { productVersion, reasonOf } from "../helpers/index.ts";
import type { CallStore, LaneHandover } from "../store/index.ts";
import {
  CALL,
  type Handover,
  type LaneEvent,
  type LaneJob,
  type Reply,
  type ServerMessage,
  WHO,
  WORKER,
  type WorkerNews,
  type WorkerQuestion,
} from "./handover.ts";
import type { JobFacts, LaneLink } from "./lane-link.ts";
import {
  ANNOUNCE_EVERY,
  type LaneQueue,
  type LanesConfig,
  laneFinder,
  queuesFor,
  versionOf,
  type WorkerNotice,
} from "./lane-workers.ts";

export interface LaneWorkerOptions {
  readonly link: LaneLink;
  readonly config: LanesConfig;
  readonly registry: ToolRegistry;
  readonly calls: Pick<CallStore, "lanes" | "held">;
  readonly unseal: (text: string) => string;
  /** Enters the call into the book of live calls. Resolves when its record is stored or refused. */
  readonly enter: (handover: Handover) => Promise<{ readonly recorded: boolean; readonly isTaken?: boolean }>;
  /** The lanes that it serves. Undefined: all. */
  readonly lanes: readonly string[] | undefined;
  /** How many calls it performs at once. */
  readonly concurrency: number;
  readonly logger: Logger;
}

/** Milliseconds. A worker that is silent for so long is taken for dead, if the store says so too. */
const LOCK = 6_000;
const STALLED_EVERY = 2_000;
/** How often a call of an idempotent tool may lose its worker. */
const MOST_DEATHS = 5;
/** Milliseconds after which a call is taken that began before. Most have ended by then, and need no second write. */
const TAKE_AFTER = 5;
/** Milliseconds between two messages with what a tool says while it runs, and until the first that it runs. */
const TELL_EVERY = 40;
/** Milliseconds between two looks for a row that is being written, and for how long it is waited for. */
const ROW_EVERY = 20;
const ROW_LIMIT = 5_000;
/** Milliseconds between two looks whether the calls under way have ended. */
const LOOK_EVERY = 100;
/** Milliseconds after a change of the tools until the queues are chosen anew. */
const SETTLE_AFTER = 150;

interface Listening {
  readonly queue: LaneQueue;
  readonly worker: Worker;
  running: number;
}

interface Performed {
  /** The server that admitted the call. */
  readonly server: string;
  events: LaneEvent[];
  timer: NodeJS.Timeout | undefined;
  pause: Disposable | undefined;
}

/** Takes calls from the queues of its lanes, and performs them. */
export class LaneWorker {
  readonly #options: LaneWorkerOptions;
  readonly #laneOf: (tool: ToolInfo) => string | undefined;
  readonly #listening = new Map<string, Listening>();
  readonly #performed = new Map<string, Performed>();
  readonly #leaving = new Set<Promise<void>>();
  readonly #unsubscribe: () => void;
  readonly #announcing: NodeJS.Timeout;
  readonly #startedAt = Date.now();
  #choosing: NodeJS.Timeout | undefined;
  /** Calls that wait for a person or a call that they made: others may be performed meanwhile. */
  #waiting = 0;
  #isClosing = false;
  /** Called when the queues were chosen. */
  onQueues: (queues: readonly LaneQueue[]) => void = () => {};

  constructor(options: LaneWorkerOptions) {
    this.#options = options;
    const { link, registry, config } = options;
    this.#laneOf = laneFinder(config);
    // Only servers of this rack can seal a message.
    link.channel.listen(CALL, (message) => this.#hear(message as ServerMessage));
    link.channel.listen(WHO, () => this.#announce());
    link.channel.onGap(() => this.#announce());
    link.onUp = () => {
      this.#announce();
      // A Redis that comes back without its data has forgotten them.
      for (const { queue } of this.#listening.values()) this.#limit(queue);
    };
    this.#unsubscribe = registry.subscribe(
      (event) => this.#note(event),
      ["tools", "progress", "log", "state"],
    );
    this.#announcing = setInterval(() => this.#announce(), ANNOUNCE_EVERY).unref();
    this.#choose();
  }

  get running(): number {
    return this.#performed.size;
  }

  /** The lanes that it serves: those that were asked for, or those of its tools. */
  get lanes(): readonly string[] {
    return this.#options.lanes ?? [...new Set(this.queues.map(({ lane }) => lane))];
  }

  get queues(): readonly LaneQueue[] {
    return Array.from(this.#listening.values(), ({ queue }) => queue);
  }

  /** Takes no more calls, waits up to `limit` milliseconds for those under way, and cancels the rest. */
  async close(limit: number): Promise<void> {
    this.#isClosing = true;
    clearInterval(this.#announcing);
    clearTimeout(this.#choosing);
    this.#unsubscribe();
    const { link, registry } = this.#options;
    this.#announce(true);
    for (const { worker } of this.#listening.values()) this.#retire(worker);
    const timer = setTimeout(() => {
      for (const callId of this.#performed.keys()) registry.cancel(callId, "the worker is stopping");
    }, limit);
    const left = Promise.all(this.#leaving);
    // Without Redis, the queues cannot be left; a call under way ends all the same.
    let isLeft = false;
    void left.then(() => {
      isLeft = true;
    });
    while (!isLeft && (link.isUp || this.#performed.size > 0)) await Promise.race([left, pause(LOOK_EVERY)]);
    clearTimeout(timer);
    await link.close();
  }

  /** Chooses the queues by the tools that are there now. Calls under way go on. */
  #choose(): void {
    const { registry, lanes, config } = this.#options;
    const chosen = queuesFor(registry.getAll(), this.#laneOf, lanes, config);
    const names = new Set(chosen.map(({ name }) => name));
    for (const [name, { worker }] of this.#listening) {
      if (names.has(name)) continue;
      this.#listening.delete(name);
      this.#retire(worker);
    }
    for (const queue of chosen) if (!this.#listening.has(queue.name)) this.#listen(queue);
    this.#balance();
    this.#announce();
    this.onQueues(chosen);
  }

  #listen(queue: LaneQueue): void {
    const { link, concurrency } = this.#options;
    const { name, isIdempotent } = queue;
    this.#limit(queue);
    const worker = link.worker(
      name,
      async (data, job) => {
        listening.running++;
        this.#balance();
        try {
          // Only servers of this rack put something into its queues.
          await this.#run(data as LaneJob, job);
        } finally {
          listening.running--;
          this.#balance();
        }
      },
      {
        concurrency,
        lockDuration: LOCK,
        stalledInterval: STALLED_EVERY,
        maxStalledCount: isIdempotent ? MOST_DEATHS : 0,
        drainDelay: 5,
        removeOnComplete: { count: 0 },
        removeOnFail: { count: 0 },
      },
    );
    const listening: Listening = { queue, worker, running: 0 };
    this.#listening.set(name, listening);
  }

  /** Redis keeps limits by the name of the queue, also those that the config no longer has. */
  #limit({ name, limit }: LaneQueue): void {
    if (limit === undefined) return;
    const queue = this.#options.link.queue(name);
    const { concurrency, rate } = limit;
    const set = [
      concurrency === undefined ? queue.removeGlobalConcurrency() : queue.setGlobalConcurrency(concurrency),
      rate === undefined
        ? queue.removeGlobalRateLimit()
        : queue.setGlobalRateLimit(rate.calls, rate.seconds * 1_000),
    ];
    void Promise.all(set).catch(() => {});
  }

  #retire(worker: Worker): void {
    const left = worker.close().catch((error) => this.#options.logger.debug(`[lanes] ${reasonOf(error)}`));
    this.#leaving.add(left);
    void left.finally(() => this.#leaving.delete(left));
  }

  /** Shares the worker's places among its queues: each may use all that the others leave, and one at least. */
  #balance(): void {
    const most = this.#options.concurrency + this.#waiting;
    let running = 0;
    for (const listening of this.#listening.values()) running += listening.running;
    for (const { worker, running: own } of this.#listening.values()) {
      const places = Math.max(1, most - (running - own));
      if (worker.concurrency === places) continue;
      const isMore = worker.concurrency < places;
      worker.concurrency = places;
      if (isMore) lookAgain(worker);
    }
  }

  /** Performs a call, if this process gets it. What cannot be performed here stays as its row says. */
  async #run({ callId, handover: text, isFirst = false }: LaneJob, job: JobFacts): Promise<void> {
    const { calls, registry, unseal, enter } = this.#options;
    const written = text ?? (await this.#read(callId, job.age));
    if (written === undefined) return;
    const handover: Handover = JSON.parse(unseal(written));
    const { call, instance: server, isIdempotent } = handover;
    const tool = registry.get(call.toolName);
    if (tool === undefined || versionOf(tool) !== handover.version) {
      this.#tell(server, callId, { kind: "declined" });
      return;
    }
    // A call that may run twice need not wait until it is taken. No worker had it, so that none runs it now.
    const mayBegin = isIdempotent && isFirst && job.isFirst && !calls.held.isFull;
    const isBorrowed = mayBegin && calls.lanes.borrow(callId, server);
    if (!isBorrowed && !(await this.#take(handover, text, job.age))) return;
    const performed: Performed = { server, events: [], timer: undefined, pause: undefined };
    this.#performed.set(callId, performed);
    const taking = isBorrowed
      ? setTimeout(() => void this.#takeBorrowed(handover, text), TAKE_AFTER)
      : undefined;
    // Most calls have ended before it would be told that they began.
    const telling = setTimeout(() => this.#tell(server, callId, { kind: "began" }), TELL_EVERY);
    try {
      const recording = enter(handover);
      const outcome = await registry.perform(call, this.#linkOf(handover));
      // From here on, the record takes the call.
      clearTimeout(taking);
      const { recorded, isTaken } = await recording;
      if (isTaken) return;
      await calls.lanes.commit(callId);
      this.#flush(callId, performed);
      this.#tell(server, callId, { kind: "ended", performed: outcome, isRecorded: recorded });
    } finally {
      clearTimeout(taking);
      clearTimeout(telling);
      clearTimeout(performed.timer);
      this.#performed.delete(callId);
    }
  }

  /** Not waited for: what a server does not hear, it finds in the row. */
  #tell(server: string, callId: string, news: WorkerNews): void {
    void this.#options.link.channel.send(server, CALL, { ...news, callId }).catch(() => {});
  }

  /** Reads the handover from the row, which may just be being written. Undefined when the call has ended. */
  async #read(callId: string, age: number): Promise<string | undefined> {
    const { lanes } = this.#options.calls;
    for (let waited = age; ; waited += ROW_EVERY) {
      const row = await lanes.read(callId);
      if (row !== undefined || waited > ROW_LIMIT) return row?.handover;
      await pause(ROW_EVERY);
    }
  }

  /**
   * Makes the call one of this process, unless another has it or had it and may not be followed. `text` is the handover when
   * it came with the job: then the row may not be written.
   */
  async #take(handover: Handover, text: string | undefined, age: number): Promise<boolean> {
    const { lanes } = this.#options.calls;
    const { call, instance, isIdempotent } = handover;
    const { callId } = call;
    const unwritten = unwrittenOf(handover, text);
    for (let waited = age; ; waited += ROW_EVERY) {
      if (await lanes.take(callId, instance, unwritten)) return true;
      const row = await lanes.read(callId);
      if (row !== undefined && row.instance !== instance) {
        // It began elsewhere. A tool that may not run twice is left to the sweep, which says that its outcome is unknown.
        if (row.instance === lanes.instance || !isIdempotent || (await lanes.isAlive(row.instance)))
          return false;
        return lanes.take(callId, row.instance);
      }
      if (row === undefined && waited > ROW_LIMIT) return false;
      if (row === undefined && (await lanes.ended([callId])).length > 0) return false;
      await pause(ROW_EVERY);
    }
  }

  /** Takes a call that runs here already, and cancels it when that is too late. Never rejects. */
  async #takeBorrowed(handover: Handover, text: string | undefined): Promise<void> {
    const { calls, registry } = this.#options;
    const { callId } = handover.call;
    try {
      const isTaken = await calls.lanes.takeBorrowed(callId, handover.instance, unwrittenOf(handover, text));
      if (!isTaken) registry.cancel(callId, "the call was taken back before this worker had it");
    } catch {
      // The store is away. The call's record waits for it, and counts if nobody else has the call by then.
    }
  }

  #linkOf({ instance: server, call: { callId, client } }: Handover): CallLink {
    const { channel } = this.#options.link;
    const ask = async (question: WorkerQuestion): Promise<unknown> => {
      this.#waiting++;
      this.#balance();
      try {
        const answer = await channel.request(server, CALL, { ...question, callId }, Number.POSITIVE_INFINITY);
        const { value, error } = answer as Reply; // As servers answer.
        if (error !== undefined) throw revivedError(error);
        return value;
      } finally {
        this.#waiting--;
        this.#balance();
      }
    };
    const link: CallLink = {
      call: (name, input, options) =>
        // The server answers with the result.
        ask({ kind: "call", name, input, options }) as ReturnType<CallLink["call"]>,
      ask: (text, details) => ask({ kind: "ask", text, details }) as Promise<void>, // It answers nothing.
      request: (method, params, signal) => untilAborted(ask({ kind: "client", method, params }), signal),
      notify: (method, params) => this.#tell(server, callId, { kind: "notify", method, params }),
    };
    return client === undefined ? link : { ...link, client: linkedClient(client, link) };
  }

  /** Hears what servers say of calls that are performed here. */
  #hear(said: ServerMessage): void {
    const performed = this.#performed.get(said.callId);
    if (performed === undefined) return;
    const { registry } = this.#options;
    if (said.kind === "abort") {
      registry.abort(said.callId, revivedError(said.error));
      return;
    }
    performed.pause?.[Symbol.dispose]();
    performed.pause = said.isWaiting ? registry.pause(said.callId) : undefined;
  }

  #note(event: RackEvent): void {
    if (event.type === "tools") {
      clearTimeout(this.#choosing);
      if (!this.#isClosing) this.#choosing = setTimeout(() => this.#choose(), SETTLE_AFTER);
      return;
    }
    if (!("callId" in event)) return;
    const performed = this.#performed.get(event.callId);
    if (performed === undefined) return;
    if (event.type === "progress") performed.events.push({ type: "progress", update: event.update });
    else if (event.type === "log")
      performed.events.push({ type: "log", level: event.level, text: event.text, at: event.at });
    else if (event.type === "state" && event.status === "running" && event.state.metadata !== undefined) {
      const { title, metadata } = event.state;
      performed.events.push({ type: "state", update: { ...(title && { title }), metadata } });
    } else return;
    performed.timer ??= setTimeout(() => this.#flush(event.callId, performed), TELL_EVERY);
  }

  #flush(callId: string, performed: Performed): void {
    clearTimeout(performed.timer);
    performed.timer = undefined;
    if (performed.events.length === 0) return;
    const { events, server } = performed;
    performed.events = [];
    this.#tell(server, callId, { kind: "events", events });
  }

  /** Tells all servers which calls this worker takes, or that it takes no more. */
  #announce(isGone = false): void {
    const { link, concurrency, calls } = this.#options;
    if (!link.isUp) return;
    const notice: WorkerNotice = {
      isGone,
      view: {
        ...{ id: calls.lanes.instance, host: hostname(), pid: process.pid, version: productVersion() },
        ...{
          lanes: this.lanes,
          concurrency,
          running: this.running,
          startedAt: this.#startedAt,
          queues: this.queues,
        },
      },
    };
    link.channel.publish(WORKER, notice);
  }
}

/**
 * Makes a worker see that it has more places. BullMQ looks at their number only when something of its loop is done: when all
 * were taken, the next call would wait until one of those under way has ended, which may itself wait for that call.
 */
function lookAgain(worker: Worker): void {
  type Looping = { readonly mainLoopQueue?: Pick<Set<unknown>, "add"> | null };
  const { mainLoopQueue } = worker as unknown as Looping; // Its types leave out what its loop waits for.
  mainLoopQueue?.add(Promise.resolve());
}

/** From what a row is made that the server may not have written. */
function unwrittenOf({ started, lane }: Handover, text: string | undefined): LaneHandover | undefined {
  return started && text !== undefined ? { call: started, lane, handover: text } : undefined;
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
  });
}

function untilAborted(answer: Promise<unknown>, signal: AbortSignal): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  const giveUp = () => reject(signal.reason);
  signal.addEventListener("abort", giveUp, { once: true });
  answer.then(resolve, reject);
  return promise.finally(() => signal.removeEventListener("abort", giveUp));
}
