import type { ServerResponse } from "node:http";
import type { Grant } from "../../access/index.ts";
import type { RpcParams } from "../wire/index.ts";
import type { Caller } from "./caller.ts";
import { EventStream } from "./http-reply.ts";
import type { McpServing } from "./mcp-services.ts";
import { ClientSession } from "./session.ts";

export interface SessionLimits {
  /** How many sessions may be open at once. A token without admin rights may have at most half of them. */
  readonly most: number;
  /** How long an idle session is kept, in milliseconds. */
  readonly idle: number;
}

const usualLimits: SessionLimits = { most: 1000, idle: 30 * 60_000 };

const SWEEP = 60_000;

/** A session of a client of the legacy era over HTTP. */
export class HttpSession extends ClientSession {
  /** How many HTTP responses of this session, answers and streams, are not closed yet. */
  responses = 0;
  usedAt = Date.now();
  /** Whether the session has ended. Its open requests are then answered with `noSession`. */
  isGone = false;
  /** Functions that stop telling the session of changes and stop watching its expert. */
  readonly unsubscribe: (() => void)[] = [];
  #stream: EventStream | undefined;

  constructor(caller: Caller, node: string | undefined) {
    // Messages that belong to no request are lost while the client has no open stream.
    super(caller, (message) => this.#stream?.writer.send(message), node === undefined ? "" : `${node}.`);
  }

  get isIdle(): boolean {
    return this.responses === 0 && this.requests.entries.size === 0;
  }

  get hasStream(): boolean {
    return this.#stream !== undefined;
  }

  /** Counts the session as busy until this response is closed. */
  keepBusy(outgoing: ServerResponse): void {
    // A response that is closed already emits no further event.
    if (outgoing.closed) return;
    this.responses++;
    outgoing.once("close", () => {
      this.responses--;
      this.usedAt = Date.now();
    });
  }

  /** Opens an event stream on this response, for the messages that belong to no request. */
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
    for (const stop of this.unsubscribe) stop();
    for (const request of [...this.requests.entries.values()]) request.withdraw(reason);
    this.close(reason);
    this.#stream?.end();
  }
}

const GIVEN_UP = "its session was given up";

/**
 * The HTTP sessions of clients of the legacy era. Through its session the server can ask a client questions
 * and send it messages. The number of sessions is limited: when it is reached, a new session ends the one
 * that has been idle longest, preferably a session of the same token.
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

  /** Undefined when this caller has no session with this id. */
  find(id: string, caller: Caller): HttpSession | undefined {
    const session = this.#sessions.get(id);
    if (session === undefined || session.caller.identity !== caller.identity) return undefined;
    session.caller.renew(caller.expert);
    session.usedAt = Date.now();
    return session;
  }

  /**
   * Opens a session with the parameters of `initialize`; throws an `RpcError` when they are invalid. Returns
   * undefined when no session can be ended to make room for it, or the server is stopping.
   */
  open(caller: Caller, params: RpcParams): HttpSession | undefined {
    const session = new HttpSession(caller, this.#serving.node);
    session.initialize(params);
    if (this.#isClosed || !this.#makeRoom(caller.grant)) return undefined;
    this.#sessions.set(session.id, session);
    const { changes, expertWatch } = this.#serving;
    session.unsubscribe.push(
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
    // One token cannot use up all sessions.
    if (!admin && own.length >= Math.ceil(this.#limits.most / 2)) return this.#endOldestIdle(own);
    return all.length < this.#limits.most || this.#endOldestIdle(own) || this.#endOldestIdle(all);
  }

  /** Returns whether there was an idle session to end. */
  #endOldestIdle(sessions: readonly HttpSession[]): boolean {
    const idle = sessions.filter(({ isIdle }) => isIdle);
    const [oldest] = idle.sort((one, other) => one.usedAt - other.usedAt);
    if (oldest === undefined) return false;
    this.end(oldest, GIVEN_UP);
    return true;
  }

  #sweep(): void {
    const limit = Date.now() - this.#limits.idle;
    for (const session of [...this.#sessions.values()]) {
      if (session.isIdle && session.usedAt < limit) this.end(session, GIVEN_UP);
    }
  }
}
