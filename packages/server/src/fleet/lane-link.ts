import type { Logger } from "@toolrack/core";
import type { Queue, Worker, WorkerOptions } from "bullmq";
import type { Redis } from "ioredis";
import { reasonOf } from "../helpers/index.ts";
import type { LaneCalls } from "../store/index.ts";
import type { Channel } from "./channel.ts";
import { RedisChannel } from "./redis-channel.ts";

export interface LaneLinkOptions {
  /** The address of a Redis of version 6.2 or newer, or of a Valkey. */
  readonly url: string;
  /** Begins the names of all keys in Redis, so that several racks can share one. */
  readonly prefix: string;
  /** Encrypts what goes through Redis, and decrypts it. Only processes of one rack have the key. */
  readonly seal: (text: string) => string;
  readonly unseal: (text: string) => string;
  readonly lanes: Pick<LaneCalls, "instance" | "keep" | "readKept">;
  readonly logger: Logger;
}

/** What a worker knows of a job beside its data. */
export interface JobFacts {
  /** Milliseconds since it was put into the queue. */
  readonly age: number;
  /** Whether no worker has had it before. */
  readonly isFirst: boolean;
}

/** One process's connection to Redis: the queues of BullMQ, and a channel to the other nodes. */
export class LaneLink {
  readonly channel: Channel;
  readonly #options: LaneLinkOptions;
  readonly #bullmq: typeof import("bullmq");
  readonly #client: Redis;
  readonly #queues = new Map<string, Queue>();
  #wasUp = true;
  #isClosing = false;
  /** Called when Redis answers again. */
  onUp: () => void = () => {};

  private constructor(
    options: LaneLinkOptions,
    bullmq: typeof import("bullmq"),
    { Redis: Client }: Pick<typeof import("ioredis"), "Redis">,
  ) {
    this.#options = options;
    this.#bullmq = bullmq;
    const { url, prefix, seal, unseal, lanes, logger } = options;
    const client = new Client(url, {
      // Commands wait until Redis is back, as long as the calls that need them.
      maxRetriesPerRequest: null,
      retryStrategy: (attempt) => Math.min(1_000, 50 * 2 ** Math.min(attempt, 5)),
    });
    this.#client = client;
    client.on("error", (error) => {
      if (!this.#wasUp || this.#isClosing) return;
      this.#wasUp = false;
      logger.error(
        `Redis does not answer: ${reasonOf(error)}. Calls of lanes wait for it up to their time limit; all others run.`,
      );
    });
    client.on("ready", () => {
      if (!this.#wasUp) logger.warn("Redis answers again.");
      this.#wasUp = true;
      this.onUp();
    });
    this.channel = new RedisChannel({
      ...{ node: lanes.instance, client, prefix, seal, unseal },
      keep: (text) => lanes.keep(text),
      readKept: (name) => lanes.readKept(name),
    });
  }

  /** Resolves at once, also when Redis is away. Loads BullMQ, which nothing else does. */
  static async open(options: LaneLinkOptions): Promise<LaneLink> {
    const [bullmq, ioredis] = await Promise.all([import("bullmq"), import("ioredis")]);
    return new LaneLink(options, bullmq, ioredis);
  }

  get isUp(): boolean {
    return this.#client.status === "ready";
  }

  queue(name: string): Queue {
    let queue = this.#queues.get(name);
    if (queue === undefined) {
      const { prefix } = this.#options;
      // Nobody reads the events of queues.
      const streams = { events: { maxLen: 100 } };
      queue = new this.#bullmq.Queue(name, { connection: this.#client, prefix, streams });
      queue.on("error", () => {});
      this.#queues.set(name, queue);
    }
    return queue;
  }

  worker(
    name: string,
    run: (data: unknown, job: JobFacts) => Promise<void>,
    options: Partial<WorkerOptions>,
  ): Worker {
    const worker = new this.#bullmq.Worker(
      name,
      (job) => run(job.data, { age: Date.now() - job.timestamp, isFirst: job.attemptsStarted === 1 }),
      { ...options, connection: this.#client, prefix: this.#options.prefix },
    );
    worker.on("error", (error) => this.#options.logger.debug(`[lanes] ${reasonOf(error)}`));
    return worker;
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await this.channel.close();
    // Without Redis, saying goodbye would wait for it.
    if (this.isUp) await Promise.allSettled([...this.#queues.values()].map((queue) => queue.close()));
    this.#client.disconnect();
  }
}
