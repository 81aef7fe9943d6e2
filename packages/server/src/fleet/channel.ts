import { reasonOf } from "../helpers/index.ts";

/**
 * What nodes on one PostgreSQL tell each other. With SQLite or MySQL there are no others: nothing is sent, and nothing
 * arrives. A body is anything that JSON can hold.
 */
export interface Channel {
  /** The id of this node, as in the column `instance` of a call. */
  readonly node: string;
  /** Whether other nodes may be there: true with PostgreSQL, however many there are at the moment. */
  readonly isShared: boolean;
  /**
   * Tells one node. Resolves when the message is safely stored; the node reads it within milliseconds, or when it is
   * connected again. A message to a node that has died is deleted. Rejects with `StoreUnavailable`.
   */
  send(node: string, topic: string, body: unknown): Promise<void>;
  /**
   * Asks one node, and resolves with what its listener returned. Rejects with `NodeSilent` when no answer comes within
   * `timeout` milliseconds (default 5,000), and with an `Error` of the same message when the listener threw.
   */
  request(node: string, topic: string, body: unknown, timeout?: number): Promise<unknown>;
  /**
   * Tells all other nodes, a moment later and together with what else is published then. In the order of publishing.
   * What is published while a node is not connected does not reach it. Never throws.
   */
  publish(topic: string, body: unknown): void;
  /**
   * Calls the listener with what other nodes send, ask or publish on this topic, in the order in which it arrives. For a
   * question it returns the answer. A listener that throws is caught. Returns a function that ends it.
   */
  listen(topic: string, listener: Listener): () => void;
  /** Calls the listener when this node may have missed what others published. Returns a function that ends it. */
  onGap(listener: () => void): () => void;
  close(): Promise<void>;
}

export type Listener = (body: unknown, from: string) => unknown;

/** A node did not answer: it is gone, or too busy. */
export class NodeSilent extends Error {
  override readonly name = "NodeSilent";

  constructor(node: string, topic: string) {
    super(
      `The node ${node} did not answer to "${topic}". It may have ended; what it did is taken up by others soon.`,
    );
  }
}

/** The listeners of a channel, by topic. */
export class Listeners {
  readonly #byTopic = new Map<string, Set<Listener>>();

  add(topic: string, listener: Listener): () => void {
    const listeners = this.#byTopic.get(topic) ?? new Set();
    this.#byTopic.set(topic, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  /** Returns what the first listener returns. Never rejects. */
  async call(topic: string, body: unknown, from: string): Promise<{ answer?: unknown; problem?: string }> {
    let result: { answer?: unknown; problem?: string } | undefined;
    for (const listener of this.#byTopic.get(topic) ?? []) {
      try {
        const answer = await listener(body, from);
        result ??= { answer };
      } catch (error) {
        result ??= { problem: reasonOf(error) };
      }
    }
    return result ?? { problem: `Nobody on the node listens to "${topic}".` };
  }
}
