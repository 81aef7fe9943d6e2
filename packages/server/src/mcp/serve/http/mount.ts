import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { isLegacyRequest } from "@modelcontextprotocol/server";
import { tooMuchJson } from "@toolrack/core";
import { type Grant, GrantWatch } from "../../../access/index.ts";
import type { EndedCall } from "../../../calls/index.ts";
import type { Mount } from "../../../http/wire/index.ts";
import { HttpError, originOf } from "../../../http/wire/index.ts";
import { ChangePublisher, isListen, wantsResources, watchListened } from "../changes.ts";
import type { Exchange } from "../exchange.ts";
import { HotPath, modernVersion } from "../hot.ts";
import { type Audience, type ExpertResolver, mayUseExpert, Viewer } from "../lists.ts";
import { idOf, longestMessage } from "../messages.ts";
import { authInfoOf, type McpParts, SdkFaces } from "../surface.ts";
import { answerHot, answerLegacy, keepBusy, outletOf, sendJsonRpcError } from "./answers.ts";
import {
  paramMismatch,
  readMessage,
  type StreamOptions,
  type StreamWatch,
  sendWebResponse,
  toWebRequest,
} from "./messages.ts";
import { type LegacySession, LegacySessions, type SessionLimits } from "./sessions.ts";

export interface McpMountOptions {
  readonly sessions?: SessionLimits;
  /** The largest body, in bytes. Default 10 MiB. */
  readonly maxBody?: number;
}

const HEADER_MISMATCH = -32020;
const UNANSWERED = "its request could not be answered";

/** The rack at `/mcp` and `/mcp/{expert}`, for clients of all versions of the protocol. */
export function mcpMount(parts: McpParts, options: McpMountOptions = {}): Mount {
  const { maxBody = longestMessage } = options;
  const publisher = new ChangePublisher(parts, (uri) => faces.modern.notify.resourceUpdated(uri));
  const join = (audience: Audience) => publisher.join(audience);
  const sessions = new LegacySessions(parts, options.sessions, join);
  const faces = new SdkFaces(parts, join);
  const hot = new HotPath(parts, faces);
  const grants = new GrantWatch(parts.store, parts.logger);
  /** Who has no token any more, or whose expert is gone, is told nothing more; calls under way are still answered. */
  const watchFor =
    (viewer: Viewer): StreamWatch =>
    (end) => {
      const stops = [grants.watch(viewer.grant, end), parts.expertWatch.watch(viewer, end)];
      return () => {
        for (const stop of stops) stop();
      };
    };

  const cutOff = (reason: string) => parts.logger.warn(`An MCP client was cut off: ${reason}.`);

  const handle = async (incoming: IncomingMessage, outgoing: ServerResponse, grant: Grant) => {
    const asked = viewerOf(incoming, grant, parts.experts);
    if (asked === undefined) return refuseExpert(outgoing);
    const id = sessionIdOf(incoming);
    if (incoming.method !== "POST") {
      if (id === undefined || !ofSessions.has(incoming.method)) return refuseMethod(id, outgoing);
      const session = sessions.find(id, asked);
      if (session === undefined) return refuseSession(outgoing);
      keepBusy(session, outgoing);
      const response = await session.transport.handleRequest(toWebRequest(incoming, outgoing));
      return sendWebResponse(response, incoming, outgoing, { watch: watchFor(asked), cutOff });
    }
    const read = await readMessage(incoming, maxBody);
    if (!read.ok) {
      const { status, code, message, headers = {} } = read;
      return sendJsonRpcError(outgoing, status, code, message, { headers });
    }
    const excess = tooMuchJson(read.text);
    if (excess !== undefined) {
      return sendJsonRpcError(outgoing, 400, -32600, `The body has ${excess}. Send it in several parts.`);
    }
    let body: unknown;
    try {
      body = JSON.parse(read.text);
    } catch {
      return sendJsonRpcError(outgoing, 400, -32700, "The body is not JSON.");
    }
    if (typeof body !== "object" || body === null) {
      return sendJsonRpcError(outgoing, 400, -32600, "The body is not a JSON-RPC message.");
    }
    // Looked for once more, and only now: while the body came the expert may have changed, and the session ended.
    const viewer = viewerOf(incoming, grant, parts.experts);
    if (viewer === undefined) return refuseExpert(outgoing);
    const session = id === undefined ? undefined : sessions.find(id, viewer);
    if (id !== undefined && session === undefined) return refuseSession(outgoing);
    const problem = batchProblem(body, session, incoming.headers);
    if (problem !== undefined) return sendJsonRpcError(outgoing, 400, -32600, problem);
    parts.clients.see(body, viewer, session?.server.getClientVersion());
    return new Promise<void>((answered, failed) => {
      const handOn = (begun: Exchange<EndedCall> | undefined) => {
        const served = serveBySdk(viewer, session, incoming, outgoing, body, begun);
        answered(served);
        // Nobody would ever carry it to the client.
        return served.catch(() => begun?.cancel(UNANSWERED));
      };
      answerHot(hot, body, { viewer, session, incoming, outgoing }, { answered, handOn, failed });
    });
  };

  const serveBySdk = async (
    viewer: Viewer,
    session: LegacySession | undefined,
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    body: unknown,
    begun: Exchange<EndedCall> | undefined,
  ) => {
    const request = toWebRequest(incoming, outgoing);
    const given = { parsedBody: body, authInfo: authInfoOf(viewer, begun, outletOf(outgoing)) };
    const send = (response: Response, options?: StreamOptions) => {
      if (!response.ok) begun?.cancel(UNANSWERED);
      return sendWebResponse(response, incoming, outgoing, { cutOff, ...options });
    };
    if (!(await isLegacyRequest(request, body))) {
      const mismatch = headerMismatch(parts, viewer, body, incoming.headers);
      if (mismatch !== undefined) {
        begun?.cancel(UNANSWERED);
        return sendJsonRpcError(outgoing, 400, HEADER_MISMATCH, mismatch, { id: idOf(body) });
      }
      if (!isListen(body)) return send(await faces.modern.fetch(request, given));
      const watch = watchFor(viewer);
      if (!wantsResources(body)) return send(await faces.listen(viewer, request, body), { watch });
      const listened = await watchListened(parts, viewer, body);
      outgoing.once("close", listened.stop);
      if (outgoing.closed) listened.stop();
      return send(await faces.listen(viewer, request, listened.message), { watch });
    }
    const isNew = session === undefined && isInitialize(body);
    const opened = isNew ? await sessions.open(viewer) : session;
    if (!isNew || opened !== undefined) {
      const { stateless } = faces;
      const { authInfo } = given;
      const place = { request, incoming, outgoing, session: opened, stateless, authInfo, cutOff };
      try {
        const isAnswered = await answerLegacy(place, body, begun);
        if (!isAnswered) begun?.cancel(UNANSWERED);
      } finally {
        if (isNew && opened !== undefined) sessions.discard(opened);
      }
      return;
    }
    const advice = `There are as many sessions as this server keeps, all of them busy. End one that is no longer needed, or use the version ${modernVersion}, which needs none.`;
    sendJsonRpcError(outgoing, 503, -32001, advice, { id: idOf(body) });
  };

  return {
    access: "token",
    owns: isMcpPath,
    handle: (incoming, outgoing, grant) => handle(incoming, outgoing, grant!), // `access` says that there is one.
    challenge: metadataChallenge,
    close() {
      publisher.stop();
      sessions.close();
      void faces.modern.close();
    },
  };
}

/** Grants stay the same from one request to the next, and so does what their bearers see. */
const wholeViewers = new WeakMap<Grant, Viewer>();

function wholeViewerOf(grant: Grant): Viewer {
  const known = wholeViewers.get(grant);
  if (known !== undefined) return known;
  const viewer = new Viewer(grant);
  wholeViewers.set(grant, viewer);
  return viewer;
}

function viewerOf(
  { url = "/" }: IncomingMessage,
  grant: Grant,
  experts: ExpertResolver | undefined,
): Viewer | undefined {
  if (url === "/mcp") return wholeViewerOf(grant);
  const end = url.indexOf("?");
  const path = end === -1 ? url : url.slice(0, end);
  if (path === "/mcp" || path === "/mcp/") return wholeViewerOf(grant);
  const name = decode(path.slice("/mcp/".length));
  const expert = name === undefined ? undefined : experts?.(name);
  return expert !== undefined && mayUseExpert(grant, expert) ? new Viewer(grant, expert) : undefined;
}

function isInitialize(body: unknown): boolean {
  return (body as { method?: unknown } | null)?.method === "initialize";
}

/** The newer version has no sessions: what its clients send of one is of no account. */
function sessionIdOf({ headers }: IncomingMessage): string | undefined {
  const id = headers["mcp-session-id"];
  return typeof id === "string" && headers["mcp-protocol-version"] !== modernVersion ? id : undefined;
}

/** Only sessions have a stream to be read, and an end. */
const ofSessions: ReadonlySet<unknown> = new Set(["GET", "DELETE"]);

function refuseMethod(id: string | undefined, outgoing: ServerResponse): void {
  const headers = { Allow: id === undefined ? "POST" : "GET, POST, DELETE" };
  const advice =
    "Messages are sent by POST. GET and DELETE are for sessions, which are named by Mcp-Session-Id.";
  sendJsonRpcError(outgoing, 405, -32000, advice, { headers });
}

function refuseExpert(outgoing: ServerResponse): void {
  const advice = "There is no such expert for this token. Ask for its name, or for a token that may use it.";
  sendJsonRpcError(outgoing, 404, -32001, advice);
}

/** By this status a client knows that it has to begin anew. */
function refuseSession(outgoing: ServerResponse): void {
  sendJsonRpcError(outgoing, 404, -32001, "There is no such session. Initialize a new one.");
}

function decode(text: string): string | undefined {
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

/**
 * Whether an `Accept` header takes a type, such as `text/event-stream`: of the ranges that cover it the closest counts,
 * and with a weight of zero it refuses. Who sends none has not said what it takes.
 */
export function accepts(header: string, type: string): boolean {
  const ranges = [type, `${type.slice(0, type.indexOf("/"))}/*`, "*/*"];
  let closest = ranges.length;
  let isTaken = false;
  for (const part of header.split(",")) {
    const [range = "", ...parameters] = part.split(";").map((text) => text.trim().toLowerCase());
    const distance = ranges.indexOf(range);
    if (distance === -1 || distance > closest) continue;
    const isRefused = parameters.some((parameter) => NOTHING.test(parameter));
    isTaken = (distance === closest && isTaken) || !isRefused;
    closest = distance;
  }
  return isTaken;
}

const NOTHING = /^q\s*=\s*0(?:\.0*)?$/;

/** The versions that took batches away again, as far as they have sessions. */
const unbatched: ReadonlySet<unknown> = new Set(["2025-06-18", "2025-11-25"]);

/** Why a body cannot be taken, when it is a batch in a version that has none. The session's version comes first. */
function batchProblem(
  body: object,
  session: LegacySession | undefined,
  headers: IncomingHttpHeaders,
): string | undefined {
  if (!Array.isArray(body)) return undefined;
  const version = session?.server.getNegotiatedProtocolVersion() ?? headers["mcp-protocol-version"];
  if (!unbatched.has(version)) return undefined;
  return `${version} has no batches, and this body is one. Send each message in a request of its own.`;
}

const taskMethods: ReadonlySet<unknown> = new Set(["tasks/get", "tasks/update", "tasks/cancel"]);

/** Says how headers and body disagree, where the SDK does not look: at arguments, and at the ids of tasks. */
function headerMismatch(
  { registry }: Pick<McpParts, "registry">,
  viewer: Viewer,
  body: unknown,
  headers: IncomingHttpHeaders,
): string | undefined {
  const { method, params } = body as {
    method?: unknown;
    params?: { name?: unknown; taskId?: unknown; arguments?: unknown };
  };
  if (taskMethods.has(method)) {
    const isSame = headers["mcp-name"] === params?.taskId;
    return isSame ? undefined : "The header Mcp-Name and the taskId in the body differ.";
  }
  if (method !== "tools/call" || typeof params?.name !== "string") return undefined;
  const tool = registry.get(params.name);
  return tool === undefined || !viewer.sees(tool)
    ? undefined
    : paramMismatch(tool, params.arguments, headers);
}
