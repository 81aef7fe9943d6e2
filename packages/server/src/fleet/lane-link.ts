import { randomUUID } from "node:crypto";
import type { Logger } from "@toolrack/core";
import type { Queue, Relay, Worker, WorkerOptions } from "bullmq";
import type { Redis } from "ioredis";
import { reasonOf } from "../helpers/index.ts";
import type { LaneCalls } from "../store/index.ts";

export interface LaneLinkOptions {
  /** The address of a Redis of version 6.2 or newer, or of a Valkey. */
  readonly url: string;
  /** Begins the names of all keys in Redis, so that several racks can share one. */
  readonly prefix: string;
  /** `server` or `worker`, and on which machine: for people who look into Redis. */
  readonly name: string;
  /** Encrypts what goes through Redis, and decrypts it. Only processes of one rack have the key. */
  readonly seal: (text: string) => string;
  readonly unseal: (text: string) => string;
  readonly lanes: Pick<LaneCalls, "keep" | "readKept">;
  readonly logger: Logger;
}

/** What one node tells another. `kind` says what; the other members belong to the kind. */
export interface LaneMessage {
  readonly kind: string;
  readonly [key: string]: unknown;
}

type Listener = (message: LaneMessage, from: string) => unknown;

/** Characters. A longer message is kept as a blob, and only its name is sent. */
const LONGEST_MESSAGE = 32 * 1024;
/** Milliseconds without a sign of life after which other nodes forget a node. */
const LEASE = 10_000;

/**
 * One process's connection to Redis: the queues of BullMQ, and messages to other nodes by its Relay. Messages wait in
 * memory while Redis is away. A message to a node that has died is lost, which `send` tells.
 */
export class LaneLink {
  readonly id = randomUUID().replaceAll("-", "");
  readonly #options: LaneLinkOptions;
  readonly #bullmq: typeof import("bullmq");
  readonly #client: Redis;
  readonly #relay: Relay;
  readonly #queues = new Map<string, Queue>();
  readonly #answers = new Map<string, PromiseWithResolvers<unknown>>();
  #listener: Listener = () => {};
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
    const { url, prefix, name, logger } = options;
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
    this.#relay = new bullmq.Relay({
      connection: client,
      prefix,
      namespace: "toolrack",
      nodeId: this.id,
      name,
      leaseDuration: LEASE,
      blockTimeout: 5_000,
    });
    // The client tells of what is wrong with the connection.
    this.#relay.on("error", (error) => logger.debug(`[lanes] ${reasonOf(error)}`));
  }

  /** Resolves at once, also when Redis is away. Loads BullMQ, which nothing else does. */
  static async open(options: LaneLinkOptions): Promise<LaneLink> {
    const [bullmq, ioredis] = await Promise.all([import("bullmq"), import("ioredis")]);
    const link = new LaneLink(options, bullmq, ioredis);
    void link.#subscribe(`node.${link.id}`, (data) => link.#receive(data));
    return link;
  }

  get isUp(): boolean {
    return this.#client.status === "ready";
  }

  /** Sets the function that gets the messages to this node. What it returns, or throws, answers a request. */
  listen(listener: Listener): void {
    this.#listener = listener;
  }

  /** Resolves with whether a living node got the message. Waits while Redis is away. */
  async send(to: string, message: LaneMessage): Promise<boolean> {
    if (this.#isClosing) return false;
    const { nodes } = await this.#relay.publish(`node.${to}`, await this.#pack(message));
    return nodes > 0;
  }

  /** Asks another node something. Rejects when that node is gone, when it says no, or when the signal aborts. */
  async request(to: string, message: LaneMessage, signal?: AbortSignal): Promise<unknown> {
    const id = randomUUID();
    const answer = Promise.withResolvers<unknown>();
    this.#answers.set(id, answer);
    const giveUp = () => answer.reject(signal?.reason);
    signal?.addEventListener("abort", giveUp, { once: true });
    try {
      const isThere = await this.send(to, { ...message, request: id });
      if (!isThere) throw new Error("The server that this call came to has ended, so it cannot be asked.");
      return await answer.promise;
    } finally {
      signal?.removeEventListener("abort", giveUp);
      this.#answers.delete(id);
    }
  }

  /** Tells all nodes that follow a topic. For `keptFor` milliseconds, nodes that start learn it too. */
  async tell(topic: string, message: LaneMessage, keptFor = 0): Promise<void> {
    await this.#relay.publish(topic, await this.#pack(message), { retain: keptFor });
  }

  /** Follows the topics that fit the pattern, and reads first what is kept of them. */
  async follow(prefix: string, listener: (message: LaneMessage) => void): Promise<void> {
    const read = async (data: unknown) => listener(await this.#unpack(data));
    await this.#subscribe(`${prefix}.*`, (data) => void read(data).catch(() => {}));
    for (const { topic, data } of await this.#relay.getRetained())
      if (topic.startsWith(`${prefix}.`)) await read(JSON.parse(data)).catch(() => {});
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
    run: (data: unknown, job: { readonly age: number }) => Promise<void>,
    options: Partial<WorkerOptions>,
  ): Worker {
    const worker = new this.#bullmq.Worker(
      name,
      (job) => run(job.data, { age: Date.now() - job.timestamp }),
      { ...options, connection: this.#client, prefix: this.#options.prefix },
    );
    worker.on("error", (error) => this.#options.logger.debug(`[lanes] ${reasonOf(error)}`));
    return worker;
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    const gone = new Error("The process is stopping.");
    for (const answer of this.#answers.values()) answer.reject(gone);
    // Without Redis, saying goodbye would wait for it.
    if (this.isUp) {
      await Promise.allSettled([...this.#queues.values()].map((queue) => queue.close()));
      await this.#relay.close().catch(() => {});
    } else void this.#relay.close().catch(() => {});
    this.#client.disconnect();
  }

  async #subscribe(pattern: string, listener: (data: unknown) => void): Promise<void> {
    await this.#relay
      .subscribe(pattern, ({ data }) => listener(data))
      .catch((error) => {
        if (!this.#isClosing) this.#options.logger.error(`[lanes] ${reasonOf(error)}`);
      });
  }

  async #receive(data: unknown): Promise<void> {
    try {
      const { from, request, answers, ...message } = await this.#unpack(data);
      if (typeof answers === "string") {
        const waiting = this.#answers.get(answers);
        if (message.kind === "done") waiting?.resolve(message.value);
        else waiting?.reject(Object.assign(new Error(String(message.message)), { response: message.error }));
        return;
      }
      const node = String(from);
      if (typeof request !== "string") {
        await this.#listener(message, node);
        return;
      }
      const reply = await this.#answerTo(message, node);
      await this.send(node, { ...reply, answers: request });
    } catch (error) {
      this.#options.logger.debug(`[lanes] A message could not be used: ${reasonOf(error)}`);
    }
  }

  async #answerTo(message: LaneMessage, from: string): Promise<LaneMessage> {
    try {
      return { kind: "done", value: await this.#listener(message, from) };
    } catch (thrown) {
      const isPlain = thrown instanceof Error && "toResponse" in thrown;
      const error = isPlain && typeof thrown.toResponse === "function" ? thrown.toResponse() : undefined;
      return { kind: "failed", message: reasonOf(thrown), error };
    }
  }

  async #pack(message: LaneMessage): Promise<{ readonly text?: string; readonly blob?: string }> {
    const { seal, lanes } = this.#options;
    const text = seal(JSON.stringify({ ...message, from: this.id }));
    return text.length > LONGEST_MESSAGE ? { blob: await lanes.keep(text) } : { text };
  }

  async #unpack(data: unknown): Promise<LaneMessage> {
    const { unseal, lanes } = this.#options;
    const { text = "", blob } = data as { text?: string; blob?: string }; // As `#pack` made it.
    return JSON.parse(unseal(blob === undefined ? text : await lanes.readKept(blob)));
  }
}
