import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import { type Channel, type Listener, Listeners, NodeSilent } from "./channel.ts";

interface RedisChannelOptions {
  /** The id of this node. */
  readonly node: string;
  /** The connection for commands. The channel opens a second one, which listens. */
  readonly client: Redis;
  /** Begins the names of all channels in Redis, so that several racks can share one. */
  readonly prefix: string;
  /** Encrypts what goes through Redis, and decrypts it. Only processes of one rack have the key. */
  readonly seal: (text: string) => string;
  readonly unseal: (text: string) => string;
  /** Keeps a text that is too long to be sent, and returns its name, by which `readKept` finds it. */
  readonly keep: (text: string) => Promise<string>;
  readonly readKept: (name: string) => Promise<string>;
}

/** A message. `asks`: the sender waits for an answer under this id. `answers` and `got`: the id that it answers, or of the answer that arrived. */
interface Letter {
  readonly topic?: string;
  readonly body?: unknown;
  readonly asks?: string;
  readonly answers?: string;
  readonly problem?: string | undefined;
  readonly got?: string;
}

/** Messages to one node, or to all, that leave together. */
interface Post {
  readonly letters: Letter[];
  /** How many nodes got them. */
  readonly sent: PromiseWithResolvers<number>;
}

/** Characters. Longer posts are kept in the store, and only their name is sent. */
const LONGEST_POST = 32 * 1024;
const ANSWER_TIMEOUT = 5_000;
/** Milliseconds after which a question without an answer is sent again: it, or its answer, may be lost. */
const ASK_AGAIN = 3_000;
/** Milliseconds for which nobody listens under the name of a node until it counts as gone. A restarted Redis has no listeners at first. */
const GONE_AFTER = 10_000;
/** Milliseconds after which an answer is forgotten of which nobody said that it arrived. */
const KEEP_ANSWER = 600_000;
const ALL = "all";

/**
 * The channel over Redis, by its PUBLISH: a message reaches a listening node in one hop. (BullMQ's Relay keeps messages in a
 * stream; a node wakes, reads and renews its lease before it hears one, and trims the stream after.) What is sent to a node
 * while a message is on its way leaves together. Nothing is kept for a node that does not listen; questions are asked again
 * until they are answered.
 */
export class RedisChannel implements Channel {
  readonly isShared = true;
  readonly node: string;
  readonly #options: RedisChannelOptions;
  readonly #subscriber: Redis;
  readonly #listeners = new Listeners();
  readonly #gaps = new Set<() => void>();
  readonly #posts = new Map<string, Post>();
  readonly #leaving = new Map<string, Promise<void>>();
  readonly #asked = new Map<string, (letter: Letter) => void>();
  /** Questions that came, with their answers, so that one that comes again is not acted on twice. */
  readonly #answers = new Map<string, { letter?: Letter }>();
  #receiving: Promise<void> = Promise.resolve();
  #isClosing = false;

  constructor(options: RedisChannelOptions) {
    this.#options = options;
    this.node = options.node;
    this.#subscriber = options.client.duplicate();
    // The connection for commands tells of what is wrong.
    this.#subscriber.on("error", () => {});
    this.#subscriber.on("message", (_, text: string) => {
      // One after the other: a short message must not pass a long one, which is fetched from the store.
      this.#receiving = this.#receiving.then(() => this.#receive(text)).catch(() => {});
    });
    this.#subscriber.on("ready", () => {
      for (const listener of this.#gaps) listener();
    });
    void this.#subscriber.subscribe(this.#nameOf(this.node), this.#nameOf(ALL)).catch(() => {});
  }

  async send(node: string, topic: string, body: unknown): Promise<void> {
    if ((await this.#post(node, { topic, body })) === 0) throw new NodeSilent(node, topic);
  }

  /** An endless `timeout` waits as long as the node is there. */
  async request(node: string, topic: string, body: unknown, timeout = ANSWER_TIMEOUT): Promise<unknown> {
    const id = randomUUID();
    const { promise, resolve, reject } = Promise.withResolvers<Letter>();
    this.#asked.set(id, resolve);
    const endsAt = performance.now() + timeout;
    let silentSince = Number.POSITIVE_INFINITY;
    const ask = async () => {
      const receivers = await this.#post(node, { topic, body, asks: id });
      const now = performance.now();
      silentSince = receivers === 0 ? Math.min(silentSince, now) : Number.POSITIVE_INFINITY;
      if (now >= endsAt || now - silentSince >= GONE_AFTER) reject(new NodeSilent(node, topic));
      else timer = setTimeout(() => void ask().catch(reject), Math.min(ASK_AGAIN, endsAt - now));
    };
    let timer: NodeJS.Timeout | undefined;
    void ask().catch(reject);
    try {
      const { body: answer, problem } = await promise;
      if (problem !== undefined) throw new Error(problem);
      return answer;
    } finally {
      this.#asked.delete(id);
      clearTimeout(timer);
    }
  }

  publish(topic: string, body: unknown): void {
    void this.#post(ALL, { topic, body }).catch(() => {});
  }

  listen(topic: string, listener: Listener): () => void {
    return this.#listeners.add(topic, listener);
  }

  onGap(listener: () => void): () => void {
    this.#gaps.add(listener);
    return () => this.#gaps.delete(listener);
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    // Without Redis, saying something would wait for it.
    if (this.#options.client.status === "ready") await Promise.all(this.#leaving.values());
    for (const settle of this.#asked.values()) settle({ problem: "This node is stopping." });
    this.#subscriber.disconnect();
  }

  #nameOf(node: string): string {
    return `${this.#options.prefix}:node:${node}`;
  }

  /** Resolves with how many nodes got the letter. Waits while Redis is away. */
  #post(to: string, letter: Letter): Promise<number> {
    if (this.#isClosing) return Promise.reject(new Error("This node is stopping."));
    let post = this.#posts.get(to);
    if (post === undefined) {
      post = { letters: [], sent: Promise.withResolvers() };
      this.#posts.set(to, post);
      // The first leaves at once. What comes until it has arrived leaves together, and in order.
      const before = this.#leaving.get(to);
      const leaving = before === undefined ? this.#leave(to) : before.then(() => this.#leave(to));
      this.#leaving.set(to, leaving);
      void leaving.finally(() => {
        if (this.#leaving.get(to) === leaving) this.#leaving.delete(to);
      });
    }
    post.letters.push(letter);
    return post.sent.promise;
  }

  /** Never rejects: a failure is passed to those who wait. */
  async #leave(to: string): Promise<void> {
    // Whoever posted adds the letter first, and others of this moment theirs.
    await undefined;
    const post = this.#posts.get(to);
    if (post === undefined) return;
    this.#posts.delete(to);
    const { client, seal, keep } = this.#options;
    try {
      const text = seal(JSON.stringify({ from: this.node, letters: post.letters }));
      const sent = text.length > LONGEST_POST ? `@${await keep(text)}` : `=${text}`;
      post.sent.resolve(await client.publish(this.#nameOf(to), sent));
    } catch (error) {
      post.sent.reject(error);
    }
  }

  async #receive(sent: string): Promise<void> {
    const { unseal, readKept } = this.#options;
    const rest = sent.slice(1);
    const text = unseal(sent.startsWith("@") ? await readKept(rest) : rest);
    const { from, letters } = JSON.parse(text) as { from: string; letters: Letter[] }; // As `#leave` made it.
    if (from !== this.node) for (const letter of letters) this.#read(letter, from);
  }

  #read({ topic = "", body, asks, answers, problem, got }: Letter, from: string): void {
    if (got !== undefined) this.#answers.delete(got);
    else if (answers !== undefined) {
      this.#asked.get(answers)?.({ body, problem });
      void this.#post(from, { got: answers }).catch(() => {});
    } else if (asks === undefined) void this.#listeners.call(topic, body, from);
    else void this.#answer(asks, from, topic, body).catch(() => {});
  }

  async #answer(id: string, from: string, topic: string, body: unknown): Promise<void> {
    const before = this.#answers.get(id);
    if (before === undefined) {
      const asked: { letter?: Letter } = {};
      this.#answers.set(id, asked);
      const { answer, problem } = await this.#listeners.call(topic, body, from);
      asked.letter = { answers: id, body: answer, problem };
      setTimeout(() => this.#answers.delete(id), KEEP_ANSWER).unref();
      await this.#post(from, asked.letter);
    } else if (before.letter !== undefined) await this.#post(from, before.letter);
  }
}
