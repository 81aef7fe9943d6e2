import { hostname } from "node:os";
import { performance } from "node:perf_hooks";
import { isRecord, productVersion } from "../helpers/index.ts";
import type { NodeRow, Store } from "../store/index.ts";

/** A server or worker that has the database open, as it told of itself with its last heartbeat. */
export interface NodeView {
  readonly id: string;
  readonly role: "server" | "worker";
  /** The name of its machine and the id of its process. */
  readonly name: string;
  readonly version: string;
  /** Where it listens, as it knows itself; other machines may reach it elsewhere or not at all. */
  readonly url?: string;
  /** `draining`: it takes no new work and ends soon. `silent`: it gave no sign for so long that others take up its work. */
  readonly state: "serving" | "draining" | "silent";
  readonly startedAt: number;
  /** How many calls it runs. */
  readonly calls: number;
  /** The part of its time in which the process was busy since its heartbeat before, from 0 to 1. */
  readonly load: number;
  readonly memory: number;
  /** Milliseconds that its last heartbeat took: the way to the database and back. Absent without a database server. */
  readonly lag?: number;
  /** Milliseconds since its last heartbeat. */
  readonly silence: number;
  readonly isSelf: boolean;
  /** The lanes of a worker. */
  readonly lanes?: readonly string[];
}

type NodeFacts = Omit<NodeView, "id" | "silence" | "isSelf">;

interface OwnFacts {
  readonly role: NodeView["role"];
  readonly calls: () => number;
  readonly more?: () => Partial<NodeFacts>;
}

/** The servers and workers on one database. With SQLite, this process alone. */
export class Nodes {
  readonly #instance: Store["instance"];
  readonly #facts: OwnFacts;
  readonly #startedAt = Date.now();
  readonly #stop: () => void;
  readonly #goneListeners = new Set<(node: string) => void>();
  #others: readonly NodeRow[] = [];
  #busy = performance.eventLoopUtilization();
  #load = 0;
  #lag: number | undefined;
  #beganAt = 0;
  url: string | undefined;
  isDraining = false;
  /** How many servers take work: those among which callers are divided. At least one. */
  servers = 1;

  constructor({ instance }: Pick<Store, "instance">, facts: OwnFacts) {
    this.#instance = instance;
    this.#facts = facts;
    instance.describe = () => {
      const busy = performance.eventLoopUtilization();
      this.#load = round(performance.eventLoopUtilization(busy, this.#busy).utilization);
      this.#busy = busy;
      this.#beganAt = performance.now();
      return this.#describe();
    };
    this.#stop = instance.addPulseListener(({ nodes }) => {
      this.#lag = round(performance.now() - this.#beganAt);
      const alive = new Set(nodes.filter(({ isAlive }) => isAlive).map(({ id }) => id));
      const gone = this.#others.filter(({ id, isAlive }) => isAlive && !alive.has(id));
      this.#others = nodes;
      const serving = this.list().filter(({ role, state }) => role === "server" && state === "serving");
      this.servers = Math.max(1, serving.length);
      for (const { id } of gone) for (const listener of this.#goneListeners) listener(id);
    });
  }

  /** This node first, the others by their names. */
  list(): NodeView[] {
    const others = this.#others.flatMap(({ id, info, silence, isAlive }): NodeView[] => {
      const told: unknown = info === null ? undefined : JSON.parse(info);
      if (!isRecord(told)) return [];
      // What a node tells of itself has the members of `#describe`.
      const view = { ...(told as unknown as NodeView), id, silence, isSelf: false };
      return [isAlive ? view : { ...view, state: "silent" }];
    });
    others.sort((one, other) => (one.name < other.name ? -1 : 1));
    return [{ ...this.#describe(), id: this.#instance.id, silence: 0, isSelf: true }, ...others];
  }

  /** Whether the node is another server that lives. */
  isServer(id: string): boolean {
    return this.list().some(
      (node) => node.id === id && !node.isSelf && node.role === "server" && node.state !== "silent",
    );
  }

  /** Calls the listener with the id of each node that has died or ended. Returns a function that ends it. */
  onGone(listener: (node: string) => void): () => void {
    this.#goneListeners.add(listener);
    return () => this.#goneListeners.delete(listener);
  }

  /** Tells the others at once what has changed here, instead of with the next heartbeat. Never rejects. */
  async announce(): Promise<void> {
    if (this.#instance.connection !== undefined) await this.#instance.beat().catch(() => {});
  }

  close(): void {
    this.#stop();
    this.#instance.describe = undefined;
  }

  #describe(): NodeFacts {
    const { role, calls, more } = this.#facts;
    return {
      role,
      name: `${hostname()}:${process.pid}`,
      version,
      ...(this.url === undefined ? {} : { url: this.url }),
      state: this.isDraining ? "draining" : "serving",
      startedAt: this.#startedAt,
      calls: calls(),
      load: this.#load,
      memory: process.memoryUsage.rss(),
      ...(this.#lag === undefined ? {} : { lag: this.#lag }),
      ...more?.(),
    };
  }
}

const version = productVersion();

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
