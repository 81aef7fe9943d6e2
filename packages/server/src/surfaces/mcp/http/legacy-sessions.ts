import { randomUUID } from "node:crypto";
import { type Server, WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/server";
import type { Grant } from "../../../auth/grant.ts";
import { createMcpServer } from "../create-mcp-server.ts";
import type { McpParts } from "../mcp-parts.ts";
import type { RackServer } from "../rack-server.ts";
import type { Viewer } from "../viewer.ts";
import { SessionCalls } from "./session-calls.ts";

export interface LegacySession {
  readonly id: string;
  readonly server: RackServer;
  readonly transport: WebStandardStreamableHTTPServerTransport;
  readonly principal: string;
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
  readonly #sessions = new Map<string, LegacySession>();
  readonly #sweeper: NodeJS.Timeout;

  constructor(parts: McpParts, limits: SessionLimits = usualSessionLimits) {
    this.#parts = parts;
    this.#limits = limits;
    this.#sweeper = setInterval(() => this.#sweep(), Math.min(SWEEP, limits.idle)).unref();
  }

  get size(): number {
    return this.#sessions.size;
  }

  /** Undefined when there is none of this id for this viewer. */
  find(id: string, viewer: Viewer): LegacySession | undefined {
    const session = this.#sessions.get(id);
    if (session === undefined || session.principal !== viewer.principal) return undefined;
    session.usedAt = Date.now();
    return session;
  }

  /** A new one, which exists once its client has initialized it. Undefined when there are too many busy ones. */
  async open(viewer: Viewer): Promise<LegacySession | undefined> {
    if (!this.#makeRoom(viewer.grant)) return undefined;
    const id = randomUUID();
    const server = createMcpServer(this.#parts, viewer, { era: "legacy", canAsk: true });
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => id,
      onsessioninitialized: () => {
        this.#sessions.set(id, session);
      },
      onsessionclosed: () => this.#drop(session, "the client ended its session"),
    });
    const session: LegacySession = {
      id,
      server,
      transport,
      calls: new SessionCalls(),
      principal: viewer.principal,
      owner: viewer.grant.id,
      busy: 0,
      usedAt: Date.now(),
    };
    await server.connect(transport);
    return session;
  }

  /** Tells every client that has a stream open. */
  tell(say: (server: Server) => Promise<void>): void {
    for (const { server } of this.#sessions.values()) void say(server).catch(() => {});
  }

  close(): void {
    clearInterval(this.#sweeper);
    for (const session of [...this.#sessions.values()]) this.#drop(session, "the server is stopping");
  }

  #makeRoom({ id, admin }: Grant): boolean {
    const all = [...this.#sessions.values()];
    const own = all.filter(({ owner }) => owner === id);
    // Nobody locks the others out by opening one after the other.
    if (!admin && own.length >= Math.ceil(this.#limits.most / 2)) return this.#dropOldest(own);
    return all.length < this.#limits.most || this.#dropOldest(own) || this.#dropOldest(all);
  }

  /** Of those in which nothing happens. Says whether there was one. */
  #dropOldest(sessions: readonly LegacySession[]): boolean {
    const idle = sessions.filter(isIdle);
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

  #drop({ id, calls, server }: LegacySession, reason: string): void {
    this.#sessions.delete(id);
    calls.cancelAll(reason);
    void server.close().catch(() => {});
  }
}

const MADE_ROOM = "its session was given up";

function isIdle({ busy, calls }: LegacySession): boolean {
  return busy === 0 && calls.size === 0;
}
