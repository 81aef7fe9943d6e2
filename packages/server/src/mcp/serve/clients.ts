import type { ToolRegistry } from "@toolrack/core";
import type { ClientInfo, ConnectedClient, Era } from "../wire/index.ts";
import type { Caller } from "./caller.ts";

interface SeenClient extends ClientInfo {
  readonly era: Era;
  readonly caller: Caller;
  lastSeenAt: number;
  /** The version of the rack when the client last listed the tools. */
  listedVersion: number | undefined;
}

const MOST = 200;
const LONGEST_TEXT = 100;

/** The clients seen since the start, at most `MOST`: the ones seen last. */
export class ConnectedClients {
  readonly #registry: ToolRegistry;
  readonly #clients = new Map<string, SeenClient>();
  readonly #listeners = new Set<(client: ConnectedClient) => void>();

  constructor(registry: ToolRegistry) {
    this.#registry = registry;
  }

  /** Notes the client that sent a request. Ignores clients without a name. */
  see(client: ClientInfo | undefined, era: Era, caller: Caller, method: string): void {
    if (client === undefined || client.name === "") return;
    const seen = this.#find(client, era, caller);
    const isNew = seen.lastSeenAt === 0 || method === "initialize";
    seen.lastSeenAt = Date.now();
    if (method === "tools/list") seen.listedVersion = this.#registry.snapshot().version;
    if (isNew) for (const listener of this.#listeners) listener(this.#describe(seen));
  }

  /** Calls the listener for each new client and each new session. Returns a function that stops it. */
  subscribe(listener: (client: ConnectedClient) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Sorted by when they were seen, latest first. */
  list(): ConnectedClient[] {
    return Array.from(this.#clients.values(), (seen) => this.#describe(seen)).reverse();
  }

  #describe({
    name,
    version,
    era,
    caller: { grant, expert },
    lastSeenAt,
    listedVersion,
  }: SeenClient): ConnectedClient {
    const isStale = listedVersion !== undefined && listedVersion !== this.#registry.snapshot().version;
    return {
      name,
      ...(version === undefined ? {} : { version }),
      transport: "http",
      era,
      caller: grant.caller,
      ...(expert === undefined ? {} : { expert: expert.name }),
      lastSeenAt,
      ...(isStale ? { stale: true } : {}),
    };
  }

  /** Finds or adds the client, and moves it to the end of the map. */
  #find({ name, version }: ClientInfo, era: Era, caller: Caller): SeenClient {
    const key = `${clip(name)}\n${clip(version ?? "")}\n${era}\n${caller.identity}`;
    const seen = this.#clients.get(key) ?? {
      name: clip(name),
      ...(version === undefined ? {} : { version: clip(version) }),
      era,
      caller,
      lastSeenAt: 0,
      listedVersion: undefined,
    };
    this.#clients.delete(key);
    this.#clients.set(key, seen);
    const [oldest] = this.#clients.keys();
    if (this.#clients.size > MOST && oldest !== undefined) this.#clients.delete(oldest);
    return seen;
  }
}

function clip(text: string): string {
  return text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}…` : text;
}
