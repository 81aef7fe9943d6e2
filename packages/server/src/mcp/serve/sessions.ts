import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import type { Grant } from "../../access/index.ts";
import { EventStream, type RpcParams, rpcCodes } from "../wire/index.ts";
import type { Caller } from "./caller.ts";
import type { McpServing } from "./serving.ts";
import { ClientSession } from "./session.ts";

export interface SessionLimits {
  /** How many sessions there may be. A token that is not the operator's has half of them at most. */
  readonly most: number;
  /** How long one that nothing happens in is kept, in milliseconds. */
  readonly idle: number;
}

const usualLimits: SessionLimits = { most: 1000, idle: 30 * 60_000 };

const SWEEP = 60_000;

/** By this status a client knows that it has to begin anew. */
export const noSession = {
  status: 404,
  code: rpcCodes.unavailable,
  message: "There is no such session. Initialize a new one.",
};

/** A session of a client of the legacy era over HTTP. */
export class HttpSession extends ClientSession {
  readonly id = randomUUID();
  /** How many of its requests and streams are being answered. */
  responses = 0;
  usedAt = Date.now();
  /** It has ended, and its requests are answered with that. */
  isGone = false;
  /** How what concerns it is no longer watched. */
  readonly leave: (() => void)[] = [];
  #stream: EventStream | undefined;

  constructor(caller: Caller) {
    // A client that reads no stream just now misses what it is told beside its requests.
    super(caller, (message) => this.#stream?.writer.send(message));
  }

  get isIdle(): boolean {
    return this.responses === 0 && this.requests.size === 0;
  }

  get hasStream(): boolean {
    return this.#stream !== undefined;
  }

  /** The session is in use as long as somebody is being answered in it. */
  keepBusy(outgoing: ServerResponse): void {
    // One whose client has gone says so only once.
    if (outgoing.closed) return;
    this.responses++;
    outgoing.once("close", () => {
      this.responses--;
      this.usedAt = Date.now();
    });
  }

  /** Tells the client on this response what is told beside its requests. */
  openStream(outgoing: ServerResponse, cutOff: (reason: string) => void): EventStream {
    const stream = new EventStream(outgoing, { cutOff, headers: ["mcp-session-id", this.id] });
    this.#stream = stream;
    outgoing.once("close", () => {
      if (this.#stream === stream) this.#stream = undefined;
    });
    return stream;
  }

  end(reason: string): void {
    this.isGone = true;
    for (const leave of this.leave) leave();
    for (const request of [...this.requests.values()]) request.withdraw(reason);
    this.close(reason);
    this.#stream?.end();
  }
}

const MADE_ROOM = "its session was given up";

/**
 * The sessions of clients of the legacy era, which can be asked and told things because of them. They are few and
 * short-lived by force: the oldest idle one makes room for a new one, first of those of the same token.
 */
export class HttpSessions {
  readonly #serving: McpServing;
  readonly #limits: SessionLimits;
  readonly #sessions = new Map<string, HttpSession>();
  readonly #sweeper: NodeJS.Timeout;
  #isClosed = false;

  constructor(serving: McpServing, limits: SessionLimits = usualLimits) {
    this.#serving = serving;
    this.#limits = limits;
    this.#sweeper = setInterval(() => this.#sweep(), Math.min(SWEEP, limits.idle)).unref();
  }

  get size(): number {
    return this.#sessions.size;
  }

  /** Undefined when there is none of this id for this caller. */
  find(id: string, caller: Caller): HttpSession | undefined {
    const session = this.#sessions.get(id);
    if (session === undefined || session.caller.identity !== caller.identity) return undefined;
    session.caller.renew(caller.expert);
    session.usedAt = Date.now();
    return session;
  }

  /**
   * Begins one with what its client says of itself; throws an `RpcError` when it says it wrongly. Undefined when there
   * are too many busy ones, or when there are to be none any more.
   */
  open(caller: Caller, params: RpcParams): HttpSession | undefined {
    const session = new HttpSession(caller);
    session.initialize(params);
    if (this.#isClosed || !this.#makeRoom(caller.grant)) return undefined;
    this.#sessions.set(session.id, session);
    const { changes, expertWatch } = this.#serving;
    session.leave.push(
      changes.join(caller, session),
      expertWatch.watch(caller, () => this.end(session, "its session ended with the expert")),
    );
    return session;
  }

  end(session: HttpSession, reason: string): void {
    this.#sessions.delete(session.id);
    session.end(reason);
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#sweeper);
    for (const session of [...this.#sessions.values()]) this.end(session, "the server is stopping");
  }

  #makeRoom({ id, admin }: Grant): boolean {
    const all = [...this.#sessions.values()];
    const own = all.filter(({ caller }) => caller.grant.id === id);
    // Nobody locks the others out by opening one after the other.
    if (!admin && own.length >= Math.ceil(this.#limits.most / 2)) return this.#endOldest(own);
    return all.length < this.#limits.most || this.#endOldest(own) || this.#endOldest(all);
  }

  /** Of those in which nothing happens. Says whether there was one. */
  #endOldest(sessions: readonly HttpSession[]): boolean {
    const idle = sessions.filter(({ isIdle }) => isIdle);
    const [oldest] = idle.sort((one, other) => one.usedAt - other.usedAt);
    if (oldest === undefined) return false;
    this.end(oldest, MADE_ROOM);
    return true;
  }

  #sweep(): void {
    const limit = Date.now() - this.#limits.idle;
    for (const session of [...this.#sessions.values()]) {
      if (session.isIdle && session.usedAt < limit) this.end(session, MADE_ROOM);
    }
  }
}
