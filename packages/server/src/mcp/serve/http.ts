import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { type Grant, GrantWatch, masterGrant } from "../../access/index.ts";
import { isRecord } from "../../helpers/index.ts";
import { HttpError, type Mount, originOf, readBody, whenGone } from "../../http/wire/index.ts";
import {
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
} from "../wire/index.ts";
import { legacyCodec } from "./answers.ts";
import { BatchReply } from "./batch.ts";
import { Caller, type ExpertResolver, mayUseExpert, operator } from "./caller.ts";
import { dispatch, handleNotification } from "./dispatch.ts";
import {
  accepts,
  checkAccept,
  checkCharset,
  checkLegacy,
  checkVersion,
  invalid,
  Refusal,
  readBatch,
  readModern,
  refused,
  toRefusal,
} from "./http-checks.ts";
import { HttpReply, noSession, type OwedAnswers, sendJson } from "./http-reply.ts";
import { type HttpSession, HttpSessions, type SessionLimits } from "./http-sessions.ts";
import type { McpServing } from "./mcp-services.ts";
import { ClientRequest, type Peer } from "./session.ts";
import type { JoinedClients } from "./stdio.ts";

/** The node in the id of a session or in a `requestState`: both begin with it where nodes share a database. */
function nodeIn(id: string | undefined): string | undefined {
  return id === undefined ? undefined : /^([0-9a-f-]{36})\../.exec(id)?.[1];
}

/** How long the stopping server waits for answers that are still to be sent, in milliseconds. */
const CLOSE_TIMEOUT = 1_000;

/** One HTTP request, usually a POST with a message or a batch, and its caller. */
interface Posted {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  readonly caller: Caller;
  readonly session: HttpSession | undefined;
}

/** The rack at `/mcp` and `/mcp/{expert}`, for clients of all versions of the protocol. */
export class McpMount implements Mount {
  readonly access = "token";
  readonly owns = isMcpPath;
  readonly #serving: McpServing;
  readonly #joined: JoinedClients;
  readonly #sessions: HttpSessions;
  readonly #grants: GrantWatch;
  readonly #owed: OwedAnswers;

  constructor(serving: McpServing, joined: JoinedClients, sessions?: SessionLimits) {
    const cutOff = (reason: string) => serving.logger.warn(`An MCP client was cut off: ${reason}.`);
    this.#serving = serving;
    this.#joined = joined;
    this.#sessions = new HttpSessions(serving, sessions);
    this.#grants = new GrantWatch(serving.store, serving.logger);
    this.#owed = { cutOff, count: 0, whenNone: undefined };
  }

  /** Names the address of the resource metadata, for the WWW-Authenticate header of a refused request. */
  challenge(incoming: IncomingMessage): string {
    const { pathname } = new URL(incoming.url ?? "/mcp", "http://localhost");
    return `resource_metadata="${originOf(incoming)}${WELL_KNOWN}${pathname}"`;
  }

  /** Resolves when the request is refused or its work has begun. The answer may come later. */
  async handle(incoming: IncomingMessage, outgoing: ServerResponse, grant: Grant): Promise<void> {
    let id: RpcId | null = null;
    try {
      const { headers, method } = incoming;
      const { experts, forwarder } = this.#serving;
      const callerBefore = callerOf(incoming, grant, experts);
      // The modern version has no sessions, and ignores the session header.
      const isModern = headers["mcp-protocol-version"] === modernVersion;
      const sessionId = isModern ? undefined : headers["mcp-session-id"]?.toString();
      const elsewhere = forwarder === undefined ? undefined : nodeIn(sessionId);
      if (method !== "POST") {
        if (this.#mayForward(elsewhere, incoming))
          return await forwarder?.forward(elsewhere, incoming, outgoing);
        return this.#handleOther(incoming, outgoing, callerBefore, sessionId);
      }
      if (headers["content-type"] !== "application/json") checkCharset(incoming);
      const body = await readBody(incoming, longestMessage);
      if (typeof body !== "object" || body === null) throw invalid("The body is not a JSON-RPC message.");
      // Most servers share their database with no other, and do not wait for a promise here.
      if (forwarder !== undefined) {
        const node = elsewhere ?? (await this.#nodeOf(body));
        if (this.#mayForward(node, incoming)) return await forwarder.forward(node, incoming, outgoing, body);
      }
      // The caller is looked up again and the session only now: while the body was read, the expert may have
      // changed and the session may have ended.
      const caller = callerOf(incoming, grant, experts);
      const session = sessionId === undefined ? undefined : this.#session(sessionId, caller);
      const posted = { incoming, outgoing, caller, session };
      if (Array.isArray(body)) return this.#takeBatch(posted, body);
      const message = readRpc(body);
      if (message?.kind === "request") id = message.id;
      else if (message === undefined && "method" in body) id = refusedIdOf(body);
      if (message === undefined) {
        throw invalid("Bad Request: the request body is not a valid JSON-RPC message");
      }
      this.#take(posted, message);
    } catch (thrown) {
      const { status, text, headers } = toRefusal(thrown, id);
      sendJson(outgoing, status, text, headers);
    }
  }

  join(incoming: IncomingMessage, outgoing: ServerResponse, grant: Grant, connection: Duplex): void {
    try {
      // Whoever can read the workspace's own token can as well start a program in the workspace.
      if (grant !== masterGrant)
        throw refused(403, "Only the workspace's own token lets a stdio client join.");
      this.#joined.add(outgoing, connection, callerOf(incoming, operator, this.#serving.experts));
    } catch (thrown) {
      const { status, text, headers } = toRefusal(thrown, null);
      sendJson(outgoing, status, text, headers);
    }
  }

  async close(): Promise<void> {
    const owed = this.#owed;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, CLOSE_TIMEOUT);
      owed.whenNone = () => {
        clearTimeout(timer);
        resolve();
      };
      if (owed.count === 0) owed.whenNone();
    });
    this.#serving.changes.stop();
    this.#sessions.close();
  }

  /** Whether the request belongs to another node that lives. */
  #mayForward(node: string | undefined, incoming: IncomingMessage): node is string {
    const { forwarder, node: own } = this.#serving;
    return node !== own && forwarder?.mayForward(node, incoming) === true;
  }

  /** The node that asked what this message answers, or that runs the task which it is about. */
  async #nodeOf(body: object): Promise<string | undefined> {
    if (!("params" in body) || !isRecord(body.params)) return undefined;
    const { requestState, taskId } = body.params;
    if (requestState !== undefined) return nodeIn(String(requestState));
    return typeof taskId === "string" ? this.#serving.service.nodeOf(taskId) : undefined;
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
    if (method === "GET" && !accepts(headers.accept ?? "", "text/event-stream")) {
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
    const stream = session.openStream(outgoing, this.#owed.cutOff);
    this.#watch({ incoming, outgoing, caller, session }, () => stream.end());
  }

  /**
   * Calls `end`, which ends a stream, when the client's token or expert is gone or the client closes the
   * connection. Other requests of the client are still answered.
   */
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

  #take(posted: Posted, message: RpcMessage): void {
    const { incoming, outgoing, caller } = posted;
    const { clients, modern: codec } = this.#serving;
    const envelope = message.kind === "response" ? undefined : readModern(message, incoming.headers);
    if (message.kind !== "request") {
      if (envelope === undefined) {
        checkLegacy(incoming);
        this.#handle(message, posted);
      }
      outgoing.writeHead(202).end();
      return;
    }
    const { id, method } = message;
    let session: HttpSession | undefined;
    let peer: Peer;
    if (envelope !== undefined) {
      const { version, abilities, client, logLevel } = envelope;
      peer = { caller, codec, version, abilities, client, logLevel, headers: incoming.headers };
    } else {
      if (method !== "initialize") checkLegacy(incoming);
      session = method === "initialize" ? this.#initialize(posted, message) : posted.session;
      if (session?.requests.entries.has(id)) throw reusedId(id);
      peer = session ?? statelessPeer(caller);
    }
    clients.see(peer.client, peer.codec.era, caller, method);
    const reply = new HttpReply(this.#owed, incoming, outgoing, session);
    const request = new ClientRequest(message, peer, reply, session?.requests);
    reply.requests.push(request);
    dispatch(this.#serving, request);
    if (request.stop === undefined) return;
    this.#watch(posted, () => request.withdraw("its stream ended"));
    reply.settle();
  }

  #initialize({ incoming, caller, session: before }: Posted, { id, params }: RpcRequest): HttpSession {
    checkAccept(incoming);
    if (before !== undefined) throw new Refusal(400, invalid("Invalid Request: Server already initialized"));
    const session = this.#sessions.open(caller, params);
    if (session !== undefined) return session;
    const text = `There are as many sessions as this server keeps, all of them busy. End one that is no longer needed, or use the version ${modernVersion}, which needs none.`;
    throw new Refusal(503, new RpcError(rpcCodes.unavailable, text), id);
  }

  #takeBatch(posted: Posted, body: readonly unknown[]): void {
    const { incoming, outgoing, caller, session } = posted;
    const messages = readBatch(body, session?.version ?? incoming.headers["mcp-protocol-version"]);
    checkLegacy(incoming);
    if (!messages.some(({ kind }) => kind === "request")) {
      for (const message of messages) this.#handle(message, posted);
      outgoing.writeHead(202).end();
      return;
    }
    const reply = new HttpReply(this.#owed, incoming, outgoing, session);
    const batch = new BatchReply(reply, () => reply.endBatch(batch.answers, batch.begun === 0 ? 400 : 200));
    batch.take(messages, session?.requests, (message) => {
      if (message.kind !== "request") return this.#handle(message, posted);
      const peer = session ?? statelessPeer(caller);
      const request = new ClientRequest(message, peer, batch, session?.requests);
      reply.requests.push(request);
      dispatch(this.#serving, request);
    });
  }

  /**
   * Handles a message that gets no answer: the client's answer to a question of the rack, or a notification.
   */
  #handle(message: RpcMessage, { session }: Posted): void {
    if (message.kind === "response") session?.answer(message);
    else if (message.kind === "notification") handleNotification(message, session?.requests);
  }
}

/**
 * A client of the legacy era without a session: it has not described itself, and cannot be asked questions.
 */
function statelessPeer(caller: Caller): Peer {
  const unknown = { version: undefined, client: undefined, logLevel: undefined };
  return { caller, codec: legacyCodec, abilities: {}, ...unknown };
}

/** For each grant, the caller without an expert, which all requests with that grant share. */
const callersWithoutExpert = new WeakMap<Grant, Caller>();

function newCallerWithoutExpert(grant: Grant): Caller {
  const caller = new Caller(grant);
  callersWithoutExpert.set(grant, caller);
  return caller;
}

function callerOf({ url = "/" }: IncomingMessage, grant: Grant, experts: ExpertResolver): Caller {
  const end = url.indexOf("?");
  const path = end === -1 ? url : url.slice(0, end);
  if (path === "/mcp" || path === "/mcp/") {
    return callersWithoutExpert.get(grant) ?? newCallerWithoutExpert(grant);
  }
  const name = decoded(path.slice("/mcp/".length));
  const expert = name === undefined ? undefined : experts(name);
  if (expert !== undefined && mayUseExpert(grant, expert)) return new Caller(grant, expert);
  const text = "There is no such expert for this token. Ask for its name, or for a token that may use it.";
  throw new Refusal(404, new RpcError(rpcCodes.unavailable, text));
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
    // Also owns unknown paths below `WELL_KNOWN`, because otherwise the server would ask for a token there.
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

/** Whether the rack or one of its experts is served at this path. */
function isMcpPath(path: string): boolean {
  return path === "/mcp" || path === "/mcp/" || /^\/mcp\/[^/]+$/.test(path);
}
