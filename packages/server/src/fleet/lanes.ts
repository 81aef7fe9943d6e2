import type { CallDispatcher, HandedCall, PerformedCall, ToolInfo, ToolRegistry } from "@toolrack/core";
import { reasonOf } from "../helpers/index.ts";
import { CALL, type Reply, WHO, WORKER, type WorkerMessage } from "./handover.ts";
import {
  LaneCounts,
  type LanesConfig,
  type LaneView,
  laneFinder,
  WorkerDirectory,
  type WorkerNotice,
  type WorkerView,
} from "./lane-workers.ts";
import { takeUpLeftCalls } from "./left-calls.ts";
import { OpenCall, type OpenCallParts } from "./open-call.ts";

export interface LanesOptions extends Omit<OpenCallParts, "directory" | "counts"> {
  readonly config: LanesConfig;
  readonly registry: ToolRegistry;
  readonly unseal: (text: string) => string;
}

/** Milliseconds between two looks at the rows of open calls, behind the messages of workers. */
const POLL_EVERY = 1_000;
/** Milliseconds between two searches for calls that dead processes left. */
const SWEEP_EVERY = 3_000;

/**
 * The lanes as a server sees them: it hands calls over to workers and waits for their end. The row of a call is the truth;
 * messages of workers only make it quick.
 */
export class Lanes implements CallDispatcher {
  readonly directory = new WorkerDirectory();
  readonly #options: LanesOptions;
  readonly #parts: OpenCallParts;
  /** The lane of a tool, as its metadata or the config says. */
  readonly laneOf: (tool: ToolInfo) => string | undefined;
  readonly #open = new Map<string, OpenCall>();
  readonly #timer: NodeJS.Timeout;
  readonly #unsubscribe: () => void;
  readonly #counts: LaneCounts;
  #polling = false;
  #sweptAt = 0;

  constructor(options: LanesOptions) {
    this.#options = options;
    this.laneOf = laneFinder(options.config);
    const { link, registry } = options;
    this.#counts = new LaneCounts({
      ...{ link, config: options.config, directory: this.directory },
      // Calls without a queue wait too.
      countHomeless: (lane) =>
        [...this.#open.values()].filter((open) => open.lane === lane && open.isHomeless).length,
    });
    this.#parts = { ...options, directory: this.directory, counts: this.#counts };
    const { channel } = link;
    // Only nodes of this rack can seal a message, and they send what the types of messages say.
    channel.listen(CALL, (message, from) => this.#hear(message as WorkerMessage, from));
    channel.listen(WORKER, (notice) => this.directory.note(notice as WorkerNotice)); // As workers publish it.
    channel.onGap(() => channel.publish(WHO, {}));
    link.onUp = () => this.#enqueueAll();
    this.directory.onChange = () => this.#enqueueAll();
    this.#timer = setInterval(() => void this.#poll(), POLL_EVERY).unref();
    this.#unsubscribe = registry.subscribe(
      (event) => {
        if (event.type === "waiting") this.#open.get(event.callId)?.waits(event.isWaiting);
      },
      ["waiting"],
    );
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
      const lane = this.laneOf(tool);
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

  async submit(lane: string, handed: HandedCall): Promise<PerformedCall> {
    const { callId } = handed;
    const open = new OpenCall(lane, handed, this.#parts);
    this.#open.set(callId, open);
    this.#counts.entered(lane);
    try {
      return await open.performed();
    } finally {
      this.#open.delete(callId);
      this.#counts.ended(lane);
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#unsubscribe();
    await this.#options.link.close();
  }

  #enqueueAll(): void {
    for (const open of this.#open.values()) open.enqueue();
  }

  /** Hears what workers say of calls. What it returns answers a worker's question. */
  #hear(said: WorkerMessage, from: string): Promise<Reply> | undefined {
    const open = this.#open.get(said.callId);
    if (open !== undefined) return open.hear(said, from);
    if (said.kind === "call" || said.kind === "ask" || said.kind === "client")
      throw new Error("The call has ended at the server that it came to.");
    return undefined;
  }

  /** Looks at the rows of open calls, and now and then for calls that dead processes left. Never rejects. */
  async #poll(): Promise<void> {
    if (this.#polling) return;
    this.#polling = true;
    const { link, calls, unseal, logger } = this.#options;
    const { directory } = this;
    try {
      const written = [...this.#open.values()].filter(({ hasRow }) => hasRow);
      await this.#adopt(await calls.lanes.ended(written.map(({ callId }) => callId)));
      const now = Date.now();
      for (const open of this.#open.values()) open.lookAgain(now);
      if (now - this.#sweptAt < SWEEP_EVERY) return;
      this.#sweptAt = now;
      await this.#adopt(await takeUpLeftCalls({ link, calls, unseal, directory }));
    } catch (error) {
      logger.debug(`[lanes] ${reasonOf(error)}`);
    } finally {
      this.#polling = false;
    }
  }

  async #adopt(callIds: readonly string[]): Promise<void> {
    for (const callId of callIds) await this.#open.get(callId)?.adopt();
  }
}
