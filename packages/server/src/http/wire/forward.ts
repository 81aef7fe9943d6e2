import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { decrypt, encrypt } from "../../access/index.ts";
import type { Channel, Nodes } from "../../fleet/index.ts";
import { HttpError } from "./errors.ts";

/** A request that belongs to another node, and the parts of its answer. All of it is sealed with the fleet's key. */
interface Request {
  readonly id: string;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
}

interface Part {
  readonly id: string;
  /** Parts may arrive in any order. */
  readonly number: number;
  readonly head?: { readonly status: number; readonly headers: Readonly<Record<string, string>> };
  /** In base64. */
  readonly data?: string;
  readonly isLast?: boolean;
}

interface Waiting {
  readonly node: string;
  readonly outgoing: ServerResponse;
  readonly parts: Map<number, Part>;
  readonly begun: PromiseWithResolvers<void>;
  next: number;
}

const REQUEST = "http request";
const PART = "http part";
const GONE = "http caller gone";
/** A request with this header has come from another node, and is not sent on. */
const FORWARDED = "x-toolrack-forwarded";
const SEAL = "forwarded request";
/** Milliseconds until the other node must have begun its answer; a call may take long, but its node accepts it at once. */
const FIRST_PART = 5_000;
/** Milliseconds for which parts of an answer wait for more. */
const TOGETHER = 10;
const passedHeaders =
  /^(?:authorization|accept|content-type|last-event-id|user-agent|mcp-.*|x-toolrack-.*|traceparent|tracestate|baggage)$/;

/**
 * Lets this node answer for what lives in another: an MCP session, a question to a client, the events of a chat turn. The
 * request goes to that node over the channel, which asks its own server, and the answer comes back in parts. So nodes need
 * no addresses of each other, and each checks the token itself.
 */
export class Forwarder {
  readonly #channel: Channel;
  readonly #nodes: Pick<Nodes, "isServer" | "onGone">;
  readonly #key: Buffer;
  readonly #waiting = new Map<string, Waiting>();
  readonly #answering = new Map<string, AbortController>();
  readonly #stops: (() => void)[];
  /** The address of this node's own server. */
  #url: string | undefined;

  constructor(channel: Channel, nodes: Pick<Nodes, "isServer" | "onGone">, key: Buffer) {
    this.#channel = channel;
    this.#nodes = nodes;
    this.#key = key;
    this.#stops = [
      // What the topics carry was sealed below.
      channel.listen(REQUEST, (sealed, from) => void this.#answer(this.#open<Request>(sealed), from)),
      channel.listen(PART, (sealed) => this.#take(this.#open<Part>(sealed))),
      channel.listen(GONE, (sealed) => this.#answering.get(this.#open<{ id: string }>(sealed).id)?.abort()),
      nodes.onGone((node) => {
        for (const waiting of this.#waiting.values()) if (waiting.node === node) waiting.outgoing.destroy();
      }),
    ];
  }

  /** Begins to answer what other nodes forward. */
  serve(url: string): void {
    this.#url = url;
  }

  /** Whether a request may go on to this node: it is another server that lives, and the request did not come from one. */
  mayForward(node: string | undefined, incoming: IncomingMessage): node is string {
    return node !== undefined && incoming.headers[FORWARDED] === undefined && this.#nodes.isServer(node);
  }

  /**
   * Answers the request with what the other node answers. Resolves when that answer begins; rejects with `HttpError` when
   * it does not.
   */
  async forward(
    node: string,
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    body?: unknown,
  ): Promise<void> {
    const id = randomUUID();
    const headers: Record<string, string> = {};
    for (const [name, value] of Object.entries(incoming.headers))
      if (passedHeaders.test(name) && typeof value === "string") headers[name] = value;
    const waiting: Waiting = { node, outgoing, parts: new Map(), begun: Promise.withResolvers(), next: 0 };
    this.#waiting.set(id, waiting);
    outgoing.once("close", () => {
      this.#waiting.delete(id);
      waiting.begun.resolve();
      if (!outgoing.writableFinished) void this.#send(node, GONE, { id });
    });
    const { method = "GET", url: path = "/" } = incoming;
    const text = body === undefined ? undefined : JSON.stringify(body);
    await this.#channel.send(node, REQUEST, this.#seal({ id, method, path, headers, body: text }));
    const late = Symbol();
    const timer = new AbortController();
    const isLate = wait(FIRST_PART, late, { signal: timer.signal, ref: false }).catch(() => undefined);
    if ((await Promise.race([waiting.begun.promise, isLate])) !== late) return timer.abort();
    this.#waiting.delete(id);
    throw new HttpError("store_unavailable", "The node that has this did not answer. Ask again in a moment.");
  }

  close(): void {
    for (const stop of this.#stops) stop();
    for (const answering of this.#answering.values()) answering.abort();
    for (const { outgoing } of this.#waiting.values()) outgoing.destroy();
  }

  async #answer({ id, method, path, headers, body }: Request, from: string): Promise<void> {
    const gone = new AbortController();
    let number = 0;
    const send = (part: Omit<Part, "id" | "number">) =>
      this.#send(from, PART, { id, number: number++, ...part });
    this.#answering.set(id, gone);
    try {
      if (this.#url === undefined) throw new Error("This node serves nobody.");
      const answer = await fetch(new URL(path, this.#url), {
        method,
        headers: { ...headers, [FORWARDED]: "1", "accept-encoding": "identity" },
        ...(body === undefined ? {} : { body }),
        redirect: "manual",
        signal: gone.signal,
      });
      const kept = [...answer.headers].filter(([name]) => !hopHeaders.has(name));
      await send({ head: { status: answer.status, headers: Object.fromEntries(kept) } });
      let waiting: Buffer[] = [];
      let sending: Promise<void> | undefined;
      const flush = async () => {
        await wait(TOGETHER);
        const data = Buffer.concat(waiting).toString("base64");
        waiting = [];
        sending = undefined;
        await send({ data });
      };
      for await (const chunk of answer.body ?? []) {
        waiting.push(Buffer.from(chunk));
        sending ??= flush();
      }
      await sending;
      await send({ isLast: true });
    } catch {
      // The caller is gone, or the server is: an answer that is not whole must not seem so.
      await send({ head: { status: 502, headers: {} }, isLast: true });
    } finally {
      this.#answering.delete(id);
    }
  }

  #take(part: Part): void {
    const waiting = this.#waiting.get(part.id);
    if (waiting === undefined) return;
    waiting.parts.set(part.number, part);
    const { outgoing, parts } = waiting;
    for (let next = parts.get(waiting.next); next !== undefined; next = parts.get(++waiting.next)) {
      parts.delete(waiting.next);
      const { head, data, isLast = false } = next;
      // A second head says that the answer broke off.
      if (head !== undefined && outgoing.headersSent) outgoing.destroy();
      else if (head !== undefined) outgoing.writeHead(head.status, { ...head.headers });
      if (data !== undefined) outgoing.write(Buffer.from(data, "base64"));
      else outgoing.flushHeaders();
      if (isLast) outgoing.end();
      waiting.begun.resolve();
    }
  }

  async #send(node: string, topic: string, message: object): Promise<void> {
    await this.#channel.send(node, topic, this.#seal(message)).catch(() => {});
  }

  /** Messages lie in the database for a moment, and have tokens and results in them. */
  #seal(message: object): string {
    return encrypt(this.#key, SEAL, JSON.stringify(message));
  }

  #open<Message>(sealed: unknown): Message {
    return JSON.parse(decrypt(this.#key, SEAL, String(sealed))) as Message; // Only nodes with the key seal.
  }
}

/** Headers that belong to one connection. */
const hopHeaders: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "transfer-encoding",
  "content-length",
  "date",
]);
