import {
  type CallDispatcher,
  type HandedCall,
  isToolError,
  type Logger,
  type PerformedCall,
  type ToolError,
  type ToolErrorResponse,
  type ToolInfo,
  type ToolRegistry,
} from "@toolrack/core";
import { reasonOf } from "../helpers/index.ts";
import type { CallStore, StartedCall } from "../store/index.ts";
import {
  CALL,
  type Handover,
  jobIdOf,
  type LaneEvent,
  type LaneJob,
  LONGEST_JOB,
  type Reply,
  type ServerMessage,
  WHO,
  WORKER,
  type WorkerMessage,
} from "./handover.ts";
import type { LaneLink } from "./lane-link.ts";
import {
  isRepeatable,
  LaneCounts,
  type LanesConfig,
  type LaneView,
  laneFinder,
  versionOf,
  WorkerDirectory,
  type WorkerNotice,
  type WorkerView,
} from "./lane-workers.ts";
import { GRACE, takeUpLeftCalls } from "./left-calls.ts";

export interface LanesOptions {
  readonly link: LaneLink;
  readonly config: LanesConfig;
  readonly registry: ToolRegistry;
  readonly calls: Pick<CallStore, "lanes" | "get">;
  readonly seal: (text: string) => string;
  readonly unseal: (text: string) => string;
  /** The call's entry in the book of live calls, and what its performer must know of it. */
  readonly describe: (callId: string) => DescribedCall | undefined;
  /** Notes that another call has the id that the caller chose. */
  readonly taken: (callId: string) => void;
  /** Notes that a worker performs the call, and that it has ended and is on record or not. */
  readonly handed: (callId: string, lane: string) => void;
  readonly ended: (callId: string, isRecorded: boolean) => void;
  /** Lanes that this process serves itself: their tools run here. */
  readonly own?: readonly string[];
  readonly logger: Logger;
}

interface DescribedCall {
  readonly live: StartedCall;
  readonly about: unknown;
  /** The row claims the id that the caller chose, so nobody may perform the call before it is written. */
  readonly isClaimed: boolean;
}

/** A call that this process admitted and that has not ended. */
interface OpenCall {
  readonly handed: HandedCall;
  readonly lane: string;
  readonly version: string;
  readonly end: PromiseWithResolvers<PerformedCall>;
  handover: string;
  known: DescribedCall | undefined;
  /** The writing of its row. */
  writing: Promise<void> | undefined;
  /** Whether its row is written, so that a worker may take it. */
  isHanded: boolean;
  /** The queue it stands in. */
  queue: string | undefined;
  /** The node that performs it. */
  worker: string | undefined;
  abort: ToolError | undefined;
  /** When its place in the queue was last looked at. */
  lookedAt: number;
}

/** Milliseconds between two looks at the rows of open calls, behind the messages of workers. */
const POLL_EVERY = 1_000;
/** Milliseconds between two searches for calls that dead processes left. */
const SWEEP_EVERY = 3_000;
/** Milliseconds after which a call that still waits is looked for in its queue: Redis may have lost it. */
const LOOK_AGAIN_AFTER = 5_000;
/** Milliseconds that a worker has to end a call that was cancelled or whose time is over. */
const ABORT_LIMIT = 2_500;
/** Milliseconds after which a call that was put into a queue gets its row from here, unless a worker has taken it and written the row. */
const WRITE_AFTER = 100;
/** Milliseconds between two attempts to write a row while the store is away. */
const WRITE_AGAIN = 200;

/**
 * The lanes as a server sees them: it hands calls over to workers and waits for their end. The row of a call is the truth;
 * messages of workers only make it quick.
 */
export class Lanes implements CallDispatcher {
  readonly directory = new WorkerDirectory();
  readonly #options: LanesOptions;
  readonly #laneOf: (tool: ToolInfo) => string | undefined;
  readonly #open = new Map<string, OpenCall>();
  readonly #timer: NodeJS.Timeout;
  readonly #unsubscribe: () => void;
  readonly #counts: LaneCounts;
  #polling = false;
  #sweptAt = 0;

  constructor(options: LanesOptions) {
    this.#options = options;
    this.#laneOf = laneFinder(options.config);
    const { link, registry } = options;
    this.#counts = new LaneCounts({
      ...{ link, config: options.config, directory: this.directory },
      // Calls without a queue wait too.
      countHomeless: (lane) =>
        [...this.#open.values()].filter((open) => open.lane === lane && open.queue === undefined).length,
    });
    const { channel } = link;
    // Only nodes of this rack can seal a message, and they send what the types of messages say.
    channel.listen(CALL, (message, from) => this.#hear(message as WorkerMessage, from));
    channel.listen(WORKER, (notice) => this.directory.note(notice as WorkerNotice)); // As workers publish it.
    channel.onGap(() => channel.publish(WHO, {}));
    link.onUp = () => this.#enqueueAll();
    this.directory.onChange = () => this.#enqueueAll();
    this.#timer = setInterval(() => void this.#poll(), POLL_EVERY).unref();
    // A call that waits for a person, itself or in a child, must not run out of time at its worker.
    this.#unsubscribe = registry.subscribe(
      (event) => {
        if (event.type !== "waiting") return;
        const { callId, isWaiting } = event;
        const worker = this.#open.get(callId)?.worker;
        if (worker !== undefined)
          void this.#tell(worker, { kind: "waiting", callId, isWaiting }).catch(() => {});
      },
      ["waiting"],
    );
  }

  laneOf(tool: ToolInfo): string | undefined {
    const lane = this.#laneOf(tool);
    return lane === undefined || this.#options.own?.includes(lane) ? undefined : lane;
  }

  /** All lanes that have a tool here or a worker, by their names. */
  list(): Promise<LaneView[]> {
    const lanes = new Map<string, { tools: string[]; workers: WorkerView[] }>();
    const at = (lane: string) => {
      const found = lanes.get(lane) ?? { tools: [], workers: [] };
      lanes.set(lane, found);
      return found;
    };
    for (const tool of this.#options.registry.getAll()) {
      const lane = this.#laneOf(tool);
      if (lane !== undefined) at(lane).tools.push(tool.name);
    }
    for (const worker of this.directory.list())
      for (const lane of worker.lanes) at(lane).workers.push(worker);
    const sorted = [...lanes].sort(([one], [other]) => (one < other ? -1 : 1));
    return Promise.all(
      sorted.map(async ([name, rest]) => ({ name, waiting: await this.#counts.waiting(name), ...rest })),
    );
  }

  /** How long a caller should wait, in seconds, when the lane of the tool has a full queue. */
  busyFor(
    tool: ToolInfo,
  ): { readonly lane: string; readonly waiting: number; readonly seconds: number } | undefined {
    const lane = this.laneOf(tool);
    if (lane === undefined) return undefined;
    const busy = this.#counts.busy(lane);
    return busy && { lane, ...busy };
  }

  submit(lane: string, handed: HandedCall): Promise<PerformedCall> {
    const open: OpenCall = {
      ...{ handed, lane, version: versionOf(handed.tool), end: Promise.withResolvers() },
      ...{
        handover: "",
        known: undefined,
        writing: undefined,
        isHanded: false,
        queue: undefined,
        worker: undefined,
        abort: undefined,
      },
      lookedAt: Date.now(),
    };
    const { callId } = handed;
    this.#open.set(callId, open);
    this.#counts.entered(lane);
    handed.onAbort = (reason) => {
      open.abort = reason;
      void this.#abort(open);
    };
    void this.#hand(open).catch((error) => open.end.reject(error));
    return open.end.promise.finally(() => {
      this.#open.delete(callId);
      this.#counts.ended(lane);
      handed.onAbort = undefined;
    });
  }

  /** How many calls this process has handed over and waits for. */
  get waiting(): number {
    return this.#open.size;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#unsubscribe();
    await this.#options.link.close();
  }

  async #hand(open: OpenCall): Promise<void> {
    const { calls, seal, describe, handed: note } = this.#options;
    const { handed, lane, version } = open;
    const { callId, tool } = handed;
    const known = describe(callId);
    open.known = known;
    if (known === undefined) throw new Error(`The call ${callId} is not in the book of live calls.`);
    const handover: Handover = {
      ...{ call: handed.admitted(), lane, version, about: known.about, isIdempotent: isRepeatable(tool) },
      instance: calls.lanes.instance,
    };
    // Nobody else has the id, so the worker may write the row. That takes a write and a wait off most calls.
    const isUnwritten = calls.lanes.postpone(callId) && !known.isClaimed;
    const started = isUnwritten ? startedOf(known.live) : undefined;
    open.handover = seal(JSON.stringify({ ...handover, started }));
    note(callId, lane);
    if (!isUnwritten || open.handover.length > LONGEST_JOB) {
      await this.#write(open);
      await this.#enqueue(open);
      return;
    }
    await this.#enqueue(open);
    if (open.queue === undefined) await this.#write(open);
    else
      setTimeout(() => {
        if (open.worker === undefined) void this.#write(open).catch((error) => open.end.reject(error));
      }, WRITE_AFTER);
  }

  #tell(worker: string, message: ServerMessage): Promise<void> {
    return this.#options.link.channel.send(worker, CALL, message);
  }

  /** Writes the row of a call, unless the call has ended. Waits while the store is away. */
  #write(open: OpenCall): Promise<void> {
    open.writing ??= this.#writeRow(open);
    return open.writing;
  }

  async #writeRow(open: OpenCall): Promise<void> {
    const { calls, taken } = this.#options;
    const { handed, lane, handover, known } = open;
    const { callId } = handed;
    while (known !== undefined && this.#open.get(callId) === open) {
      try {
        const isMine = await calls.lanes.hand({ call: known.live, lane, handover });
        open.isHanded = true;
        if (isMine || !known.isClaimed) return;
        calls.lanes.release(callId);
        taken(callId);
        throw new Error(`There is a call "${callId}" already.`);
      } catch (error) {
        if (!calls.lanes.mayTryAgain(error)) throw error;
        await new Promise((resolve) => setTimeout(resolve, WRITE_AGAIN));
      }
    }
  }

  #enqueueAll(): void {
    for (const open of this.#open.values())
      if (open.worker === undefined) void this.#enqueue(open).catch(() => {});
  }

  /** Puts the call into the queue of the workers that have its tool, where there are some. Putting it there twice changes nothing. */
  async #enqueue(open: OpenCall): Promise<void> {
    const { link } = this.#options;
    const { handed, lane, version, handover } = open;
    const { callId, tool } = handed;
    const queue = this.directory.queueFor(lane, tool.name, version);
    if (queue === undefined || !link.isUp) {
      const away = `Waiting for the queue of lane "${lane}": Redis does not answer.`;
      handed.waits(link.isUp ? this.directory.missing(lane, tool.name) : away);
      return;
    }
    handed.waits(undefined);
    open.lookedAt = Date.now();
    if (open.queue !== undefined && open.queue !== queue.name) void this.#leave(open.queue, callId);
    open.queue = queue.name;
    const job: LaneJob = handover.length > LONGEST_JOB ? { callId } : { callId, handover };
    const options = { jobId: jobIdOf(callId), removeOnComplete: true, removeOnFail: true };
    // Not waited for: while Redis is away, it would hold up the row.
    link
      .queue(queue.name)
      .add(tool.name, job, options)
      .catch((error) => this.#options.logger.debug(`[lanes] ${callId}: ${reasonOf(error)}`));
  }

  async #leave(queue: string, callId: string): Promise<void> {
    if (this.#options.link.isUp)
      await this.#options.link
        .queue(queue)
        .remove(jobIdOf(callId))
        .catch(() => {});
  }

  /** Ends a call that was cancelled or whose time is over: here when nobody has begun it, and otherwise at its worker. */
  async #abort(open: OpenCall): Promise<void> {
    const { calls, logger } = this.#options;
    const { handed, end, abort } = open;
    const { callId } = handed;
    if (abort === undefined) return;
    const error = abort.toResponse();
    const timer = setTimeout(() => void this.#settle(open, error), ABORT_LIMIT);
    void end.promise.catch(() => {}).finally(() => clearTimeout(timer));
    try {
      if (open.worker === undefined) {
        await this.#write(open);
        if (await calls.lanes.withdraw(callId)) {
          if (open.queue !== undefined) void this.#leave(open.queue, callId);
          end.reject(abort);
          return;
        }
      }
      const worker = open.worker ?? (await calls.lanes.read(callId))?.instance;
      if (worker !== undefined) await this.#tell(worker, { kind: "abort", callId, error });
    } catch (thrown) {
      logger.debug(`[lanes] ${callId} could not be cancelled yet: ${reasonOf(thrown)}`);
    }
  }

  /** Ends a call whose worker does not answer. What the worker records later is left out. */
  async #settle(open: OpenCall, error: ToolErrorResponse): Promise<void> {
    const { calls } = this.#options;
    const { callId } = open.handed;
    try {
      const row = await calls.lanes.read(callId);
      if (row !== undefined) await calls.lanes.settle(callId, row.instance, error);
      await this.#adopt(open);
      if (row === undefined && open.abort !== undefined) open.end.reject(open.abort);
    } catch {
      // The store is away too. The call ends here, and its record waits for the store.
      if (open.abort !== undefined) open.end.reject(open.abort);
    }
  }

  /** Ends an open call as its row says. */
  async #adopt(open: OpenCall): Promise<void> {
    const { callId } = open.handed;
    const stored = await this.#options.calls.get(callId);
    if (stored === undefined || stored.status === "running") return;
    const { result, error, flags } = stored;
    this.#finish(open, { result, error, flags }, true);
  }

  #finish(open: OpenCall, performed: PerformedCall, isRecorded: boolean): void {
    if (!this.#open.has(open.handed.callId)) return;
    this.#options.ended(open.handed.callId, isRecorded);
    open.end.resolve(performed);
  }

  /** Hears what workers say of calls. What it returns answers a worker's question. */
  #hear(said: WorkerMessage, from: string): Promise<Reply> | undefined {
    const open = this.#open.get(said.callId);
    if (open === undefined) {
      if (said.kind === "call" || said.kind === "ask" || said.kind === "client")
        throw new Error("The call has ended at the server that it came to.");
      return undefined;
    }
    const { handed } = open;
    if (said.kind !== "declined" && open.worker === undefined) this.#begin(open, from, said.kind !== "ended");
    switch (said.kind) {
      case "ended":
        this.#finish(open, said.performed, said.isRecorded);
        return undefined;
      case "declined":
        // The worker has another version by now.
        open.queue = undefined;
        void this.#enqueue(open).catch(() => {});
        return undefined;
      case "events":
        for (const event of said.events) tell(handed, event);
        return undefined;
      case "notify":
        handed.client?.notify(said.method, said.params);
        return undefined;
      case "call":
        return replyOf(handed.call(said.name, said.input, said.options));
      case "ask":
        return replyOf(handed.ask(said.text, said.details));
      case "client": {
        const { client } = handed;
        if (client === undefined) throw new Error("The caller cannot be asked.");
        return replyOf(client.request(said.method, said.params));
      }
    }
    return undefined;
  }

  /** Notes which node performs the call. The first message of a short call tells that it has ended. */
  #begin(open: OpenCall, node: string, isRunning: boolean): void {
    open.worker = node;
    this.#counts.began(open.lane);
    if (!isRunning) return;
    open.handed.began(GRACE);
    if (open.abort !== undefined) void this.#abort(open);
  }

  /** Looks at the rows of open calls, and now and then for calls that dead processes left. Never rejects. */
  async #poll(): Promise<void> {
    if (this.#polling) return;
    this.#polling = true;
    const { link, calls, unseal, logger } = this.#options;
    try {
      // The others have no row yet.
      const waiting = [...this.#open.values()].filter(
        ({ isHanded, worker }) => isHanded || worker !== undefined,
      );
      for (const callId of await calls.lanes.ended(waiting.map(({ handed }) => handed.callId))) {
        const open = this.#open.get(callId);
        if (open !== undefined) await this.#adopt(open);
      }
      const now = Date.now();
      for (const open of this.#open.values()) {
        if (open.worker !== undefined || now - open.lookedAt < LOOK_AGAIN_AFTER) continue;
        open.lookedAt = now;
        void this.#enqueue(open).catch(() => {});
      }
      if (now - this.#sweptAt >= SWEEP_EVERY) {
        this.#sweptAt = now;
        const { directory } = this;
        for (const callId of await takeUpLeftCalls({ link, calls, unseal, directory })) {
          const open = this.#open.get(callId);
          if (open !== undefined) await this.#adopt(open);
        }
      }
    } catch (error) {
      logger.debug(`[lanes] ${reasonOf(error)}`);
    } finally {
      this.#polling = false;
    }
  }
}

/** What the row of a call that has begun is made of, without the rest of its entry in the book. */
function startedOf(live: StartedCall): StartedCall {
  const { callId, parentCallId, toolName, displayName, sessionID, caller, timestamp, depth, owner } = live;
  const { via, expert, line, rootCallId, parameters } = live;
  return {
    ...{
      callId,
      toolName,
      displayName,
      sessionID,
      caller,
      timestamp,
      parameters,
      via,
      expert,
      line,
      rootCallId,
    },
    ...(parentCallId !== undefined && { parentCallId }),
    ...(depth !== undefined && { depth }),
    ...(owner !== undefined && { owner }),
  };
}

function tell(handed: HandedCall, event: LaneEvent): void {
  if (event.type === "progress") handed.progress(event.update);
  else if (event.type === "log") handed.log(event.level, event.text, event.at);
  else handed.state(event.update);
}

/** Keeps the form of an error of the rack on its way to the worker. */
async function replyOf(answer: Promise<unknown>): Promise<Reply> {
  try {
    return { value: await answer };
  } catch (thrown) {
    if (isToolError(thrown)) return { error: thrown.toResponse() };
    throw thrown;
  }
}
