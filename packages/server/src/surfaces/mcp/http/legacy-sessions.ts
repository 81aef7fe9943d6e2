import { randomUUID } from "node:crypto";
import type { Grant } from "../../../auth/grant.ts";
import type { Audience } from "../audience.ts";
import { createMcpServer } from "../create-mcp-server.ts";
import type { McpParts } from "../mcp-parts.ts";
import type { RackServer } from "../rack-server.ts";
import { tellServer } from "../tell-server.ts";
import type { Viewer } from "../viewer.ts";
import { SessionCalls } from "./session-calls.ts";
import { SessionTransport } from "./session-transport.ts";

export interface LegacySession {
  readonly id: string;
  readonly server: RackServer;
  readonly transport: SessionTransport;
  readonly viewer: Viewer;
  /** To be told nothing more. */
  leave: () => void;
  /** The id of the token that it was opened with. */
  readonly owner: string;
  /** Calls under way that the SDK has not been told of, or not yet. */
  readonly calls: SessionCalls;
  /** Requests and streams that the SDK answers and that are open. */
  busy: number;
  usedAt: number;
}

export interface SessionLimits {
  /** How many sessions there may be. A token that is not the operator's has half of them at most. */
  readonly most: number;
  /** How long one that nothing happens in is kept, in milliseconds. */
  readonly idle: number;
}

export const usualSessionLimits: SessionLimits = { most: 1000, idle: 30 * 60_000 };

const SWEEP = 60_000;

/**
 * The sessions of clients of the versions before 2026-07-28, which can be asked and told things because of them. They
 * are few and short-lived by force: the oldest idle one makes room for a new one, first of those of the same token.
 */
export class LegacySessions {
  readonly #parts: McpParts;
  readonly #limits: SessionLimits;
  readonly #join: (audience: Audience) => () => void;
  readonly #sessions = new Map<string, LegacySession>();
  /** Those that their clients are about to initialize. */
  readonly #opening = new Set<LegacySession>();
  readonly #sweeper: NodeJS.Timeout;
  #isClosed = false;

  /** `join` is given each session, whose client is to be told of changes of its lists. */
  constructor(
    parts: McpParts,
    limits: SessionLimits = usualSessionLimits,
    join: (audience: Audience) => () => void = () => () => {},
  ) {
    this.#parts = parts;
    this.#join = join;
    this.#limits = limits;
    this.#sweeper = setInterval(() => this.#sweep(), Math.min(SWEEP, limits.idle)).unref();
  }

  get size(): number {
    return this.#sessions.size;
  }

  /** Undefined when there is none of this id for this viewer. */
  find(id: string, viewer: Viewer): LegacySession | undefined {
    const session = this.#sessions.get(id);
    if (session === undefined || session.viewer.principal !== viewer.principal) return undefined;
    session.viewer.renew(viewer.expert);
    session.usedAt = Date.now();
    return session;
  }

  /**
   * A new one, which exists once its client has initialized it; to be discarded when it has not. Undefined when there are
   * too many busy ones, or when there are to be none any more.
   */
  async open(viewer: Viewer): Promise<LegacySession | undefined> {
    if (this.#isClosed || !this.#makeRoom(viewer.grant)) return undefined;
    const id = randomUUID();
    const server = createMcpServer(this.#parts, viewer, { era: "legacy", canAsk: true });
    const transport = new SessionTransport({
      sessionIdGenerator: () => id,
      onsessioninitialized: () => {
        // It was given up meanwhile.
        if (!this.#opening.delete(session)) return;
        this.#sessions.set(id, session);
        const leave = this.#join({ viewer, tell: (kind) => tellServer(server, kind) });
        const unwatch = this.#parts.expertWatch.watch(viewer, () => this.#drop(session, EXPERT_GONE));
        session.leave = () => {
          leave();
          unwatch();
        };
      },
      onsessionclosed: () => this.#drop(session, "the client ended its session"),
    });
    const session: LegacySession = {
      id,
      server,
      transport,
      calls: new SessionCalls(),
      viewer,
      leave() {},
      owner: viewer.grant.id,
      busy: 0,
      usedAt: Date.now(),
    };
    this.#opening.add(session);
    try {
      await server.connect(transport);
    } catch (thrown) {
      this.discard(session);
      throw thrown;
    }
    return session;
  }

  /** Gives up one that was opened and not initialized. */
  discard(session: LegacySession): void {
    if (this.#opening.delete(session)) this.#drop(session, "it was never initialized");
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#sweeper);
    const all = [...this.#sessions.values(), ...this.#opening];
    this.#opening.clear();
    for (const session of all) this.#drop(session, "the server is stopping");
  }

  #makeRoom({ id, admin }: Grant): boolean {
    const all = [...this.#sessions.values(), ...this.#opening];
    const own = all.filter(({ owner }) => owner === id);
    // Nobody locks the others out by opening one after the other.
    if (!admin && own.length >= Math.ceil(this.#limits.most / 2)) return this.#dropOldest(own);
    return all.length < this.#limits.most || this.#dropOldest(own) || this.#dropOldest(all);
  }

  /** Of those in which nothing happens. Says whether there was one. */
  #dropOldest(sessions: readonly LegacySession[]): boolean {
    const idle = sessions.filter((session) => isIdle(session) && !this.#opening.has(session));
    const [oldest] = idle.sort((one, other) => one.usedAt - other.usedAt);
    if (oldest === undefined) return false;
    this.#drop(oldest, MADE_ROOM);
    return true;
  }

  #sweep(): void {
    const limit = Date.now() - this.#limits.idle;
    for (const session of [...this.#sessions.values()]) {
      if (isIdle(session) && session.usedAt < limit) this.#drop(session, MADE_ROOM);
    }
  }

  #drop({ id, calls, server, leave }: LegacySession, reason: string): void {
    this.#sessions.delete(id);
    leave();
    calls.cancelAll(reason);
    void server.close().catch(() => {});
  }
}

/** Whether a request of this id waits for its answer, whichever way it is answered. */
export function isUnderWay({ calls, transport }: LegacySession, id: string | number): boolean {
  return calls.has(id) || transport.isUnderWay(id);
}

const MADE_ROOM = "its session was given up";
const EXPERT_GONE = "its session ended with the expert";

function isIdle({ busy, calls }: LegacySession): boolean {
  return busy === 0 && calls.size === 0;
}
