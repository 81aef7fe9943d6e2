import { randomUUID } from "node:crypto";
import { type Server, WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/server";
import type { EndedCall } from "../../../calls/call-desk.ts";
import { createMcpServer } from "../create-mcp-server.ts";
import type { Exchange } from "../exchange.ts";
import type { McpParts } from "../mcp-parts.ts";
import type { Viewer } from "../viewer.ts";

export interface LegacySession {
  readonly id: string;
  readonly server: Server;
  readonly transport: WebStandardStreamableHTTPServerTransport;
  readonly principal: string;
  /** Calls that were begun before the SDK was given their requests, by the ids of those. */
  readonly calls: Map<string | number, Exchange<EndedCall>>;
  /** Requests and streams that are open. */
  busy: number;
  usedAt: number;
}

export interface SessionLimits {
  /** How many sessions there may be. */
  readonly most: number;
  /** How long one that nothing happens in is kept, in milliseconds. */
  readonly idle: number;
}

export const usualSessionLimits: SessionLimits = { most: 1000, idle: 30 * 60_000 };

const SWEEP = 60_000;

/**
 * The sessions of clients of the versions before 2026-07-28, which can be asked and told things because of them. They
 * are few and short-lived by force: the oldest idle one makes room for a new one.
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
    if (!this.#makeRoom()) return undefined;
    const id = randomUUID();
    const server = createMcpServer(this.#parts, viewer, { era: "legacy", canAsk: true });
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => id,
      onsessioninitialized: () => {
        this.#sessions.set(id, session);
      },
      onsessionclosed: () => this.#drop(session),
    });
    const session: LegacySession = {
      id,
      server,
      transport,
      calls: new Map(),
      principal: viewer.principal,
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
    for (const session of [...this.#sessions.values()]) this.#drop(session);
  }

  #makeRoom(): boolean {
    if (this.#sessions.size < this.#limits.most) return true;
    const idle = [...this.#sessions.values()].filter(({ busy }) => busy === 0);
    const [oldest] = idle.sort((one, other) => one.usedAt - other.usedAt);
    if (oldest === undefined) return false;
    this.#drop(oldest);
    return true;
  }

  #sweep(): void {
    const limit = Date.now() - this.#limits.idle;
    for (const session of [...this.#sessions.values()]) {
      if (session.busy === 0 && session.usedAt < limit) this.#drop(session);
    }
  }

  #drop(session: LegacySession): void {
    this.#sessions.delete(session.id);
    void session.server.close().catch(() => {});
  }
}
