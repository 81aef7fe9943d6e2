import type { IncomingMessage, ServerResponse } from "node:http";
import { type Grant, GrantWatch } from "../../access/index.ts";
import { HttpError, type Mount, originOf, readBody, whenGone } from "../../http/wire/index.ts";
import {
  acceptsBoth,
  acceptsEvents,
  batchProblem,
  clientNameOf,
  type Envelope,
  errorText,
  type HeaderList,
  hasEnvelope,
  legacyCodec,
  legacyVersions,
  longestMessage,
  metaOf,
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
  sendNoEvents,
  takeBatch,
} from "../wire/index.ts";
import { Caller, type ExpertResolver, mayUseExpert } from "./caller.ts";
import { dispatch, hear } from "./dispatch.ts";
import { checkParamHeaders, readModern } from "./http-headers.ts";
import { HttpReply } from "./http-reply.ts";
import type { McpServing } from "./serving.ts";
import { ClientRequest, type Peer } from "./session.ts";
import { type HttpSession, HttpSessions, noSession, type SessionLimits } from "./sessions.ts";

export interface McpMountOptions {
  readonly sessions?: SessionLimits;
  /** The largest body, in bytes. Default 10 MiB. */
  readonly maxBody?: number;
}

/** How long answers may take to be made once the calls behind them have ended, in milliseconds. */
const LAST_WORDS = 1_000;

/** One request of HTTP, and who sent it. */
interface Exchanged {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  readonly caller: Caller;
  readonly session: HttpSession | undefined;
}

/** The rack at `/mcp` and `/mcp/{expert}`, for clients of all versions of the protocol. */
export function mcpMount(serving: McpServing, options: McpMountOptions = {}): Mount {
  const handler = new McpHttp(serving, options);
  return {
    access: "token",
    owns: isMcpPath,
    handle: (incoming, outgoing, grant) => handler.handle(incoming, outgoing, grant!), // `access` says that there is one.
    challenge: metadataChallenge,
    close: () => handler.close(),
  };
}

class McpHttp {
  readonly #serving: McpServing;
  readonly #sessions: HttpSessions;
  readonly #grants: GrantWatch;
  readonly #maxBody: number;
  readonly #cutOff: (reason: string) => void;
  /** Answers that the server waits for before it stops, and what it does when the last of them is made. */
  #unanswered = 0;
  #whenAnswered = () => {};

  constructor(serving: McpServing, { sessions, maxBody = longestMessage }: McpMountOptions) {
    this.#serving = serving;
    this.#sessions = new HttpSessions(serving, sessions);
    this.#grants = new GrantWatch(serving.store, serving.logger);
    this.#maxBody = maxBody;
    this.#cutOff = (reason) => serving.logger.warn(`An MCP client was cut off: ${reason}.`);
  }

  async handle(incoming: IncomingMessage, outgoing: ServerResponse, grant: Grant): Promise<void> {
    const { experts } = this.#serving;
    const asked = callerOf(incoming, grant, experts);
    if (asked === undefined) return refuse(outgoing, 404, noExpert);
    const sessionId = sessionIdOf(incoming);
    if (incoming.method !== "POST") return this.#handleOther(incoming, outgoing, asked, sessionId);
    let body: unknown;
    try {
      checkCharset(incoming);
      body = await readBody(incoming, this.#maxBody);
    } catch (thrown) {
      if (thrown instanceof HttpError) return refuseBody(outgoing, thrown);
      throw thrown;
    }
    if (typeof body !== "object" || body === null) {
      return refuse(outgoing, 400, invalid("The body is not a JSON-RPC message."));
    }
    // Looked for once more, and only now: while the body came the expert may have changed, and the session ended.
    const caller = callerOf(incoming, grant, experts);
    if (caller === undefined) return refuse(outgoing, 404, noExpert);
    const session = sessionId === undefined ? undefined : this.#sessions.find(sessionId, caller);
    if (sessionId !== undefined && session === undefined) return refuse(outgoing, 404, noSession);
    const exchanged = { incoming, outgoing, caller, session };
    return Array.isArray(body) ? this.#takeBatch(exchanged, body) : this.#take(exchanged, body);
  }

  /** Resolves when what was asked has been answered, or is not waited for any longer. */
  async close(): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, LAST_WORDS);
      this.#whenAnswered = () => {
        clearTimeout(timer);
        resolve();
      };
      if (this.#unanswered === 0) this.#whenAnswered();
    });
    this.#serving.changes.stop();
    this.#sessions.close();
  }

  /** Only sessions have a stream to be read, and an end. */
  #handleOther(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    caller: Caller,
    sessionId: string | undefined,
  ) {
    const { method, headers } = incoming;
    if (sessionId === undefined || (method !== "GET" && method !== "DELETE")) {
      const allow = ["Allow", sessionId === undefined ? "POST" : "GET, POST, DELETE"];
      return refuse(outgoing, 405, wrongMethod, null, allow);
    }
    const session = this.#sessions.find(sessionId, caller);
    if (session === undefined) return refuse(outgoing, 404, noSession);
    if (method === "GET" && !acceptsEvents(headers.accept)) return refuse(outgoing, 406, acceptsNoEvents);
    const problem = versionProblem(incoming);
    if (problem !== undefined) return refuse(outgoing, 400, problem);
    if (method === "DELETE") {
      this.#sessions.end(session, "the client ended its session");
      outgoing.writeHead(200).end();
      return;
    }
    if (session.hasStream) return refuse(outgoing, 409, secondStream);
    session.keepBusy(outgoing);
    const stream = session.openStream(outgoing, this.#cutOff);
    this.#watch(incoming, outgoing, caller, () => stream.end());
  }

  /** A client without a token any more, or whose expert is gone, is told nothing more; calls under way are still answered. */
  #watch(incoming: IncomingMessage, outgoing: ServerResponse, caller: Caller, end: () => void): void {
    const stops = [
      this.#grants.watch(caller.grant, end),
      this.#serving.expertWatch.watch(caller, end),
      // A stream has nobody left to go to once its reader has closed its side.
      whenGone(incoming, outgoing, end),
    ];
    outgoing.once("close", () => {
      for (const stop of stops) stop();
    });
  }

  #take(exchanged: Exchanged, body: object) {
    const { incoming, outgoing, session } = exchanged;
    const message = readRpc(body);
    if (message === undefined) {
      const id = "method" in body && typeof body.method === "string" ? refusedIdOf(body) : null;
      return refuse(
        outgoing,
        400,
        invalid("Bad Request: the request body is not a valid JSON-RPC message"),
        id,
      );
    }
    const id = message.kind === "request" ? message.id : null;
    try {
      const envelope = message.kind === "response" ? undefined : readModern(message, incoming.headers);
      if (envelope !== undefined) return this.#takeModern(exchanged, message, envelope);
    } catch (thrown) {
      if (thrown instanceof RpcError) return refuse(outgoing, 400, thrown, id);
      throw thrown;
    }
    const isInitialize = message.kind === "request" && message.method === "initialize";
    const refusal = this.#legacyRefusal(exchanged, isInitialize);
    if (refusal !== undefined) return refuse(outgoing, refusal.status, refusal.error);
    if (message.kind !== "request") {
      hearFrom(message, session);
      outgoing.writeHead(202).end();
      return;
    }
    if (isInitialize) return this.#initialize(exchanged, message);
    if (session?.requests.has(message.id)) return refuse(outgoing, 400, reusedId(message.id), message.id);
    return this.#answer(exchanged, message, session ?? statelessPeer(exchanged.caller));
  }

  #takeModern(exchanged: Exchanged, message: RpcMessage, envelope: Envelope) {
    const { incoming, outgoing, caller } = exchanged;
    if (message.kind !== "request") {
      outgoing.writeHead(202).end();
      return;
    }
    if (message.method === "tools/call") {
      checkParamHeaders(this.#serving.registry, caller, message, incoming.headers);
    }
    const { abilities, client, logLevel } = envelope;
    this.#serving.clients.see(client, "modern", caller, message.method);
    const peer: Peer = {
      caller,
      codec: this.#serving.modern,
      version: modernVersion,
      abilities,
      clientName: clientNameOf(client),
      logLevel,
    };
    return this.#answer({ ...exchanged, session: undefined }, message, peer);
  }

  #legacyRefusal(
    { incoming, session }: Exchanged,
    isInitialize: boolean,
  ): { readonly status: number; readonly error: RpcError } | undefined {
    if (!acceptsBoth(incoming.headers.accept)) return { status: 406, error: acceptsOne };
    if (isInitialize) return session === undefined ? undefined : { status: 400, error: alreadyInitialized };
    const error = versionProblem(incoming);
    return error && { status: 400, error };
  }

  #initialize(exchanged: Exchanged, message: RpcRequest) {
    const { outgoing, caller } = exchanged;
    let session: HttpSession | undefined;
    try {
      session = this.#sessions.open(caller, message.params);
    } catch (thrown) {
      if (thrown instanceof RpcError) return refuse(outgoing, 400, thrown, message.id);
      throw thrown;
    }
    if (session === undefined) return refuse(outgoing, 503, tooManySessions, message.id);
    return this.#answer({ ...exchanged, session }, message, session);
  }

  /** Resolves when the request has been answered, or its client has gone. */
  #answer(exchanged: Exchanged, message: RpcRequest, peer: Peer): Promise<void> {
    const { caller, session } = exchanged;
    if (session !== undefined) this.#serving.clients.see(session.client, "legacy", caller, message.method);
    return new Promise((resolve) => {
      const reply = this.#reply(exchanged, resolve);
      const request = new ClientRequest(message, peer, reply, session?.requests);
      reply.requests.push(request);
      dispatch(this.#serving, request);
      if (request.stop === undefined) return;
      this.#watch(exchanged.incoming, exchanged.outgoing, caller, () => request.withdraw("its stream ended"));
      this.#answered();
    });
  }

  #reply({ incoming, outgoing, session }: Exchanged, resolve: () => void, batch?: number): HttpReply {
    this.#unanswered++;
    session?.keepBusy(outgoing);
    const reply = new HttpReply(outgoing, {
      session,
      ...(batch === undefined ? {} : { batch }),
      cutOff: this.#cutOff,
      done: () => {
        release();
        if (reply.requests[0]?.stop === undefined) this.#answered();
        resolve();
      },
    });
    // In a session too: an answer that did not reach its client cannot be asked for again.
    const release = whenGone(incoming, outgoing, () => {
      for (const request of reply.requests) request.withdraw("the client closed the connection");
    });
    return reply;
  }

  #answered(): void {
    this.#unanswered--;
    if (this.#unanswered === 0) this.#whenAnswered();
  }

  #takeBatch(exchanged: Exchanged, body: readonly unknown[]) {
    const { incoming, outgoing, caller, session } = exchanged;
    const batch = body.map(readRpc);
    const problem = wholeProblem(batch, session?.version ?? incoming.headers["mcp-protocol-version"]);
    if (problem !== undefined) return refuse(outgoing, 400, invalid(problem));
    const messages = batch.filter((message) => message !== undefined);
    const refusal = this.#legacyRefusal(exchanged, false);
    if (refusal !== undefined) return refuse(outgoing, refusal.status, refusal.error);
    const taken: RpcMessage[] = [];
    const refused: { readonly id: RpcId; readonly error: RpcError }[] = [];
    takeBatch(messages, (id) => session?.requests.has(id) === true, {
      take: (message) => void taken.push(message),
      refuse: (id, error) => void refused.push({ id, error }),
    });
    const begun = taken.filter(({ kind }) => kind === "request").length;
    if (begun === 0) {
      for (const message of taken) if (message.kind !== "request") hearFrom(message, session);
      if (refused.length > 0) {
        sendJson(outgoing, 400, `[${refused.map(({ id, error }) => errorText(id, error)).join(",")}]`);
      } else if (messages.some(({ kind }) => kind === "request")) sendNoEvents(outgoing);
      else outgoing.writeHead(202).end();
      return;
    }
    return new Promise<void>((resolve) => {
      const reply = this.#reply(exchanged, resolve, begun);
      for (const { id, error } of refused) reply.refuse(id, error);
      for (const message of taken) {
        if (message.kind !== "request") {
          hearFrom(message, session);
          continue;
        }
        const request = new ClientRequest(
          message,
          session ?? statelessPeer(caller),
          reply,
          session?.requests,
        );
        reply.requests.push(request);
        dispatch(this.#serving, request);
      }
    });
  }
}

/** Answers to questions of the rack, and cancellations. */
function hearFrom(message: Exclude<RpcMessage, RpcRequest>, session: HttpSession | undefined): void {
  if (message.kind === "response") session?.answer(message);
  else hear(message, session?.requests);
}

/** The versions that took batches away again, as far as they have sessions. */
const unbatched: ReadonlySet<unknown> = new Set(["2025-06-18", "2025-11-25"]);

/** Why a batch cannot be taken at all. */
function wholeProblem(batch: readonly (RpcMessage | undefined)[], version: unknown): string | undefined {
  if (unbatched.has(version)) {
    return `${version} has no batches, and this body is one. Send each message in a request of its own.`;
  }
  if (batch.length === 0) return "Bad Request: empty JSON-RPC batch";
  const problem = batchProblem(batch);
  if (problem !== undefined) return problem;
  for (const message of batch) {
    if (message === undefined) return "Bad Request: JSON-RPC batch contains an invalid message";
    if (message.kind === "response") continue;
    if (hasEnvelope(metaOf(message.params)))
      return `Bad Request: JSON-RPC batches may not contain requests for protocol revision ${modernVersion} or later`;
    if (message.method === "initialize") return "Invalid Request: Only one initialization request is allowed";
  }
  return undefined;
}

/** A client of the legacy era without a session: nothing is known of it, and it can be asked nothing. */
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

/** Grants stay the same from one request to the next, and so does what their callers see. */
const wholeCallers = new WeakMap<Grant, Caller>();

function wholeCallerOf(grant: Grant): Caller {
  const known = wholeCallers.get(grant);
  if (known !== undefined) return known;
  const caller = new Caller(grant);
  wholeCallers.set(grant, caller);
  return caller;
}

function callerOf(
  { url = "/" }: IncomingMessage,
  grant: Grant,
  experts: ExpertResolver | undefined,
): Caller | undefined {
  if (url === "/mcp") return wholeCallerOf(grant);
  const end = url.indexOf("?");
  const path = end === -1 ? url : url.slice(0, end);
  if (path === "/mcp" || path === "/mcp/") return wholeCallerOf(grant);
  const name = decoded(path.slice("/mcp/".length));
  const expert = name === undefined ? undefined : experts?.(name);
  return expert !== undefined && mayUseExpert(grant, expert) ? new Caller(grant, expert) : undefined;
}

/** The newer version has no sessions: what its clients send of one is of no account. */
function sessionIdOf({ headers }: IncomingMessage): string | undefined {
  const id = headers["mcp-session-id"];
  return typeof id === "string" && headers["mcp-protocol-version"] !== modernVersion ? id : undefined;
}

function versionProblem({ headers }: IncomingMessage): RpcError | undefined {
  const version = headers["mcp-protocol-version"];
  if (version === undefined || (typeof version === "string" && legacyVersions.includes(version)))
    return undefined;
  const supported = legacyVersions.join(", ");
  const message = `Bad Request: Unsupported protocol version: ${version} (supported versions: ${supported})`;
  return new RpcError(rpcCodes.refused, message);
}

function refuse(
  outgoing: ServerResponse,
  status: number,
  error: { readonly code: number; readonly message: string; readonly data?: unknown },
  id: RpcId | null = null,
  headers: HeaderList = [],
): void {
  const { code, message, data } = error;
  sendJson(outgoing, status, errorText(id, { code, message, data }), headers);
}

/** JSON is UTF-8; a body that says that it is something else is not read. */
function checkCharset({ headers }: IncomingMessage): void {
  const charset = /;\s*charset\s*=\s*"?([^";]*)/i.exec(headers["content-type"] ?? "")?.[1]?.trim();
  if (charset === undefined || /^utf-?8$/i.test(charset)) return;
  const text = `The body came with charset=${charset.slice(0, 100)}, and messages are read as UTF-8 alone. Send it in UTF-8.`;
  throw new HttpError("unsupported_media_type", text);
}

function refuseBody(outgoing: ServerResponse, { code, status, message, headers }: HttpError): void {
  const isUnread = code === "invalid_json" || code === "bad_request";
  const error = { code: isUnread ? rpcCodes.parseError : rpcCodes.invalidRequest, message };
  refuse(outgoing, status, error, null, Object.entries(headers).flat());
}

function invalid(message: string): RpcError {
  return new RpcError(rpcCodes.invalidRequest, message);
}

const noExpert = new RpcError(
  rpcCodes.unavailable,
  "There is no such expert for this token. Ask for its name, or for a token that may use it.",
);
const wrongMethod = new RpcError(
  rpcCodes.refused,
  "Messages are sent by POST. GET and DELETE are for sessions, which are named by Mcp-Session-Id.",
);
const acceptsOne = new RpcError(
  rpcCodes.refused,
  "Not Acceptable: Client must accept both application/json and text/event-stream",
);
const acceptsNoEvents = new RpcError(
  rpcCodes.refused,
  "Not Acceptable: Client must accept text/event-stream",
);
const secondStream = new RpcError(rpcCodes.refused, "Conflict: Only one SSE stream is allowed per session");
const alreadyInitialized = invalid("Invalid Request: Server already initialized");
const tooManySessions = new RpcError(
  rpcCodes.unavailable,
  `There are as many sessions as this server keeps, all of them busy. End one that is no longer needed, or use the version ${modernVersion}, which needs none.`,
);

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
    // What is not there is said here too: elsewhere who has no token is asked for one.
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

/** Where the metadata of what was asked for is, as a challenge names it. */
function metadataChallenge(incoming: IncomingMessage): string {
  const { pathname } = new URL(incoming.url ?? "/mcp", "http://localhost");
  return `resource_metadata="${originOf(incoming)}${WELL_KNOWN}${pathname}"`;
}

/** Whether the rack is served at this path: as a whole, or as one of its experts. */
function isMcpPath(path: string): boolean {
  return path === "/mcp" || path === "/mcp/" || /^\/mcp\/[^/]+$/.test(path);
}
