import type { ToolRegistry } from "@toolrack/core";
import type { Era } from "./hot/hot-path.ts";
import type { Viewer } from "./viewer.ts";

/** A program that has spoken to the rack over MCP. */
export interface ConnectedClient {
  readonly name: string;
  readonly version?: string;
  readonly transport: "http";
  readonly era: Era;
  /** As records name it: which token it bears. */
  readonly caller: string;
  /** The expert that it was given instead of the whole rack. */
  readonly expert?: string;
  /** Milliseconds since the epoch. */
  readonly lastSeenAt: number;
  /** It listed the tools before they changed last, and has not since. */
  readonly stale?: true;
}

/** What a client says of itself. */
interface ClientInfo {
  readonly name: string;
  readonly version?: string;
}

interface Seen extends ClientInfo {
  readonly era: Era;
  readonly viewer: Viewer;
  lastSeenAt: number;
  /** The version of the rack that it listed last. */
  listed: number | undefined;
}

const MOST = 200;
const LONGEST_TEXT = 100;
const CLIENT = "io.modelcontextprotocol/clientInfo";

/** The clients that were seen since the start. Of very many, those that were seen last. */
export class ConnectedClients {
  readonly #registry: ToolRegistry;
  readonly #clients = new Map<string, Seen>();
  readonly #listeners = new Set<(client: ConnectedClient) => void>();

  constructor(registry: ToolRegistry) {
    this.#registry = registry;
  }

  /**
   * Takes note of whoever sent the message. In a session only its first message says who the client is; what that said is
   * given with the others. Messages of clients that say nothing of themselves are passed over.
   */
  see(message: unknown, viewer: Viewer, ofSession: ClientInfo | undefined): void {
    const { method, params } = (message ?? {}) as { method?: unknown; params?: Params | null };
    const modern = params?._meta?.[CLIENT];
    const info = modern ?? ofSession ?? (method === "initialize" ? params?.clientInfo : undefined);
    if (!isClientInfo(info)) return;
    const seen = this.#find(info, modern === undefined ? "legacy" : "modern", viewer);
    const isNew = seen.lastSeenAt === 0 || method === "initialize";
    seen.lastSeenAt = Date.now();
    if (method === "tools/list") seen.listed = this.#registry.snapshot().version;
    if (isNew) for (const listener of this.#listeners) listener(this.#describe(seen));
  }

  /** Hears of each client that is seen for the first time, or begins another session. Answers how to stop. */
  subscribe(listener: (client: ConnectedClient) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The one that was seen last first. */
  list(): ConnectedClient[] {
    return [...this.#clients.values()]
      .sort((one, other) => other.lastSeenAt - one.lastSeenAt)
      .map((seen) => this.#describe(seen));
  }

  #describe({ name, version, era, viewer: { grant, expert }, lastSeenAt, listed }: Seen): ConnectedClient {
    const isStale = listed !== undefined && listed !== this.#registry.snapshot().version;
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

  #find({ name, version }: ClientInfo, era: Era, viewer: Viewer): Seen {
    const key = `${clip(name)}\n${clip(version ?? "")}\n${era}\n${viewer.principal}`;
    const known = this.#clients.get(key);
    if (known !== undefined) return known;
    if (this.#clients.size >= MOST) this.#forgetOldest();
    const made: Seen = {
      name: clip(name),
      ...(version === undefined ? {} : { version: clip(version) }),
      era,
      viewer,
      lastSeenAt: 0,
      listed: undefined,
    };
    this.#clients.set(key, made);
    return made;
  }

  #forgetOldest(): void {
    let oldest: string | undefined;
    let since = Number.POSITIVE_INFINITY;
    for (const [key, { lastSeenAt }] of this.#clients) {
      if (lastSeenAt >= since) continue;
      oldest = key;
      since = lastSeenAt;
    }
    if (oldest !== undefined) this.#clients.delete(oldest);
  }
}

/** What is looked at of the parameters; each part may be anything. */
interface Params {
  readonly _meta?: { readonly [CLIENT]?: unknown } | null;
  readonly clientInfo?: unknown;
}

function isClientInfo(value: unknown): value is ClientInfo {
  if (typeof value !== "object" || value === null) return false;
  const { name, version } = value as { name?: unknown; version?: unknown };
  return typeof name === "string" && name !== "" && (version === undefined || typeof version === "string");
}

function clip(text: string): string {
  return text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}…` : text;
}
