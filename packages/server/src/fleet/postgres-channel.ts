import { randomUUID } from "node:crypto";
import type { Instance, NodeConnection } from "../store/index.ts";
import { type Channel, type Listener, Listeners, NodeSilent } from "./channel.ts";

/** A stored message. `ask`: the sender waits for an answer. `answers`: the id of the message that this one answers. */
interface Letter {
  readonly topic: string;
  readonly from: string;
  readonly body?: unknown;
  readonly problem?: string;
  readonly ask?: boolean;
  readonly answers?: string;
}

/** Milliseconds for which what is published waits for more. */
const TOGETHER = 25;
/** Bytes of one notification. PostgreSQL takes 8,000. */
const LARGEST_NOTIFICATION = 7_900;
/** Bytes of one statement with notifications. */
const LARGEST_STATEMENT = 512 * 1024;
/** What waits to be published while the database is away; then the oldest is left out. */
const MOST_WAITING = 5_000;
const ANSWER_TIMEOUT = 5_000;
const MAIL = "mail";

/**
 * The channel over PostgreSQL. A message to one node is a row that the node deletes as it reads it, and a notification that
 * wakes the node; the heartbeat finds a row whose notification was lost. What is published is in the notification itself.
 */
export class PostgresChannel implements Channel {
  readonly node: string;
  readonly isShared = true;
  readonly #connection: NodeConnection;
  readonly #listeners = new Listeners();
  readonly #gaps = new Set<() => void>();
  readonly #asked = new Map<string, (letter: Letter) => void>();
  readonly #stops: (() => void)[];
  #waiting: string[] = [];
  #timer: NodeJS.Timeout | undefined;
  #publishing: Promise<void> = Promise.resolve();
  #reading: Promise<void> | undefined;
  #hasMore = false;
  /** Beginnings of long published messages, by their ids. */
  readonly #parts = new Map<string, string[]>();

  private constructor(instance: Instance, connection: NodeConnection) {
    this.node = instance.id;
    this.#connection = connection;
    this.#stops = [
      connection.listen({ notified: this.#notified, restored: this.#restored }),
      instance.addPulseListener(({ hasMail }) => {
        if (hasMail) this.#readMail();
      }),
    ];
  }

  static async open(instance: Instance, connection: NodeConnection): Promise<PostgresChannel> {
    return new PostgresChannel(instance, connection);
  }

  async send(node: string, topic: string, body: unknown): Promise<void> {
    await this.#post(node, randomUUID(), { topic, from: this.node, body });
  }

  async request(node: string, topic: string, body: unknown, timeout = ANSWER_TIMEOUT): Promise<unknown> {
    const id = randomUUID();
    const { promise, resolve, reject } = Promise.withResolvers<Letter>();
    const timer = setTimeout(() => reject(new NodeSilent(node, topic)), timeout);
    this.#asked.set(id, resolve);
    try {
      await this.#post(node, id, { topic, from: this.node, body, ask: true });
      const { body: answer, problem } = await promise;
      if (problem !== undefined) throw new Error(problem);
      return answer;
    } finally {
      clearTimeout(timer);
      this.#asked.delete(id);
      // When posting failed, nobody waits for the answer any more.
      promise.catch(() => {});
    }
  }

  publish(topic: string, body: unknown): void {
    this.#waiting.push(JSON.stringify([topic, body]));
    if (this.#waiting.length > MOST_WAITING) this.#waiting.shift();
    this.#timer ??= setTimeout(() => this.#publishWaiting(), TOGETHER).unref();
  }

  listen(topic: string, listener: Listener): () => void {
    return this.#listeners.add(topic, listener);
  }

  onGap(listener: () => void): () => void {
    this.#gaps.add(listener);
    return () => this.#gaps.delete(listener);
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#publishWaiting();
    for (const stop of this.#stops) stop();
    await Promise.all([this.#publishing, this.#reading]);
    for (const settle of this.#asked.values())
      settle({ topic: "", from: "", problem: "This node is stopping." });
  }

  /** One statement: the row and its notification are there together or not at all. */
  async #post(node: string, id: string, letter: Letter): Promise<void> {
    const text = JSON.stringify(letter);
    await this.#connection.query(
      `insert into messages (id, node, sent_at, body)
        select $1, $2, $3, $4 from pg_notify($5, $6)`,
      [id, node, Date.now(), text, `${this.#connection.channel}.${node}`, MAIL],
    );
  }

  #publishWaiting(): void {
    this.#timer = undefined;
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#publishing = this.#publishing.then(() => this.#notify(packed(this.node, waiting)));
  }

  async #notify(texts: readonly string[]): Promise<void> {
    const largest = LARGEST_STATEMENT / LARGEST_NOTIFICATION;
    for (let at = 0; at < texts.length; at += largest) {
      const few = texts.slice(at, at + largest);
      // What cannot be published now is lost: readers are told of the gap when the database is back.
      await this.#connection
        .query("select pg_notify($1, text) from unnest($2::text[]) with ordinality t (text, n) order by n", [
          this.#connection.channel,
          few,
        ])
        .catch(() => {});
    }
  }

  readonly #notified = (channel: string, text: string): void => {
    if (text === MAIL) this.#readMail();
    if (channel !== this.#connection.channel || !text.startsWith("{")) return;
    const { n: from, id, p: part, of, m } = JSON.parse(text) as Notification; // Only nodes write here.
    if (from === this.node) return;
    const whole = of === 1 ? m : this.#join(id, part, of, m);
    if (whole === undefined) return;
    // As `publish` has packed it.
    for (const [topic, body] of JSON.parse(whole) as [string, unknown][])
      void this.#listeners.call(topic, body, from);
  };

  readonly #restored = (): void => {
    this.#parts.clear();
    for (const listener of this.#gaps) listener();
    this.#readMail();
  };

  #join(id: string, part: number, of: number, text: string): string | undefined {
    const parts = this.#parts.get(id) ?? [];
    this.#parts.set(id, parts);
    parts[part] = text;
    // Parts of one message arrive in order, so that the last one makes it whole.
    if (part < of - 1) return undefined;
    this.#parts.delete(id);
    return parts.join("");
  }

  /** Reads all messages that wait for this node. Never rejects: the next heartbeat tries again. */
  #readMail(): void {
    this.#hasMore = true;
    this.#reading ??= this.#readAll()
      .catch(() => {})
      .finally(() => {
        this.#reading = undefined;
      });
  }

  async #readAll(): Promise<void> {
    while (this.#hasMore) {
      this.#hasMore = false;
      const rows = await this.#connection.query<{ id: string; body: string; sent_at: string }>(
        "delete from messages where node = $1 returning id, body, sent_at",
        [this.node],
      );
      rows.sort((one, other) => Number(one.sent_at) - Number(other.sent_at));
      for (const { id, body } of rows) this.#receive(id, JSON.parse(body) as Letter); // Only nodes write here.
    }
  }

  #receive(id: string, letter: Letter): void {
    const { topic, from, ask = false, answers } = letter;
    if (answers !== undefined) {
      this.#asked.get(answers)?.(letter);
      return;
    }
    const handed = this.#listeners.call(topic, letter.body, from);
    if (!ask) return;
    void handed
      .then(({ answer, problem }) =>
        this.#post(from, randomUUID(), {
          topic,
          from: this.node,
          answers: id,
          ...(problem === undefined ? { body: answer } : { problem }),
        }),
      )
      .catch(() => {});
  }
}

/** One notification: a part `p` of `of` parts of the message `id` of the node `n`. */
interface Notification {
  readonly n: string;
  readonly id: string;
  readonly p: number;
  readonly of: number;
  readonly m: string;
}

/** Packs messages into notifications: many small ones into one, a long one into several. */
function packed(node: string, messages: readonly string[]): string[] {
  const texts: string[] = [];
  let group: string[] = [];
  let size = 0;
  const room = LARGEST_NOTIFICATION - 200;
  const end = () => {
    if (group.length > 0) texts.push(...cut(node, `[${group.join(",")}]`, room));
    group = [];
    size = 0;
  };
  for (const message of messages) {
    // Within JSON a quote takes two bytes, and `m` is JSON within JSON.
    const bytes = Buffer.byteLength(JSON.stringify(message));
    if (size + bytes > room) end();
    group.push(message);
    size += bytes;
  }
  end();
  return texts;
}

function cut(node: string, text: string, room: number): string[] {
  const whole = JSON.stringify({ n: node, id: "", p: 0, of: 1, m: text });
  if (Buffer.byteLength(whole) <= LARGEST_NOTIFICATION) return [whole];
  const id = randomUUID();
  // A character takes at most six bytes in JSON.
  const step = Math.floor(room / 6);
  const of = Math.ceil(text.length / step);
  return Array.from({ length: of }, (_, p) =>
    JSON.stringify({ n: node, id, p, of, m: text.slice(p * step, (p + 1) * step) }),
  );
}
