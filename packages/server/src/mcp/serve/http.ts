import type { IncomingMessage, ServerResponse } from "node:http";
import { type Grant, GrantWatch } from "../../access/index.ts";
import { HttpError, type Mount, originOf, readBody, whenGone } from "../../http/wire/index.ts";
import {
  acceptsEvents,
  clientNameOf,
  type Envelope,
  legacyCodec,
  longestMessage,
  modernVersion,
  RpcError,
  type RpcId,
  type RpcMessage,
  type RpcRequest,
  readRpc,
  refusedIdOf,
  reusedId,
  rpcCodes,
  sendJson,
} from "../wire/index.ts";
import { BatchReply } from "./batch.ts";
import { Caller, type ExpertResolver, mayUseExpert } from "./caller.ts";
import { dispatch, handleNotification } from "./dispatch.ts";
import { checkParamHeaders, readModern } from "./http-headers.ts";
import {
  checkAccept,
  checkCharset,
  checkLegacy,
  checkVersion,
  invalid,
  Refusal,
  readBatch,
  refused,
  toRefusal,
} from "./http-refusals.ts";
import { HttpReply } from "./http-reply.ts";
import type { McpServing } from "./serving.ts";
import { ClientRequest, type Peer } from "./session.ts";
import { type HttpSession, HttpSessions, noSession, type SessionLimits } from "./sessions.ts";

export interface McpMountOptions {
  readonly sessions?: SessionLimits;
  /** The largest body, in bytes. Default 10 MiB. */
  readonly maxBody?: number;
}

/** How long the stopping server waits for open answers, in milliseconds. */
const CLOSE_TIMEOUT = 1_000;

/** One POST with a message or a batch, and its caller. */
interface Posted {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  readonly caller: Caller;
  readonly session: HttpSession | undefined;
}

/** The rack at `/mcp` and `/mcp/{expert}`, for clients of all versions of the protocol. */
export function mcpMount(serving: McpServing, options: McpMountOptions = {}): Mount {
  const server = new McpHttp(serving, options);
  return {
    access: "token",
    owns: isMcpPath,
    handle: (incoming, outgoing, grant) => server.handle(incoming, outgoing, grant!), // `access: "token"` guarantees a grant.
    challenge: metadataChallenge,
    close: () => server.close(),
  };
}

class McpHttp {
  readonly #serving: McpServing;
  readonly #sessions: HttpSessions;
  readonly #grants: GrantWatch;
  readonly #maxBody: number;
  readonly #cutOff: (reason: string) => void;
  /** The number of answers that `close` waits for, and what to call when the last one is sent. */
  #unanswered = 0;
  #whenAnswered = () => {};

  constructor(serving: McpServing, { sessions, maxBody = longestMessage }: McpMountOptions) {
    this.#serving = serving;
    this.#sessions = new HttpSessions(serving, sessions);
    this.#grants = new GrantWatch(serving.store, serving.logger);
    this.#maxBody = maxBody;
    this.#cutOff = (reason) => serving.logger.warn(`An MCP client was cut off: ${reason}.`);
  }

  /** Resolves when the request has been answered or refused, or its client has gone. */
  async handle(incoming: IncomingMessage, outgoing: ServerResponse, grant: Grant): Promise<void> {
    let id: RpcId | null = null;
    try {
      const { experts } = this.#serving;
      const callerBefore = callerOf(incoming, grant, experts);
      const isInSession = incoming.headers["mcp-session-id"] !== undefined;
      const sessionId = isInSession ? sessionIdOf(incoming) : undefined;
      if (incoming.method !== "POST") return this.#handleOther(incoming, outgoing, callerBefore, sessionId);
      if (incoming.headers["content-type"] !== "application/json") checkCharset(incoming);
      const body = await readBody(incoming, this.#maxBody);
      if (typeof body !== "object" || body === null) throw invalid("The body is not a JSON-RPC message.");
      // Looked up again: while the body was read, the expert may have changed and the session may have ended.
      const caller = callerOf(incoming, grant, experts);
      const session = sessionId === undefined ? undefined : this.#session(sessionId, caller);
      const posted = { incoming, outgoing, caller, session };
      if (Array.isArray(body)) return await this.#takeBatch(posted, body);
      const message = readRpc(body);
      if (message?.kind === "request") id = message.id;
      else if (message === undefined && "method" in body) id = refusedIdOf(body);
      if (message === undefined) {
        throw invalid("Bad Request: the request body is not a valid JSON-RPC message");
      }
      await this.#take(posted, message);
    } catch (thrown) {
      const { status, text, headers } = toRefusal(thrown, id);
      sendJson(outgoing, status, text, headers);
    }
  }

  async close(): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, CLOSE_TIMEOUT);
      this.#whenAnswered = () => {
        clearTimeout(timer);
        resolve();
      };
      if (this.#unanswered === 0) this.#whenAnswered();
    });
    this.#serving.changes.stop();
    this.#sessions.close();
  }

  #session(id: string, caller: Caller): HttpSession {
    const session = this.#sessions.find(id, caller);
    if (session === undefined) throw new Refusal(noSession.status, noSession);
    return session;
  }

  /** GET opens the stream of a session, DELETE ends a session. */
  #handleOther(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    caller: Caller,
    sessionId: string | undefined,
  ): void {
    const { method, headers } = incoming;
    if (sessionId === undefined || (method !== "GET" && method !== "DELETE")) {
      const text =
        "Messages are sent by POST. GET and DELETE are for sessions, which are named by Mcp-Session-Id.";
      const allow = ["Allow", sessionId === undefined ? "POST" : "GET, POST, DELETE"];
      throw new Refusal(405, new RpcError(rpcCodes.refused, text), null, allow);
    }
    const session = this.#session(sessionId, caller);
    if (method === "GET" && !acceptsEvents(headers.accept)) {
      throw refused(406, "Not Acceptable: Client must accept text/event-stream");
    }
    checkVersion(incoming);
    if (method === "DELETE") {
      this.#sessions.end(session, "the client ended its session");
      outgoing.writeHead(200).end();
      return;
    }
    if (session.hasStream) throw refused(409, "Conflict: Only one SSE stream is allowed per session");
    session.keepBusy(outgoing);
    const stream = session.openStream(outgoing, this.#cutOff);
    this.#watch({ incoming, outgoing, caller, session }, () => stream.end());
  }

  /** Ends a stream when the client's token or expert is gone, or the client closes it. Open calls are still answered. */
  #watch({ incoming, outgoing, caller }: Posted, end: () => void): void {
    const stops = [
      this.#grants.watch(caller.grant, end),
      this.#serving.expertWatch.watch(caller, end),
      whenGone(incoming, outgoing, end),
    ];
    outgoing.once("close", () => {
      for (const stop of stops) stop();
    });
  }

  #take(posted: Posted, message: RpcMessage): void | Promise<void> {
    const { incoming, outgoing, caller, session } = posted;
    const envelope = message.kind === "response" ? undefined : readModern(message, incoming.headers);
    if (message.kind !== "request") {
      if (envelope === undefined) {
        checkLegacy(incoming);
        handleNonRequest(message, session);
      }
      outgoing.writeHead(202).end();
      return;
    }
    if (envelope !== undefined) return this.#answerModern(posted, message, envelope);
    if (message.method === "initialize") return this.#initialize(posted, message);
    checkLegacy(incoming);
    if (session?.requests.has(message.id)) throw reusedId(message.id);
    return this.#answer(posted, message, session ?? statelessPeer(caller));
  }

  #answerModern(posted: Posted, message: RpcRequest, envelope: Envelope): Promise<void> {
    const { incoming, caller } = posted;
    const { registry, clients, modern: codec } = this.#serving;
    if (message.method === "tools/call") checkParamHeaders(registry, caller, message, incoming.headers);
    const { version, abilities, client, logLevel } = envelope;
    clients.see(client, "modern", caller, message.method);
    const peer = { caller, codec, version, abilities, clientName: clientNameOf(client), logLevel };
    return this.#answer({ ...posted, session: undefined }, message, peer);
  }

  #initialize(posted: Posted, message: RpcRequest): Promise<void> {
    checkAccept(posted.incoming);
    if (posted.session !== undefined) {
      throw new Refusal(400, invalid("Invalid Request: Server already initialized"));
    }
    const session = this.#sessions.open(posted.caller, message.params);
    if (session === undefined) {
      const text = `There are as many sessions as this server keeps, all of them busy. End one that is no longer needed, or use the version ${modernVersion}, which needs none.`;
      throw new Refusal(503, new RpcError(rpcCodes.unavailable, text), message.id);
    }
    return this.#answer({ ...posted, session }, message, session);
  }

  #answer(posted: Posted, message: RpcRequest, peer: Peer): Promise<void> {
    const { caller, session } = posted;
    if (session !== undefined) this.#serving.clients.see(session.client, "legacy", caller, message.method);
    return new Promise((resolve) => {
      const reply = this.#reply(posted, resolve);
      const request = new ClientRequest(message, peer, reply, session?.requests);
      reply.requests.push(request);
      dispatch(this.#serving, request);
      if (request.stop === undefined) return;
      this.#watch(posted, () => request.withdraw("its stream ended"));
      this.#answered();
    });
  }

  #reply({ incoming, outgoing, session }: Posted, resolve: () => void): HttpReply {
    this.#unanswered++;
    session?.keepBusy(outgoing);
    const done = () => {
      release();
      if (reply.requests[0]?.stop === undefined) this.#answered();
      resolve();
    };
    const reply = new HttpReply(outgoing, { session, cutOff: this.#cutOff, done });
    // Also in a session: a client cannot ask again for an answer that it missed.
    const release = whenGone(incoming, outgoing, () => {
      for (const request of reply.requests) request.withdraw("the client closed the connection");
    });
    return reply;
  }

  #answered(): void {
    this.#unanswered--;
    if (this.#unanswered === 0) this.#whenAnswered();
  }

  #takeBatch(
    { incoming, outgoing, caller, session }: Posted,
    body: readonly unknown[],
  ): void | Promise<void> {
    const messages = readBatch(body, session?.version ?? incoming.headers["mcp-protocol-version"]);
    checkLegacy(incoming);
    if (!messages.some(({ kind }) => kind === "request")) {
      for (const message of messages) if (message.kind !== "request") handleNonRequest(message, session);
      outgoing.writeHead(202).end();
      return;
    }
    return new Promise<void>((resolve) => {
      const reply = this.#reply({ incoming, outgoing, caller, session }, resolve);
      const batch = new BatchReply(reply, () =>
        reply.answerAll(batch.answers, batch.begun === 0 ? 400 : 200),
      );
      batch.take(messages, {
        requests: session?.requests,
        begin: (message) => {
          const peer = session ?? statelessPeer(caller);
          const request = new ClientRequest(message, peer, batch, session?.requests);
          reply.requests.push(request);
          dispatch(this.#serving, request);
        },
        handleNonRequest: (message) => handleNonRequest(message, session),
      });
    });
  }
}

/** Handles answers to the rack's questions, and cancellations. */
function handleNonRequest(message: Exclude<RpcMessage, RpcRequest>, session: HttpSession | undefined): void {
  if (message.kind === "response") session?.answer(message);
  else handleNotification(message, session?.requests);
}

/** A client of the legacy era without a session: it has not described itself, and cannot be asked anything. */
function statelessPeer(caller: Caller): Peer {
  return {
    caller,
    codec: legacyCodec,
    version: undefined,
    abilities: {},
    clientName: "",
    logLevel: undefined,
  };
}

/** One caller per grant, so that requests with the same grant share it. */
const callersWithoutExpert = new WeakMap<Grant, Caller>();

function newCallerWithoutExpert(grant: Grant): Caller {
  const caller = new Caller(grant);
  callersWithoutExpert.set(grant, caller);
  return caller;
}

function callerOf({ url = "/" }: IncomingMessage, grant: Grant, experts: ExpertResolver | undefined): Caller {
  const end = url.indexOf("?");
  const path = end === -1 ? url : url.slice(0, end);
  if (path === "/mcp" || path === "/mcp/") {
    return callersWithoutExpert.get(grant) ?? newCallerWithoutExpert(grant);
  }
  const name = decoded(path.slice("/mcp/".length));
  const expert = name === undefined ? undefined : experts?.(name);
  if (expert !== undefined && mayUseExpert(grant, expert)) return new Caller(grant, expert);
  const text = "There is no such expert for this token. Ask for its name, or for a token that may use it.";
  throw new Refusal(404, new RpcError(rpcCodes.unavailable, text));
}

/** Ignores the header for the modern version, which has no sessions. */
function sessionIdOf({ headers }: IncomingMessage): string | undefined {
  const id = headers["mcp-session-id"];
  return typeof id === "string" && headers["mcp-protocol-version"] !== modernVersion ? id : undefined;
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

const WELL_KNOWN = "/.well-known/oauth-protected-resource";

/** Tells clients how `/mcp` is protected: by bearer tokens in the header, which the operator hands out. */
export function resourceMetadataMount(): Mount {
  return {
    access: "open",
    // Also owns unknown paths below, because other mounts would answer them by asking for a token.
    owns: (path) => path === WELL_KNOWN || path.startsWith(`${WELL_KNOWN}/`),
    handle(incoming, outgoing) {
      const { pathname } = new URL(incoming.url ?? "/", "http://localhost");
      const resource = pathname.slice(WELL_KNOWN.length) || "/mcp";
      if (!isMcpPath(resource)) throw new HttpError("not_found", `Nothing is served at ${resource}.`);
      const body = JSON.stringify({
        resource: `${originOf(incoming)}${resource}`,
        resource_name: "Toolrack",
        bearer_methods_supported: ["header"],
      });
      outgoing.writeHead(200, { "Content-Type": "application/json", "Cache-Control": "max-age=3600" });
      outgoing.end(body);
    },
  };
}

/** The part of the authentication challenge that names the address of the metadata. */
function metadataChallenge(incoming: IncomingMessage): string {
  const { pathname } = new URL(incoming.url ?? "/mcp", "http://localhost");
  return `resource_metadata="${originOf(incoming)}${WELL_KNOWN}${pathname}"`;
}

/** Whether the rack or one of its experts is served at this path. */
function isMcpPath(path: string): boolean {
  return path === "/mcp" || path === "/mcp/" || /^\/mcp\/[^/]+$/.test(path);
}
