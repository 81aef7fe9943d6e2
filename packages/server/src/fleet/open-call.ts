import {
  type HandedCall,
  isToolError,
  type Logger,
  type PerformedCall,
  type ToolError,
  type ToolErrorResponse,
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
  type WorkerMessage,
} from "./handover.ts";
import type { LaneLink } from "./lane-link.ts";
import { isRepeatable, type LaneCounts, versionOf, type WorkerDirectory } from "./lane-workers.ts";
import { GRACE } from "./left-calls.ts";

/** What all calls share that a process hands over. */
export interface OpenCallParts {
  readonly link: LaneLink;
  readonly calls: Pick<CallStore, "lanes" | "get">;
  readonly directory: WorkerDirectory;
  readonly counts: LaneCounts;
  readonly seal: (text: string) => string;
  /** The call's entry in the book of live calls, and what its performer must know of it. */
  readonly describe: (callId: string) => DescribedCall | undefined;
  /** Notes that another call has the id that the caller chose. */
  readonly taken: (callId: string) => void;
  /** Notes that a worker performs the call, and that it has ended and is on record or not. */
  readonly handed: (callId: string, lane: string) => void;
  readonly ended: (callId: string, isRecorded: boolean) => void;
  readonly logger: Logger;
}

interface DescribedCall {
  readonly live: StartedCall;
  readonly about: unknown;
  /** The row claims the id that the caller chose, so nobody may perform the call before it is written. */
  readonly isClaimed: boolean;
}

/** Milliseconds after which a call that still waits is looked for in its queue: Redis may have lost it. */
const LOOK_AGAIN_AFTER = 5_000;
/** Milliseconds that a worker has to end a call that was cancelled or whose time is over. */
const ABORT_LIMIT = 2_500;
/** Milliseconds after which a call that was put into a queue gets its row from here, unless a worker has taken it and written the row. */
const WRITE_AFTER = 100;
/** Milliseconds between two attempts to write a row while the store is away. */
const WRITE_AGAIN = 200;

/** A call that this process admitted, from when it is handed over until it has ended. */
export class OpenCall {
  readonly lane: string;
  readonly #parts: OpenCallParts;
  readonly #handed: HandedCall;
  readonly #version: string;
  readonly #end = Promise.withResolvers<PerformedCall>();
  #handover = "";
  #known: DescribedCall | undefined;
  /** The writing of its row. */
  #writing: Promise<void> | undefined;
  /** Whether its row is written, so that a worker may take it. */
  #isHanded = false;
  /** Whether it may be put into a queue: its row is written, or whoever performs it may write the row. */
  #mayLeave = false;
  /** The queue it stands in. */
  #queue: string | undefined;
  /** Whether it was put into a queue, which may have lost it. */
  #wasQueued = false;
  /** The node that performs it. */
  #worker: string | undefined;
  #reason: ToolError | undefined;
  /** When its place in the queue was last looked at. */
  #lookedAt = Date.now();
  #isOver = false;

  constructor(lane: string, handed: HandedCall, parts: OpenCallParts) {
    this.lane = lane;
    this.#parts = parts;
    this.#handed = handed;
    this.#version = versionOf(handed.tool);
    handed.onAbort = (reason) => {
      this.#reason = reason;
      void this.#abort();
    };
  }

  get callId(): string {
    return this.#handed.callId;
  }

  /** Whether the call waits without standing in a queue. */
  get isHomeless(): boolean {
    return this.#queue === undefined;
  }

  /** Whether the call may have a row. */
  get hasRow(): boolean {
    return this.#isHanded || this.#worker !== undefined;
  }

  /** Resolves when the call has ended. Rejects when it did not begin. To be called once. */
  async performed(): Promise<PerformedCall> {
    void this.#hand().catch(this.#end.reject);
    try {
      return await this.#end.promise;
    } finally {
      this.#isOver = true;
      if (this.#worker === undefined) this.#parts.counts.left(this.lane);
      this.#handed.onAbort = undefined;
    }
  }

  async #hand(): Promise<void> {
    const { calls, seal, describe, handed: note } = this.#parts;
    const { callId, lane } = this;
    const known = describe(callId);
    this.#known = known;
    if (known === undefined) throw new Error(`The call ${callId} is not in the book of live calls.`);
    const handover: Handover = {
      ...{ call: this.#handed.admitted(), lane, version: this.#version, about: known.about },
      isIdempotent: isRepeatable(this.#handed.tool),
      instance: calls.lanes.instance,
    };
    // Nobody else has the id, so the worker may write the row. That takes a write and a wait off most calls.
    const isUnwritten = calls.lanes.postpone(callId) && !known.isClaimed;
    const started = isUnwritten ? startedOf(known.live) : undefined;
    this.#handover = seal(JSON.stringify({ ...handover, started }));
    note(callId, lane);
    if (!isUnwritten || this.#handover.length > LONGEST_JOB) {
      await this.#write();
      this.#mayLeave = true;
      this.enqueue();
      return;
    }
    this.#mayLeave = true;
    this.enqueue();
    if (this.isHomeless) await this.#write();
    else
      setTimeout(() => {
        if (this.#worker === undefined) void this.#write().catch(this.#end.reject);
      }, WRITE_AFTER);
  }

  #tell(worker: string, message: ServerMessage): Promise<void> {
    return this.#parts.link.channel.send(worker, CALL, message);
  }

  /** Writes the row of a call, unless the call has ended. Waits while the store is away. */
  #write(): Promise<void> {
    this.#writing ??= this.#writeRow();
    return this.#writing;
  }

  async #writeRow(): Promise<void> {
    const { calls, taken } = this.#parts;
    const { callId, lane } = this;
    const known = this.#known;
    while (known !== undefined && !this.#isOver) {
      try {
        const isMine = await calls.lanes.hand({ call: known.live, lane, handover: this.#handover });
        this.#isHanded = true;
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

  /**
   * Puts the call into the queue of the workers that have its tool, where there are some, unless a worker has it or its id is
   * not claimed yet. Putting it there twice changes nothing.
   */
  enqueue(): void {
    if (this.#worker !== undefined || !this.#mayLeave) return;
    const { link, directory, logger } = this.#parts;
    const { callId, lane } = this;
    const { tool } = this.#handed;
    const queue = directory.queueFor(lane, tool.name, this.#version);
    if (queue === undefined || !link.isUp) {
      const away = `Waiting for the queue of lane "${lane}": Redis does not answer.`;
      this.#handed.waits(link.isUp ? directory.missing(lane, tool.name) : away);
      return;
    }
    this.#handed.waits(undefined);
    this.#lookedAt = Date.now();
    if (this.#queue !== queue.name) this.#leave();
    this.#queue = queue.name;
    const handover = this.#handover;
    const isFirst = !this.#wasQueued;
    this.#wasQueued = true;
    const job: LaneJob = handover.length > LONGEST_JOB ? { callId } : { callId, handover, isFirst };
    const options = { jobId: jobIdOf(callId), removeOnComplete: true, removeOnFail: true };
    // Not waited for: while Redis is away, it would hold up the row.
    link
      .queue(queue.name)
      .add(tool.name, job, options)
      .catch((error) => logger.debug(`[lanes] ${callId}: ${reasonOf(error)}`));
  }

  /** Puts a call that has waited long into its queue again. */
  lookAgain(now: number): void {
    if (this.#worker !== undefined || now - this.#lookedAt < LOOK_AGAIN_AFTER) return;
    this.#lookedAt = now;
    this.enqueue();
  }

  #leave(): void {
    const { link } = this.#parts;
    if (this.#queue === undefined || !link.isUp) return;
    void link
      .queue(this.#queue)
      .remove(jobIdOf(this.callId))
      .catch(() => {});
  }

  /** Ends a call that was cancelled or whose time is over: here when nobody has begun it, and otherwise at its worker. */
  async #abort(): Promise<void> {
    const { calls, logger } = this.#parts;
    const { callId } = this;
    const reason = this.#reason;
    if (reason === undefined) return;
    const error = reason.toResponse();
    const timer = setTimeout(() => void this.#settle(error), ABORT_LIMIT);
    void this.#end.promise.catch(() => {}).finally(() => clearTimeout(timer));
    try {
      if (this.#worker === undefined) {
        await this.#write();
        if (await calls.lanes.withdraw(callId)) {
          this.#leave();
          this.#end.reject(reason);
          return;
        }
      }
      const worker = this.#worker ?? (await calls.lanes.read(callId))?.instance;
      if (worker !== undefined) await this.#tell(worker, { kind: "abort", callId, error });
    } catch (thrown) {
      logger.debug(`[lanes] ${callId} could not be cancelled yet: ${reasonOf(thrown)}`);
    }
  }

  /** Ends a call whose worker does not answer. What the worker records later is left out. */
  async #settle(error: ToolErrorResponse): Promise<void> {
    const { calls } = this.#parts;
    const { callId } = this;
    try {
      const row = await calls.lanes.read(callId);
      if (row !== undefined) await calls.lanes.settle(callId, row.instance, error);
      await this.adopt();
      if (row === undefined && this.#reason !== undefined) this.#end.reject(this.#reason);
    } catch {
      // The store is away too. The call ends here, and its record waits for the store.
      if (this.#reason !== undefined) this.#end.reject(this.#reason);
    }
  }

  /** Ends the call as its row says, if that has ended. */
  async adopt(): Promise<void> {
    const stored = await this.#parts.calls.get(this.callId);
    if (stored === undefined || stored.status === "running") return;
    const { result, error, flags } = stored;
    this.#finish({ result, error, flags }, true);
  }

  #finish(performed: PerformedCall, isRecorded: boolean): void {
    if (this.#isOver) return;
    this.#parts.ended(this.callId, isRecorded);
    this.#end.resolve(performed);
  }

  /** Tells the worker that the call waits for a person, itself or in a child: it must not run out of time there. */
  waits(isWaiting: boolean): void {
    if (this.#worker === undefined) return;
    void this.#tell(this.#worker, { kind: "waiting", callId: this.callId, isWaiting }).catch(() => {});
  }

  /** Hears what its worker says. What it returns answers the worker's question. */
  hear(said: WorkerMessage, from: string): Promise<Reply> | undefined {
    const handed = this.#handed;
    if (said.kind !== "declined" && this.#worker === undefined) this.#begin(from, said.kind !== "ended");
    switch (said.kind) {
      case "ended":
        this.#finish(said.performed, said.isRecorded);
        return undefined;
      case "declined":
        // The worker has another version by now.
        this.#queue = undefined;
        this.enqueue();
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
  #begin(node: string, isRunning: boolean): void {
    this.#worker = node;
    this.#parts.counts.left(this.lane);
    if (!isRunning) return;
    this.#handed.began(GRACE);
    if (this.#reason !== undefined) void this.#abort();
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
