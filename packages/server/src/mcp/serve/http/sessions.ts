import { randomUUID } from "node:crypto";
import {
  isJSONRPCErrorResponse,
  isJSONRPCResultResponse,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import type { Grant } from "../../../access/index.ts";
import type { EndedCall } from "../../../calls/index.ts";
import { isRecord } from "../../../helpers/index.ts";
import { isNews } from "../changes.ts";
import type { Exchange } from "../exchange.ts";
import type { Audience, Viewer } from "../lists.ts";
import { cancellationsIn, requestIdOf, tellServer } from "../messages.ts";
import { createMcpServer, type McpParts, type RackServer } from "../surface.ts";

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

const usualSessionLimits: SessionLimits = { most: 1000, idle: 30 * 60_000 };

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

type Id = string | number;

/**
 * The calls of a session that were begun before the SDK was given their requests, by the ids of those. The SDK knows
 * nothing of them, so that whoever ends them looks here too.
 */
export class SessionCalls {
  readonly #byId = new Map<Id, Exchange<EndedCall>>();

  get size(): number {
    return this.#byId.size;
  }

  has(id: Id): boolean {
    return this.#byId.get(id) !== undefined;
  }

  /** Whether the request still waits for the answer of this call: one that was cancelled does not. */
  awaits(id: Id, exchange: Exchange<EndedCall>): boolean {
    return this.#byId.get(id) === exchange;
  }

  /** Only for an id that no call has. */
  add(id: Id, exchange: Exchange<EndedCall>): void {
    this.#byId.set(id, exchange);
  }

  /** To be called when the call has been answered, or cannot be any more. */
  delete(id: Id, exchange: Exchange<EndedCall>): void {
    if (this.awaits(id, exchange)) this.#byId.delete(id);
  }

  /** What the client cancels it does not wait for any more. */
  cancel(id: Id, reason: string): void {
    const exchange = this.#byId.get(id);
    this.#byId.delete(id);
    exchange?.cancel(reason);
  }

  cancelAll(reason: string): void {
    for (const exchange of this.#byId.values()) exchange.cancel(reason);
  }
}

type Message = Parameters<WebStandardStreamableHTTPServerTransport["send"]>[0];

/** The requests that came in one POST, and are answered on one stream. */
interface Post {
  readonly ids: readonly Id[];
  readonly waiting: Set<Id>;
  readonly cancelled: Set<Id>;
  /** The SDK has made the stream. */
  isOpen: boolean;
}

/**
 * The SDK's transport of a session, which ends a stream when everything on it has been answered, and waits for ever for
 * the answer to a request that was cancelled. Here a stream ends with the last answer that somebody still waits for.
 */
export class SessionTransport extends WebStandardStreamableHTTPServerTransport {
  readonly #posts = new Map<Id, Post>();

  /** Whether a request of this id was taken and has not been answered. In a batch, until all of it is. */
  isUnderWay(id: Id): boolean {
    return this.#posts.has(id);
  }

  override async handleRequest(
    ...[request, options]: Parameters<WebStandardStreamableHTTPServerTransport["handleRequest"]>
  ): Promise<Response> {
    const body = options?.parsedBody;
    const ids = requestIdsIn(body);
    const isAsking = ids.length > 0;
    const response = await (isAsking
      ? this.#take(ids, request, options)
      : super.handleRequest(request, options));
    for (const { requestId } of cancellationsIn(body)) this.#giveUp(requestId);
    return response;
  }

  override async send(
    ...[message, options]: Parameters<WebStandardStreamableHTTPServerTransport["send"]>
  ): Promise<void> {
    const id = answeredBy(message);
    const post = id === undefined ? undefined : this.#posts.get(id);
    if (id === undefined || post === undefined) return super.send(message, options);
    // It may have been cancelled before the SDK knew of it.
    if (post.cancelled.has(id)) return;
    try {
      await super.send(message, options);
    } finally {
      post.waiting.delete(id);
      this.#endIfDone(post);
    }
  }

  async #take(
    ids: readonly Id[],
    ...[request, options]: Parameters<WebStandardStreamableHTTPServerTransport["handleRequest"]>
  ): Promise<Response> {
    const post: Post = { ids, waiting: new Set(ids), cancelled: new Set(), isOpen: false };
    for (const id of ids) this.#posts.set(id, post);
    let isTaken = false;
    try {
      const response = await super.handleRequest(request, options);
      isTaken = response.ok;
      return response;
    } finally {
      post.isOpen = true;
      if (!isTaken) post.waiting.clear();
      this.#endIfDone(post);
    }
  }

  /** A request that was cancelled gets no answer. */
  #giveUp(id: Id): void {
    const post = this.#posts.get(id);
    if (post === undefined || !post.waiting.delete(id)) return;
    post.cancelled.add(id);
    this.#endIfDone(post);
  }

  #endIfDone({ ids, waiting, cancelled, isOpen }: Post): void {
    if (waiting.size > 0 || !isOpen) return;
    for (const id of ids) this.#posts.delete(id);
    for (const id of cancelled) this.closeSSEStream(id);
    // What has no stream any more reaches nobody, and the SDK forgets the request.
    for (const id of cancelled) void super.send(nothing(id)).catch(() => {});
  }
}

function requestIdsIn(body: unknown): Id[] {
  return [body].flat().flatMap((message) => requestIdOf(message) ?? []);
}

function answeredBy(message: Message): Id | undefined {
  return isJSONRPCResultResponse(message) || isJSONRPCErrorResponse(message) ? message.id : undefined;
}

function nothing(id: Id): Message {
  return { jsonrpc: "2.0", id, result: {} };
}

/** The longest that is looked at: news are short. */
const LONGEST_NEWS = 4096;

/**
 * What a client that does not read just now is to be told when it does. News that are told again meanwhile, as that a
 * list has changed, are told once, in the place of the last. All else is kept as it was said.
 */
export class UnreadFrames {
  readonly #frames = new Map<unknown, Uint8Array>();
  #size = 0;

  /** In bytes. */
  get size(): number {
    return this.#size;
  }

  add(frame: Uint8Array): void {
    const key = newsIn(frame) ?? frame;
    if (this.#frames.delete(key)) this.#size -= frame.length;
    this.#frames.set(key, frame);
    this.#size += frame.length;
  }

  /** All of it, which is then no longer here. */
  take(): Uint8Array[] {
    const frames = [...this.#frames.values()];
    this.#frames.clear();
    this.#size = 0;
    return frames;
  }
}

/** The text of a frame that holds news. */
function newsIn(frame: Uint8Array): string | undefined {
  if (frame.length > LONGEST_NEWS) return undefined;
  const text = Buffer.from(frame).toString();
  // The rest of it are other fields of the event, before or after.
  const data = /^data: (.+)$/m.exec(text)?.[1];
  // Most of what is said need not be read for this.
  if (data === undefined || (!data.includes("list_changed") && !data.includes("resources/updated")))
    return undefined;
  try {
    const message: unknown = JSON.parse(data);
    return isRecord(message) && isNews(message) ? text : undefined;
  } catch {
    // It is in several pieces.
    return undefined;
  }
}
